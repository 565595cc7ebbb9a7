"""`assay serve`, `worker` and `view`."""
