"""Streams, tables, help and options of the command."""
