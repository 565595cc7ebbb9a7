"""Who places texts in a space (FEP 2.3.6): endpoints, and wordllama where there is none."""
