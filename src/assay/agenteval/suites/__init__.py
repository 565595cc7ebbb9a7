"""Suites: reading, writing, storing."""
