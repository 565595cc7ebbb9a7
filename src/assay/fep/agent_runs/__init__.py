"""Evaluations whose outputs come from an agent."""
