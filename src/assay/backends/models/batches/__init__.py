"""Batches of providers: two protocols, and the model that waits for them."""
