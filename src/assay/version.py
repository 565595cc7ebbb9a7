"""The version of assay. The build reads it from here, so it does not depend on the metadata of an installation."""

__version__ = "0.1.0"
