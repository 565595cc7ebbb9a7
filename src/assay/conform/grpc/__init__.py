"""The checks of FEP over gRPC. Only `client.py` and `messages.py` need the extra `grpc`."""
