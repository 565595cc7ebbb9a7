"""`assay list`, `show`, `diff`, `export`, `delete` and `gc`."""
