"""What assay stands on, one file a port; nothing here knows what it is used for."""
