"""`assay evaluate`."""
