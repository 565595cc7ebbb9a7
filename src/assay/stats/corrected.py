"""
The mean of a judge corrected by human labels (PPI++: A. Angelopoulos, J. Duchi, T. Zrnic, 2023).

The labels must be a random sample of the judged cases, and each has the probability with which it was drawn. Every case has a
judgement, so the judge removes variance; the labels remove its bias. A useless judge gets the weight 0.
"""

from collections.abc import Sequence
from math import fsum, sqrt

from msgspec import Struct

from assay.errors import InvalidRequest
from assay.stats.distributions import student_quantile
from assay.stats.paired import LEVEL

TINY = 1e-20  # a variance below this is 0 with rounding errors


class Label(Struct, frozen=True):
    """A case with a human label: what the judge said, what the person said, and the probability that it was drawn."""

    judged: float
    human: float
    probability: float


class CorrectedMean(Struct, frozen=True):
    """
    `mean` is corrected, `uncorrected` is the judge's own. `bias` is judge minus person, over the labels.

    The limits are None for fewer than two labels, and if the labels show no spread at all. `weight` is the share of the judge's information that is used (lambda).
    """

    mean: float
    low: float | None
    high: float | None
    uncorrected: float
    bias: float
    bias_low: float | None
    bias_high: float | None
    weight: float
    labels: int
    cases: int
    level: float


def corrected_mean(
    judged: Sequence[float], labels: Sequence[Label], *, level: float = LEVEL, weight: float | None = None
) -> CorrectedMean:
    """
    The mean over all cases as people would have judged them. `judged` are the judgements of all cases, labelled or not.

    `weight` replaces the one that makes the interval shortest: 0 uses the labels alone, 1 trusts the judge fully.
    """
    cases, count = len(judged), len(labels)
    if not count or count > cases:
        raise InvalidRequest(f"expected 1 to {cases} labels, one for each case at most, got {count}")
    for label in labels:
        if not 0 < label.probability <= 1:
            raise InvalidRequest(
                f"expected a probability above 0 and at most 1 for each label, got {label.probability:g}"
            )
    shares = _shares(labels)
    people = _weighted([one.human for one in labels], shares)
    machine = _weighted([one.judged for one in labels], shares)
    uncorrected = fsum(judged) / cases
    weight = _best_weight(labels, shares, people, machine) if weight is None else weight
    mean = people + weight * (uncorrected - machine)
    bias = machine - people
    residuals = [one.human - weight * one.judged for one in labels]
    reach = bias_reach = None
    if count > 1:
        quantile = student_quantile((1 + level) / 2, count - 1)
        # Two sources of chance: which cases the run has, and which of those were labelled.
        across = _variance([one.human for one in labels], shares, people) * count / (count - 1) / cases
        reach = _reach(quantile, across + _sampling_variance(labels, shares, residuals))
        errors = [one.judged - one.human for one in labels]
        bias_across = _variance(errors, shares, bias) * count / (count - 1) / cases
        bias_reach = _reach(quantile, bias_across + _sampling_variance(labels, shares, errors))
    return CorrectedMean(
        mean=mean,
        low=None if reach is None else mean - reach,
        high=None if reach is None else mean + reach,
        uncorrected=uncorrected,
        bias=bias,
        bias_low=None if bias_reach is None else bias - bias_reach,
        bias_high=None if bias_reach is None else bias + bias_reach,
        weight=weight,
        labels=count,
        cases=cases,
        level=level,
    )


def _reach(quantile: float, variance: float) -> float | None:
    """Half the width of an interval. None instead of 0: some equal labels do not make anything certain."""
    return quantile * sqrt(variance) if variance > TINY else None


def _shares(labels: Sequence[Label]) -> list[float]:
    """The share of all cases that each label stands for: a rare draw stands for more."""
    total = fsum(1 / one.probability for one in labels)
    return [1 / one.probability / total for one in labels]


def _weighted(values: Sequence[float], shares: Sequence[float]) -> float:
    return fsum(value * share for value, share in zip(values, shares, strict=True))


def _variance(values: Sequence[float], shares: Sequence[float], mean: float) -> float:
    return fsum(share * (value - mean) ** 2 for value, share in zip(values, shares, strict=True))


def _best_weight(labels: Sequence[Label], shares: Sequence[float], people: float, machine: float) -> float:
    """Covariance of person and judge over the variance of the judge. 0 if the judge always says the same."""
    spread = _variance([one.judged for one in labels], shares, machine)
    if not spread:
        return 0.0
    together = fsum(
        share * (one.human - people) * (one.judged - machine)
        for one, share in zip(labels, shares, strict=True)
    )
    return together / spread


def _sampling_variance(labels: Sequence[Label], shares: Sequence[float], values: Sequence[float]) -> float:
    """The variance of a weighted mean because only some cases were drawn. It is 0 if every case was."""
    mean, count = _weighted(values, shares), len(labels)
    drawn = fsum(
        (1 - one.probability) * (share * (value - mean)) ** 2
        for one, share, value in zip(labels, shares, values, strict=True)
    )
    return drawn * count / (count - 1)
