"""The plan of an evaluation and its compiled scorer."""
