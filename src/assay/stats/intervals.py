"""
The interval of a number of one run (FEP-52). A case with all its answers and repeats has one value.

- A rate of one answer a case has Wilson's interval. Scores of one answer a case are such a rate if every one of them is
  0 or 1.
- Any other number with a known range is the mean of one value a case, and has Gaffke's interval.
- A number without a known range has the interval of Student's t from MIN_T_CASES cases on. Below, there are too few.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import comb, exp, fsum, hypot, inf, lgamma, log, log1p, sqrt
from typing import Literal

from msgspec import Struct

from assay.errors import InvalidRequest
from assay.stats.gaffke import Z, count_values, mean_limits, tail_of

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


def wilson(rate: float, size: float, level: float = CONFIDENCE) -> tuple[float, float]:
    """
    Wilson's score interval of a rate of `size` answers. Without answers it is (0, 1).

    Where one alone of 10 to 17 passed or failed, it would exclude 1% and 99%, which would then be in the interval too
    rarely. There the outer limit is that of Brown, Cai and DasGupta (2001).
    """
    if size == 0:
        return 0.0, 1.0
    z = Z if level == CONFIDENCE else tail_of(level).z
    square = z * z / size
    middle = (rate + square / 2) / (1 + square)
    reach = z * sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    low, high = (0.0 if rate == 0 else middle - reach), (1.0 if rate == 1 else middle + reach)
    if size in RARE_SIZES:
        single = round(rate * size)
        if single == 1:
            low = -log(level) / size
        elif single == size - 1:
            high = 1 + log(level) / size
    return low, high


def rate_difference(one: Rate, other: Rate) -> tuple[float, float, float]:
    """The difference of two rates of different cases with its 95% interval (Newcombe's hybrid of their intervals)."""
    difference = one.rate - other.rate
    low = hypot(one.rate - one.low, other.high - other.rate)
    high = hypot(one.high - one.rate, other.rate - other.low)
    return difference, difference - low, difference + high


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
        return mean_in_range(mean, cases, answers, count_values(values, *limits), limits)
    return mean_without_range(mean, cases, answers, lambda: _deviation(mean, values, cases))


def mean_in_range(
    mean: float, cases: int, answers: int, counts: Mapping[float, float], limits: Range
) -> Mean:
    """The mean of values between `limits`. `counts`: the number of cases with each value, of `count_values`."""
    if limits == UNIT and answers == cases and counts.keys() <= {0.0, 1.0}:
        return Mean(mean, *wilson(mean, cases), answers, cases, "wilson")
    low, high = mean_limits(counts, *limits)
    return Mean(mean, min(low, mean), max(high, mean), answers, cases, "gaffke")


def mean_without_range(mean: float, cases: int, answers: int, deviation: Callable[[], float | None]) -> Mean:
    """The mean of values of an unknown range. `deviation`: of the sample; None if it exceeds a float."""
    if cases < MIN_T_CASES:
        return Mean(mean, None, None, answers, cases, "too-few")
    spread = deviation()
    reach = None if spread is None else t_reach(spread, cases, CONFIDENCE) or None
    if reach is None:  # equal values, or their squares are outside the range of a float
        return Mean(mean, None, None, answers, cases, "none")
    return Mean(mean, mean - reach, mean + reach, answers, cases, "t")


def score_range(values: Iterable[float]) -> Range | None:
    """The range of scores: 0 to 1 if every one is between them. Otherwise their scale is not known."""
    return UNIT if all(0 <= value <= 1 for value in values) else None


def _deviation(mean: float, values: Iterable[float], cases: int) -> float | None:
    """The standard deviation of the sample. None if the squares exceed the range of a float."""
    try:
        return sqrt(fsum((one - mean) ** 2 for one in values) / (cases - 1))
    except OverflowError:
        return None


# pass@k and pass^k: does at least one of k trials of a case pass, and do all of them? Each with its interval.


def pass_at_k(cases: Shares, k: int) -> Rate | None:
    """
    The probability that at least one of k trials of a case passes: 1 - C(n - c, k) / C(n, k) for c of n. None without
    cases.
    """
    return _rate(cases, k, lambda passed, trials: comb(trials, k) - comb(trials - passed, k), "pass@k")


def pass_all_k(cases: Shares, k: int) -> Rate | None:
    """pass^k: the probability that k trials of a case all pass, C(c, k) / C(n, k) for c of n. None without cases."""
    return _rate(cases, k, lambda passed, _: comb(passed, k), "pass^k")


def _rate(cases: Shares, k: int, passing: Callable[[int, int], int], name: str) -> Rate | None:
    """`passing`: how many of the C(n, k) draws of k trials pass."""
    least = min((trials for _, trials in cases), default=None)
    if k < 1:
        raise InvalidRequest(f"{name}: expected k of at least 1, got {k}")
    if least is None:
        return None
    if k > least:
        raise InvalidRequest(
            f"{name}: expected k of at most {least}, because a case has {least} measured "
            f"trial{'s' if least != 1 else ''}, got {k}; run more trials or choose a smaller k"
        )
    draws: dict[tuple[int, int], int] = {}
    for (passed, trials), many in cases.items():
        share = passing(passed, trials), comb(trials, k)
        draws[share] = draws.get(share, 0) + many
    return mean_share(draws, sum(trials * many for (_, trials), many in cases.items()))


# Quantiles of Student's t, without a numerical library: for intervals of means of few cases.

LARGE = (
    1_000  # degrees of freedom from which four terms of the expansion in 1/df are exact to the last digits
)
ROUNDS = 200  # limit of the bisection, which ends at the precision of a float
STEPS = 500  # of the continued fraction


@lru_cache(maxsize=4_096)
def t_quantile(probability: float, df: float) -> float:
    """The quantile of Student's t with `df` degrees of freedom, for 0.5 < probability < 1."""
    if not 0.5 < probability < 1 or not df > 0:
        raise ValueError(f"t_quantile: expected 0.5 < p < 1 and df > 0, got {probability:g} and {df:g}")
    if df >= LARGE:
        from statistics import NormalDist  # deferred import: it loads fractions, decimals and random numbers

        return _series_expansion(NormalDist().inv_cdf(probability), df)
    tail = 2 * (1 - probability)
    low, high = 0.0, 1.0
    while _two_sided(high, df) > tail:
        low, high = high, high * 2
        if high == inf:
            return inf
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _two_sided(middle, df) > tail else (low, middle)
    return (low + high) / 2


def _series_expansion(z: float, df: float) -> float:
    """Cornish and Fisher's expansion (Abramowitz and Stegun 26.7.5)."""
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return sum(term / df**power for power, term in enumerate(terms))


def _two_sided(t: float, df: float) -> float:
    """The probability of a value further from 0 than `t`: I_x(df/2, 1/2) at x = df/(df + t²)."""
    a, b = df / 2, 0.5
    rest = t * t / (df + t * t)  # 1 - x
    x = df / (df + t * t)
    if x == 0:
        return 0.0
    if rest == 0:
        return 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) - a * log1p(t * t / df) + b * log(rest))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return value


def t_reach(deviation: float, cases: int, confidence: float) -> float:
    """Half the width of the interval of a mean, from the number of cases and their sample standard deviation."""
    return t_quantile((1 + confidence) / 2, cases - 1) * deviation / sqrt(cases)
