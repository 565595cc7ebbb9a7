"""Compares medians and 95th percentiles of two runs: metrics that are not means, by the BCa bootstrap."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.comparison.metric import Quantile
from assay.comparison.pairing import CasePair
from assay.errors import InvalidRequest, Problem
from assay.stats.bootstrap import bootstrap_interval
from assay.stats.distributions import numpy
from assay.stats.paired import PairedResult


def quantile_interval(name: str, quantile: Quantile, pairs: Iterable[CasePair], level: float) -> PairedResult:
    """
    The difference of the quantile over cases. Raises InvalidRequest if the bootstrap has too few cases, or too many.
    """
    before: list[float] = []
    after: list[float] = []
    for pair in pairs:
        before.append(pair.before)
        after.append(pair.after)
    try:
        return bootstrap_interval(_STATISTICS[quantile], before, after, level=level)
    except InvalidRequest as refusal:
        mean = name.partition(":")[0]
        raise InvalidRequest(Problem(f"--metric {name}", f"{refusal}: --metric {mean}")) from None


def _median(values: Any, axis: int) -> Any:
    return numpy().median(values, axis=axis)


def _p95(values: Any, axis: int) -> Any:
    """By nearest rank, as scorecards have it."""
    return numpy().quantile(values, 0.95, axis=axis, method="inverted_cdf")


_STATISTICS: Mapping[Quantile, Callable[[Any, int], Any]] = {"median": _median, "p95": _p95}
