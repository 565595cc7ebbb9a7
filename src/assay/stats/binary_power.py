"""
The power of a comparison of cases that pass or fail once, computed for the test and the interval that are really used.

A share of the cases changes. Of those, the gains are a binomial number. The power is the probability of all outcomes
that give the answer: McNemar's exact test rejects, or Tango's interval is within the margin.
"""

from functools import lru_cache
from math import floor, sqrt
from typing import Any

from assay.stats.distributions import normal_quantile, numpy, special

MAX_EXACT = 10**5  # cases up to which outcomes are summed; above, the normal distribution is as exact
EXACT_CHANGES = 4_096  # changed cases up to which McNemar's exact test is looked up
WINDOW = 6  # standard deviations of the number of changed cases that are summed


def show_power(effect: float, share: float, cases: int, level: float) -> float:
    """The probability that the interval excludes 0 on the side of a true effect, if this share of the cases changes."""
    if cases > MAX_EXACT:
        spread = sqrt(max(0.0, share - effect**2))
        distance = effect * sqrt(cases) - normal_quantile((1 + level) / 2) * sqrt(share)
        return _normal(distance, spread)
    changed, weights = _changed(share, cases)
    least = _least_gains(changed, level)
    gain = min(1.0, (share + effect) / (2 * share))
    return float((weights * _binomial_above(least - 1, changed, gain)).sum())


def within_power(margin: float, share: float, cases: int, level: float) -> float:
    """The probability that Tango's interval is within the margin, if the true difference is 0. From 15 cases on."""
    if margin >= 1:
        return 1.0
    z = normal_quantile((1 + level) / 2)
    if cases > MAX_EXACT:
        distance = margin * sqrt(cases) - z * sqrt(_variance_at(share, margin))
        return max(0.0, 2 * _normal(distance, sqrt(share)) - 1)
    np = numpy()
    changed, weights = _changed(share, cases)
    # The largest number of gains with an upper limit below the margin, by bisection for every number of changed cases.
    fits, exceeds = np.ceil(changed / 2), changed + 1
    possible = _score(fits, changed - fits, cases, margin) < -z
    while ((exceeds - fits) > 1).any():
        middle = np.floor((fits + exceeds) / 2)
        inside = _score(middle, changed - middle, cases, margin) < -z
        fits, exceeds = np.where(inside, middle, fits), np.where(inside, exceeds, middle)
    inside = 1 - 2 * _binomial_above(fits, changed, 0.5)
    return float((weights * np.where(possible, inside, 0.0)).sum())


def _normal(distance: float, spread: float) -> float:
    if not spread:
        return 1.0 if distance > 0 else 0.0
    return float(special().ndtr(distance / spread))


def _changed(share: float, cases: int) -> tuple[Any, Any]:
    """The likely numbers of changed cases, with their probabilities."""
    np, functions = numpy(), _functions()
    if share >= 1:
        return np.array([float(cases)]), np.array([1.0])
    reach = WINDOW * sqrt(cases * share * (1 - share)) + WINDOW
    first, last = max(0, floor(cases * share - reach)), min(cases, floor(cases * share + reach) + 1)
    changed = np.arange(first, last + 1, dtype=float)
    logarithm = (
        functions.gammaln(cases + 1) - functions.gammaln(changed + 1) - functions.gammaln(cases - changed + 1)
    )
    return changed, np.exp(
        logarithm + functions.xlogy(changed, share) + functions.xlog1py(cases - changed, -share)
    )


def _least_gains(changed: Any, level: float) -> Any:
    """
    For each number of changed cases, the smallest number of gains at which McNemar's exact test rejects; more than all
    if none.

    Of many changed cases it is that of the normal distribution with a correction for continuity.
    """
    np = numpy()
    most = int(min(changed.max(initial=0.0), EXACT_CHANGES))
    table = _least_gains_up_to(1 << most.bit_length(), level)
    few = np.minimum(changed, len(table) - 1).astype(int)
    return np.where(changed < len(table), table[few], _normal_gains(changed, level))


@lru_cache(maxsize=64)
def _least_gains_up_to(most: int, level: float) -> Any:
    np = numpy()
    changed, tail = np.arange(most + 1, dtype=float), (1 - level) / 2 * (1 + 1e-9)
    least = np.minimum(_normal_gains(changed, level), changed + 1)
    while (more := (least <= changed) & (_binomial_above(least - 1, changed, 0.5) > tail)).any():
        least = least + more
    while (fewer := (least > changed / 2 + 1) & (_binomial_above(least - 2, changed, 0.5) <= tail)).any():
        least = least - fewer
    return least


def _normal_gains(changed: Any, level: float) -> Any:
    np = numpy()
    return np.floor((changed + 1 + normal_quantile((1 + level) / 2) * np.sqrt(changed)) / 2) + 1


def _binomial_above(successes: Any, trials: Any, probability: float) -> Any:
    """The probability of more successes, for each pair."""
    np = numpy()
    inside = np.clip(successes, 0, np.maximum(trials - 1, 0))
    above = _functions().betainc(inside + 1, np.maximum(trials - inside, 1), probability)
    return np.where(successes < 0, 1.0, np.where(successes >= trials, 0.0, above))


def _score(gains: Any, losses: Any, cases: int, difference: float) -> Any:
    """`tango_score` for arrays, for a difference between 0 and 1."""
    np = numpy()
    linear = -(gains + losses) + (2 * cases - gains + losses) * difference
    constant = -losses * difference * (1 - difference)
    share = (np.sqrt(np.maximum(0.0, linear * linear - 8 * cases * constant)) - linear) / (4 * cases)
    return (gains - losses - cases * difference) / np.sqrt(
        cases * (2 * share + difference * (1 - difference))
    )


def _variance_at(share: float, margin: float) -> float:
    """The variance of a case in Tango's score at the margin, if the shares of gains and losses are as expected at 0."""
    linear = -share + 2 * margin
    losses = (sqrt(linear**2 + 4 * share * margin * (1 - margin)) - linear) / 4
    return 2 * losses + margin * (1 - margin)


def _functions() -> Any:
    """The functions of scipy for arrays."""
    return special()
