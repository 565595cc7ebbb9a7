"""`assay admin key`, `rekey` and `audit`, and `assay schema`, `providers` and `pack`."""
