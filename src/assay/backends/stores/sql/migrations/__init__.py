"""The schema of the store."""
