"""FEP over gRPC (FEP 5.2), with the executor, the runs and the limits of REST."""
