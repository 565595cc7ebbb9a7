"""Texts of results for a terminal."""
