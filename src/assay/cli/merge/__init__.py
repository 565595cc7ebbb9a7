"""Joins the results of the shards of a run."""
