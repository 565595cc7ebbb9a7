"""Files, rows and contexts that an evaluation reads."""
