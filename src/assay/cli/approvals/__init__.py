"""`assay verify`, `respond` and `assay deploy`."""
