"""`assay run`, `suite`, `judge` and `annotate`."""
