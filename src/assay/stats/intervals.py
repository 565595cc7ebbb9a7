"""
How sure we are of an aggregate (decision 46): a case with all its repeats is one cluster, and clusters are what counts.

A rate has Wilson's interval, which holds at 0, at 1 and for few cases, on as many answers as the clusters are worth.
A mean has the interval of Student's t on the means of the clusters.
"""

from collections.abc import Iterable, Mapping
from math import fsum, sqrt
from statistics import NormalDist

from msgspec import Struct

from assay.stats.student import t_reach

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Rate(Struct, frozen=True):
    """A share with its 95% interval. `of` is the number of answers, `cases` the number of cases."""

    rate: float
    low: float
    high: float
    of: int
    cases: int


class Mean(Struct, frozen=True):
    """A mean with its 95% interval, which one case alone does not have."""

    mean: float
    low: float | None
    high: float | None
    of: int
    cases: int


def wilson(rate: float, size: float) -> tuple[float, float]:
    """The score interval of a rate of `size` answers, which need not be a whole number; of none, nothing is known: (0, 1)."""
    if size == 0:
        return 0.0, 1.0
    square = Z * Z / size
    middle = (rate + square / 2) / (1 + square)
    reach = Z * sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    return (0.0 if rate == 0 else middle - reach), (1.0 if rate == 1 else middle + reach)


def effective_size(rate: float, rates: Mapping[float, int], answers: int) -> float:
    """
    How many independent answers the clusters are worth: p(1-p) / (s²/G), at most all answers; G where s² is 0.

    `rates` are the rates of the clusters, each with the number of clusters that have it.
    """
    cases = sum(rates.values())
    if len(rates) <= 1:
        return cases
    middle = fsum(one * many for one, many in rates.items()) / cases
    variance = fsum((one - middle) ** 2 * many for one, many in rates.items()) / cases
    return min(float(answers), rate * (1 - rate) * cases / variance)


def clustered_rate(rate: float, rates: Mapping[float, int], answers: int) -> Rate:
    """A rate of so many answers, from the rates of the cases."""
    low, high = wilson(rate, effective_size(rate, rates, answers))
    return Rate(rate, low, high, answers, sum(rates.values()))


def counted_rate(clusters: Mapping[tuple[int, int], int]) -> Rate | None:
    """The same from counts: for every (passed, answers) that a case has, how many cases have it."""
    passed = sum(one * many for (one, _), many in clusters.items())
    answers = sum(of * many for (_, of), many in clusters.items())
    if not answers:
        return None
    rate = passed / answers
    if all(of == 1 for _, of in clusters):  # then the formula comes to the number of cases
        low, high = wilson(rate, answers)
        return Rate(rate, low, high, answers, answers)
    rates: dict[float, int] = {}
    for (one, of), many in clusters.items():
        rates[one / of] = rates.get(one / of, 0) + many
    return clustered_rate(rate, rates, answers)


def clustered_mean(means: Iterable[float], answers: int) -> Mean:
    """A mean over cases, from the means of the cases, which are read several times. Their order changes nothing."""
    cases = sum(1 for _ in means)
    try:
        mean = fsum(means) / cases
    except OverflowError:  # a float does not hold their sum, and holds their mean
        mean = fsum(one / cases for one in means)
    low, high = t_interval(mean, means, cases) or (None, None)
    return Mean(mean, low, high, answers, cases)


def t_interval(mean: float, means: Iterable[float], cases: int) -> tuple[float, float] | None:
    """None for one case, which says nothing of others, and where the numbers are too large for their squares."""
    if cases < 2:
        return None
    try:
        reach = t_reach(sqrt(fsum((one - mean) ** 2 for one in means) / (cases - 1)), cases, CONFIDENCE)
    except OverflowError:
        return None
    return mean - reach, mean + reach
