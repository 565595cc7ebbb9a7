"""
The interval of a number of one run (FEP-52). A case with all its answers and repeats has one value.

- A rate of one answer a case has Wilson's interval. Scores of one answer a case are such a rate if every one of them is
  0 or 1.
- Any other number with a known range is the mean of one value a case, and has Gaffke's interval.
- A number without a known range has the interval of Student's t from MIN_T_CASES cases on. Below, there are too few.
"""

from collections.abc import Iterable, Mapping
from math import fsum, log, sqrt
from typing import Literal

from msgspec import Struct

from assay.stats.gaffke import Z, count_values, mean_limits
from assay.stats.student import t_reach

CONFIDENCE = 0.95
MIN_T_CASES = 30
RARE_SIZES = range(10, 18)  # cases of which one alone passed or failed, and Wilson's limit needs a correction

RateMethod = Literal["wilson", "gaffke"]
Method = Literal["wilson", "gaffke", "t", "too-few", "none"]
METHOD_NAMES: Mapping[Method, str] = {
    "wilson": "Wilson",
    "gaffke": "Gaffke",
    "t": "t",
    "too-few": "too few cases",
    "none": "no interval",
}
Range = tuple[float, float]
UNIT: Range = (0.0, 1.0)  # of a score
Shares = Mapping[
    tuple[int, int], int
]  # from the share of a case, as (part, whole), to the number of such cases


class Rate(Struct, frozen=True):
    """
    A share with its 95% interval. `of` is the number of answers, `cases` the number of cases.

    With one answer a case it is the share of the cases, and `method` is `wilson`. Otherwise it is the mean over the
    cases of their own shares, and `method` is `gaffke`.
    """

    rate: float
    low: float
    high: float
    of: int
    cases: int
    method: RateMethod = "wilson"


class Mean(Struct, frozen=True):
    """
    The mean over cases of their own means, with its 95% interval.

    `of` is the number of answers, `cases` the number of cases.

    `method` is `gaffke` for numbers with a known range (`wilson` for single answers of 0 and 1), else `t`. The limits
    are None for `too-few`, fewer than MIN_T_CASES cases without a known range, and for `none`: the numbers are all
    equal, or their squares exceed a float.
    """

    mean: float
    low: float | None
    high: float | None
    of: int
    cases: int
    method: Method


def wilson(rate: float, size: float) -> tuple[float, float]:
    """
    Wilson's score interval of a rate of `size` answers. Without answers it is (0, 1).

    Where one alone of 10 to 17 passed or failed, it would exclude 1% and 99%, which would then be in the interval too
    rarely. There the outer limit is that of Brown, Cai and DasGupta (2001).
    """
    if size == 0:
        return 0.0, 1.0
    square = Z * Z / size
    middle = (rate + square / 2) / (1 + square)
    reach = Z * sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    low, high = (0.0 if rate == 0 else middle - reach), (1.0 if rate == 1 else middle + reach)
    if size in RARE_SIZES:
        single = round(rate * size)
        if single == 1:
            low = -log(CONFIDENCE) / size
        elif single == size - 1:
            high = 1 + log(CONFIDENCE) / size
    return low, high


def counted_rate(clusters: Shares) -> Rate | None:
    """The rate of cases, from the number of cases for every (passed, answers). None without answers."""
    clusters = {share: cases for share, cases in clusters.items() if share[1] and cases}
    if not clusters:
        return None
    answers = sum(of * cases for (_, of), cases in clusters.items())
    if any(of > 1 for _, of in clusters):
        return mean_share(clusters, answers)
    rate = clusters.get((1, 1), 0) / answers
    return Rate(rate, *wilson(rate, answers), answers, answers)


def mean_share(shares: Shares, answers: int) -> Rate:
    """The mean of one share a case, from `answers` answers of all cases."""
    values: dict[float, int] = {}
    sums: dict[int, int] = {}
    for (part, whole), cases in shares.items():
        values[part / whole] = values.get(part / whole, 0) + cases
        sums[whole] = sums.get(whole, 0) + part * cases
    count = sum(shares.values())
    if len(sums) == 1:  # one division, so that the mean is rounded once
        rate = sum(sums.values()) / (count * next(iter(sums)))
    else:
        rate = fsum(total / whole for whole, total in sums.items()) / count
    low, high = mean_limits(values)
    return Rate(rate, min(low, rate), max(high, rate), answers, count, "gaffke")


def mean_of(values: Iterable[float], answers: int, limits: Range | None) -> Mean:
    """
    The mean of one value a case, from `answers` answers. `limits` is the range of the values, None if it is not known.

    The values are iterated several times. Their order has no effect.
    """
    cases = sum(1 for _ in values)
    try:
        mean = fsum(values) / cases
    except OverflowError:  # the sum exceeds the range of a float, but the mean does not
        mean = fsum(one / cases for one in values)
    if limits is not None and limits[0] <= min(values) and max(values) <= limits[1]:
        counts = count_values(values, *limits)
        if limits == UNIT and answers == cases and counts.keys() <= {0.0, 1.0}:
            return Mean(mean, *wilson(mean, cases), answers, cases, "wilson")
        low, high = mean_limits(counts, *limits)
        return Mean(mean, min(low, mean), max(high, mean), answers, cases, "gaffke")
    if cases < MIN_T_CASES:
        return Mean(mean, None, None, answers, cases, "too-few")
    reach = _t_reach(mean, values, cases)
    if reach is None:
        return Mean(mean, None, None, answers, cases, "none")
    return Mean(mean, mean - reach, mean + reach, answers, cases, "t")


def score_range(values: Iterable[float]) -> Range | None:
    """The range of scores: 0 to 1 if every one is between them. Otherwise their scale is not known."""
    return UNIT if all(0 <= value <= 1 for value in values) else None


def _t_reach(mean: float, values: Iterable[float], cases: int) -> float | None:
    """Half the width of the interval. None for equal values, and if their squares exceed the range of a float."""
    try:
        deviation = sqrt(fsum((one - mean) ** 2 for one in values) / (cases - 1))
    except OverflowError:
        return None
    return t_reach(deviation, cases, CONFIDENCE) or None
