"""`assay compare`, `gate`, `report` and `history`."""
