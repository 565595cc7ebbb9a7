"""`assay key`, `rekey`, `schema`, `audit`, `providers` and `pack`."""
