"""Who answers a judge's question (FEP 2.3.6): endpoints, a script, and a cache before either."""
