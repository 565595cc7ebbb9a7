"""Runs of every kind as a page or a program reads them: lists, one run, its cases, one case, search."""
