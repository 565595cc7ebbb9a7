"""Embedders (FEP 2.3.6): endpoints, and wordllama, which works offline."""
