"""Quantiles of Student's t, without a numerical library: for intervals of means of few cases."""

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, sqrt

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
    """
    The probability of a value further from 0 than `t`: the incomplete beta function I_x(df/2, 1/2) at x = df/(df + t²).
    """
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
