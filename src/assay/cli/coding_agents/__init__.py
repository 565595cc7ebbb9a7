"""Verbs for coding agents."""
