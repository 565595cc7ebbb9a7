"""Threads, processes and event loops for foreign or heavy code."""
