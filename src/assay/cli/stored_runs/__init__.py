"""`assay list`, `show`, `diff`, `export`, and `assay admin delete` and `gc`."""
