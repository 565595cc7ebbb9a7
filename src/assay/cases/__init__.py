"""The table of the cases of a run: outcomes of a unit, the fold, pages, search."""
