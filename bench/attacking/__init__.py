"""Attacks by family; `bench.attacks` has the table of them all."""
