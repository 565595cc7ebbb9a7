"""Scores of one trial: expectations, rubric, detectors."""
