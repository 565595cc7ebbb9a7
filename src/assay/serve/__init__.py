"""The server: FEP over HTTP and gRPC, OpenWOP over HTTP."""
