"""Batches of Arrow: a scorer for the engines that users have, and summaries that add up."""

from assay.batch.arrow_scorer import ArrowScorer, scorer

__all__ = ["ArrowScorer", "scorer"]
