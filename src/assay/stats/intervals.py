"""
Confidence intervals of rates and means (decision 46). A case with all its repeats is one cluster.

A rate has Wilson's interval, which is valid at 0, at 1 and for few cases. Its sample size is the effective number of
independent answers. A mean has the interval of Student's t over the means of the clusters.
"""

from collections.abc import Iterable, Mapping
from math import fsum, sqrt
from typing import Literal

from msgspec import Struct

from assay.stats.student import t_reach

CONFIDENCE = 0.95
Z = 1.9599639845400536  # NormalDist().inv_cdf((1 + CONFIDENCE) / 2); a number, as `statistics` loads slowly; a test compares them


RateMethod = Literal["wilson", "clustered-wilson"]
MeanMethod = Literal["t", "clustered-t", "none"]
METHOD_NAMES = {
    "wilson": "Wilson",
    "clustered-wilson": "clustered Wilson",
    "t": "t",
    "clustered-t": "clustered t",
    "none": "no interval",
}


class Rate(Struct, frozen=True):
    """
    A share with its 95% interval. `of` is the number of answers, `cases` the number of cases.

    `method` names the interval: `wilson` over cases with one answer each, `clustered-wilson` over the effective number of answers.
    """

    rate: float
    low: float
    high: float
    of: int
    cases: int
    method: RateMethod = "wilson"


class Mean(Struct, frozen=True):
    """
    A mean with its 95% interval. One case alone has no interval.

    `method` names the interval: `t` over cases with one number each, `clustered-t` over the means of the cases.
    """

    mean: float
    low: float | None
    high: float | None
    of: int
    cases: int
    method: MeanMethod = "t"


def wilson(rate: float, size: float) -> tuple[float, float]:
    """Wilson's score interval of a rate of `size` answers, which need not be an integer. Without answers it is (0, 1)."""
    if size == 0:
        return 0.0, 1.0
    square = Z * Z / size
    middle = (rate + square / 2) / (1 + square)
    reach = Z * sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    return (0.0 if rate == 0 else middle - reach), (1.0 if rate == 1 else middle + reach)


def effective_size(rate: float, rates: Mapping[float, int], answers: int) -> float:
    """
    The effective number of independent answers: p(1-p) / (s²/G), at most the number of answers; G if s² is 0.

    `rates` are the rates of the clusters, each with the number of clusters that have it.
    """
    cases = sum(rates.values())
    if len(rates) <= 1:
        return cases
    middle = fsum(one * many for one, many in rates.items()) / cases
    variance = fsum((one - middle) ** 2 * many for one, many in rates.items()) / cases
    return min(float(answers), rate * (1 - rate) * cases / variance)


def clustered_rate(rate: float, rates: Mapping[float, int], answers: int) -> Rate:
    """A rate of `answers` answers, from the rates of the cases."""
    low, high = wilson(rate, effective_size(rate, rates, answers))
    return Rate(rate, low, high, answers, sum(rates.values()), "clustered-wilson")


def counted_rate(clusters: Mapping[tuple[int, int], int]) -> Rate | None:
    """A rate from counts: for every (passed, answers) of a case, the number of such cases."""
    passed = sum(one * many for (one, _), many in clusters.items())
    answers = sum(of * many for (_, of), many in clusters.items())
    if not answers:
        return None
    rate = passed / answers
    if all(of == 1 for _, of in clusters):  # the formula then gives the number of cases
        low, high = wilson(rate, answers)
        return Rate(rate, low, high, answers, answers)
    rates: dict[float, int] = {}
    for (one, of), many in clusters.items():
        rates[one / of] = rates.get(one / of, 0) + many
    return clustered_rate(rate, rates, answers)


def clustered_mean(means: Iterable[float], answers: int) -> Mean:
    """The mean over cases, from the means of the cases, which are iterated several times. Their order has no effect."""
    cases = sum(1 for _ in means)
    try:
        mean = fsum(means) / cases
    except OverflowError:  # the sum exceeds the range of a float, but the mean does not
        mean = fsum(one / cases for one in means)
    low, high = t_interval(mean, means, cases) or (None, None)
    method: MeanMethod = "none" if low is None else "t" if answers == cases else "clustered-t"
    return Mean(mean, low, high, answers, cases, method)


def t_interval(mean: float, means: Iterable[float], cases: int) -> tuple[float, float] | None:
    """The interval of a mean. None for one case, and if the squares of the numbers exceed the range of a float."""
    if cases < 2:
        return None
    try:
        reach = t_reach(sqrt(fsum((one - mean) ** 2 for one in means) / (cases - 1)), cases, CONFIDENCE)
    except OverflowError:
        return None
    return mean - reach, mean + reach
