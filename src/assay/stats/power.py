"""
What a number of cases can show: the smallest effect, and how many cases a margin needs, at a power of 80%.

Both follow from the spread of the differences and from the margin. The observed effect has no part in them: a power
computed for it only repeats the p value.
"""

from collections.abc import Callable
from functools import lru_cache
from math import floor, isfinite, sqrt
from typing import Any

from msgspec import Struct

from assay.stats.distributions import normal_quantile, numpy, special, student_quantile
from assay.stats.paired import FEW, LEVEL, PairedSample
from assay.stats.sign_flip import bisect

POWER = 0.8
MAX_CASES = 10**12
DIGITS = 9  # of an effect; those after them depend on the processor


class Sensitivity(Struct, frozen=True):
    """
    `smallest_effect` is the true difference that this many cases show with the power; None if no effect can be shown.

    `settling_cases` is the number of cases at which the verdict on the margin has the power: if the true difference is
    the margin, its interval excludes 0; if it is 0, its interval is within the margin. `more_cases` are those still
    missing. Both are None without a margin, or if the spread is unknown.
    """

    power: float
    smallest_effect: float | None
    settling_cases: int | None = None
    more_cases: int | None = None


def sensitivity(
    sample: PairedSample, margin: float | None = None, level: float = LEVEL, power: float = POWER
) -> Sensitivity:
    if margin is not None and not margin > 0:
        raise ValueError(f"margin: expected a number above 0, got {margin:g}")
    if sample.n < 2:
        return Sensitivity(power, None)
    if sample.is_binary:
        share = discordant_share(sample)
        smallest = smallest_binary_effect(sample.n, share, level, power)
        needed = None if margin is None else binary_cases(margin, share, level, power)
    else:
        deviation = spread(sample)
        if deviation is None:
            return Sensitivity(power, None)
        few = sample.n < FEW
        smallest = (smallest_sign_flip_effect if few else smallest_effect)(sample.n, deviation, level, power)
        share = discordant_share(sample)
        rate = smallest_binary_effect(sample.n, share, level, power)
        if smallest is not None and rate is not None:
            # t does not know that the test needs some cases that change. A change has this size, if the others are 0.
            smallest = max(smallest, rate * deviation / sqrt(share))
        elif rate is None:
            smallest = None
        needed = None if margin is None else mean_cases(margin, deviation, level, power)
    if sample.span is not None and smallest is not None and smallest > sample.span:
        smallest = None
    smallest = None if smallest is None else round(smallest, DIGITS)
    return Sensitivity(power, smallest, needed, None if needed is None else max(0, needed - sample.n))


def cases_to_show(
    sample: PairedSample, effect: float, level: float = LEVEL, power: float = POWER
) -> int | None:
    """The number of cases that show a true difference of this size with the power; None if the spread is unknown."""
    share, deviation = discordant_share(sample), spread(sample)
    if not effect > 0 or sample.n < 2 or deviation is None:
        return None
    if sample.is_binary:
        rate = min(1.0, effect)
        return _first(lambda cases: show_power(rate, max(share, rate), cases, level) >= power, 6)
    rate = min(1.0, effect / deviation * sqrt(share))  # of cases that change by the usual amount

    def is_enough(cases: int) -> bool:
        changed = show_power(rate, max(share, rate), cases, level) >= power
        return changed and t_power(effect, deviation, cases, level) >= power

    return _first(is_enough, 6)


def spread(sample: PairedSample) -> float | None:
    """
    The standard deviation of the differences.

    If all are equal, one more case that differs by `span` is assumed. None without a span, and if the squares of the
    differences exceed the range of a float.
    """
    if sample.deviation:
        return sample.deviation if isfinite(sample.deviation) else None
    return None if sample.span is None else sample.span / sqrt(sample.n + 1)


def discordant_share(sample: PairedSample) -> float:
    """The share of cases that change. One more changed case is assumed, because no change seen is not no change."""
    changed = sample.gains + sample.losses if sample.is_binary else len(sample.changes)
    return min(1.0, (changed + 1) / (sample.n + 1))


def t_power(effect: float, deviation: float, cases: int, level: float) -> float:
    """The probability that the interval of t excludes 0 on the side of a true effect."""
    df = cases - 1
    limit = student_quantile((1 + level) / 2, df)
    return 1 - float(special().nctdtr(df, effect / deviation * sqrt(cases), limit))


def smallest_effect(cases: int, deviation: float, level: float = LEVEL, power: float = POWER) -> float:
    """The true mean difference that t shows with the power."""
    if cases < 2:
        raise ValueError(f"power: expected at least 2 cases, got {cases}")
    unit = deviation / sqrt(cases)
    high = unit
    while t_power(high, deviation, cases, level) < power:
        high *= 2
    return bisect(lambda effect: t_power(effect, deviation, cases, level) < power, 0.0, high)


def mean_cases(margin: float, deviation: float, level: float = LEVEL, power: float = POWER) -> int:
    """The number of cases at which t settles the margin."""

    def is_enough(cases: int) -> bool:
        df, effect = cases - 1, margin / deviation * sqrt(cases)
        # With a true difference of 0, both limits are within the margin: the limits are independent only in the limit,
        # so each of the two ways to miss has half of the probability to miss.
        within = effect >= student_quantile((1 + level) / 2, df) + student_quantile((1 + power) / 2, df)
        return within and t_power(margin, deviation, cases, level) >= power

    return _first(is_enough, FEW)


def smallest_sign_flip_effect(
    cases: int, deviation: float, level: float = LEVEL, power: float = POWER
) -> float | None:
    """
    The true mean difference that sign flips show with the power, for differences like those of a normal distribution.

    With one pattern in the tail, all differences must have one sign. With more patterns, the effect is that of t at the
    level that sign flips attain, increased by 20% / patterns: the simulated power is then at least the one that was
    asked for. None if no pattern is rare enough.
    """
    patterns = floor((1 - level) / 2 * 2**cases * (1 + 1e-12))
    if not patterns:
        return None
    if patterns == 1:
        return deviation * normal_quantile(power ** (1 / cases))
    attained = 1 - 2 * patterns / 2**cases
    return (1 + 0.2 / patterns) * smallest_effect(cases, deviation, attained, power)


def smallest_binary_effect(
    cases: int, share: float, level: float = LEVEL, power: float = POWER
) -> float | None:
    """
    The difference of two paired rates that McNemar's exact test shows with the power, if a share of the cases changes.

    A difference that is larger than the share changes as many cases. None if even a change of all cases would not show.
    """

    def is_missed(effect: float) -> bool:
        return show_power(effect, max(share, effect), cases, level) < power

    return None if is_missed(1.0) else bisect(is_missed, 0.0, 1.0)


def binary_cases(margin: float, share: float, level: float = LEVEL, power: float = POWER) -> int:
    """The number of cases that settles the margin: McNemar's exact test shows it, and Tango's interval is within it."""
    share = max(share, min(margin, 1.0))  # a difference of the margin needs as many changed cases

    def is_enough(cases: int) -> bool:
        return (
            within_power(margin, share, cases, level) >= power
            and show_power(min(margin, 1.0), share, cases, level) >= power
        )

    return _first(is_enough, FEW)


def _first(is_enough: Callable[[int], bool], least: int) -> int:
    """The first number of cases that is enough; `MAX_CASES` at most."""
    high = least
    while not is_enough(high):
        high *= 2
        if high > MAX_CASES:
            return MAX_CASES
    low = high // 2 if high > least else least - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


# The power of a comparison of cases that pass or fail once, computed for the test and the interval that are
# really used.

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
