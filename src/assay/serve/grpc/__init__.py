"""FEP over gRPC (FEP 5.2): the same desk, the same runs as REST."""
