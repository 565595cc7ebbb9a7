"""The standard checks, one file each."""
