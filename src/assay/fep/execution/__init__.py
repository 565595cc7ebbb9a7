"""Runs the scorer over cases: at once, in a stream, with checks that wait."""
