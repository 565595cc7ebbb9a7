"""Batches of Arrow: a scorer for the engines that users have, and summaries that add up."""

from assay.batch.arrow_scorer import ArrowScorer, scorer
from assay.batch.summary import Summary, summarize

__all__ = ["ArrowScorer", "Summary", "scorer", "summarize"]
