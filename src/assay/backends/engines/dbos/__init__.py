"""Shares units between worker processes through DBOS on PostgreSQL (decision 0072)."""
