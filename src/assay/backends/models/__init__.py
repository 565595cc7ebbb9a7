"""Models (FEP 2.3.6): endpoints, scripts, and a cache in front of them."""
