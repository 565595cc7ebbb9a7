"""Windows of received traces: each is a stored evaluation."""
