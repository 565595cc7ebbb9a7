"""Engines that run units of work."""
