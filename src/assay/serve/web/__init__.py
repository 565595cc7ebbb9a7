"""FEP over HTTP (FEP 5.1), with the twins of what gRPC has (decision 3)."""
