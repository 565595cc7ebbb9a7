"""FEP over HTTP (FEP 5.1): evaluations, operations, batches, checks and event streams."""
