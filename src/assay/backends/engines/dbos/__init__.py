"""Shares units between worker processes through DBOS on PostgreSQL (ADR-0072)."""
