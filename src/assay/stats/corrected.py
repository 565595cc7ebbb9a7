"""
The mean of a judge corrected by human labels (PPI++: A. Angelopoulos, J. Duchi, T. Zrnic, 2023).

The labels must be a random sample of the judged cases, each drawn with the same probability. Every case has a
judgement, so the judge removes variance; the labels remove its bias. A useless judge gets the weight 0.

The corrected mean is that of person - weight * judge over the labels, plus weight * the mean of the judge over all
cases. Both are means of one value a case in a known range, with Gaffke's limits. Their distances from the means add up
as squares (G. Zou, A. Donner, 2008).
"""

from collections.abc import Sequence
from math import fsum, hypot

from msgspec import Struct

from assay.errors import InvalidRequest
from assay.stats.intervals import CONFIDENCE, UNIT, Mean, Range, mean_of


class Label(Struct, frozen=True):
    """A case with a human label: what the judge said, and what the person said, from 0 to 1."""

    judged: float
    human: float


class CorrectedMean(Struct, frozen=True):
    """
    `mean` is corrected, `uncorrected` is the judge's own.

    `bias` is judge minus person, over the labels. Each has its 95% limits.

    `weight` is the share of the judge's information that is used (lambda).
    """

    mean: float
    low: float
    high: float
    uncorrected: float
    bias: float
    bias_low: float
    bias_high: float
    weight: float
    labels: int
    cases: int
    level: float


def corrected_mean(
    judged: Sequence[float], labels: Sequence[Label], *, weight: float | None = None
) -> CorrectedMean:
    """
    The mean over all cases as people would have judged them. `judged` are the judgements of all cases, labelled or not.

    `weight` replaces the one that makes the interval shortest: 0 uses the labels alone, 1 trusts the judge fully.
    """
    cases, count = len(judged), len(labels)
    if not count or count > cases:
        raise InvalidRequest(f"expected 1 to {cases} labels, one for each case at most, got {count}")
    for value in (*judged, *(value for one in labels for value in (one.judged, one.human))):
        if not 0 <= value <= 1:
            raise InvalidRequest(f"expected scores from 0 to 1, got {value:g}")
    weight = _best_weight(labels) if weight is None else weight
    machine, machine_low, machine_high = _limits(judged, UNIT)
    rest, rest_low, rest_high = _limits([one.human - weight * one.judged for one in labels], (-weight, 1.0))
    bias, bias_low, bias_high = _limits([one.judged - one.human for one in labels], (-1.0, 1.0))
    mean = min(1.0, max(0.0, rest + weight * machine))
    return CorrectedMean(
        mean=mean,
        low=max(0.0, mean - hypot(rest - rest_low, weight * (machine - machine_low))),
        high=min(1.0, mean + hypot(rest_high - rest, weight * (machine_high - machine))),
        uncorrected=machine,
        bias=bias,
        bias_low=bias_low,
        bias_high=bias_high,
        weight=weight,
        labels=count,
        cases=cases,
        level=CONFIDENCE,
    )


def _limits(values: Sequence[float], limits: Range) -> tuple[float, float, float]:
    """The mean of the values, and its limits. A value may leave the range by a rounding error."""
    found: Mean = mean_of([min(max(value, limits[0]), limits[1]) for value in values], len(values), limits)
    assert found.low is not None
    assert found.high is not None
    return found.mean, found.low, found.high


def _best_weight(labels: Sequence[Label]) -> float:
    """
    Covariance of person and judge over the variance of the judge, from 0 to 1. 0 if the judge always says the same.
    """
    people = fsum(one.human for one in labels) / len(labels)
    machine = fsum(one.judged for one in labels) / len(labels)
    spread = fsum((one.judged - machine) ** 2 for one in labels)
    if not spread:
        return 0.0
    together = fsum((one.human - people) * (one.judged - machine) for one in labels)
    return min(1.0, max(0.0, together / spread))
