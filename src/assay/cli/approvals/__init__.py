"""`assay verify`, `respond`, `promote`, `rollback` and `deployments`."""
