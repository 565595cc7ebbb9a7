"""Comparisons and histories as a page shows them."""
