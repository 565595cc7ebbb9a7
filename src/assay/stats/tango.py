"""
Tango's score interval for the difference of two paired proportions, and McNemar's exact test.

T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample design,
Statistics in Medicine 17 (1998), equations 24 to 26. The interval is valid without discordant pairs and at -1 and 1.
"""

from collections.abc import Callable
from math import sqrt

from assay.stats.distributions import binomial_cdf, normal_quantile

ROUNDS = 80  # limit of the bisection, which ends at the precision of a float


def tango_interval(gains: int, losses: int, cases: int, level: float) -> tuple[float, float]:
    """The interval of (gains - losses) / cases. `gains` are the cases that only the second run passed."""
    z = normal_quantile((1 + level) / 2)
    return _lower_limit(gains, losses, cases, z), -_lower_limit(losses, gains, cases, z)


def tango_score(gains: int, losses: int, cases: int, difference: float) -> float:
    """The score statistic under a true difference. It falls as `difference` grows, and is 0 at the observed one."""
    deviation = gains - losses - cases * difference
    if deviation == 0:
        return 0.0
    linear = -(gains + losses) + (2 * cases - gains + losses) * difference
    constant = -losses * difference * (1 - difference)
    share = (sqrt(max(0.0, linear * linear - 8 * cases * constant)) - linear) / (4 * cases)
    variance = cases * (2 * share + difference * (1 - difference))
    return deviation / sqrt(variance) if variance > 0 else (1 if deviation > 0 else -1) * float("inf")


def mcnemar_p(gains: int, losses: int) -> float:
    """McNemar's exact two-sided p. Without discordant pairs it is 1."""
    pairs = gains + losses
    return min(1.0, 2 * binomial_cdf(min(gains, losses), pairs, 0.5)) if pairs else 1.0


def _lower_limit(gains: int, losses: int, cases: int, z: float) -> float:
    observed = (gains - losses) / cases
    if observed == -1:
        return -1.0
    return bisect(lambda difference: tango_score(gains, losses, cases, difference) > z, -1.0, observed)


def bisect(excludes: Callable[[float], bool], low: float, high: float) -> float:
    """The border between values that a test excludes, from `low` on, and values that it accepts, up to `high`."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if excludes(middle) else (low, middle)
    return high
