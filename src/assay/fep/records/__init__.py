"""Stored evaluations: the kind of run, saving, reading, erasing."""
