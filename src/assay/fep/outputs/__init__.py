"""Files and results that an evaluation writes."""
