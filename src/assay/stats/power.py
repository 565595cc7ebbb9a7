"""
What a number of cases can show: the smallest effect, and how many cases a margin needs, at a power of 80%.

Both follow from the spread of the differences and from the margin. The observed effect has no part in them: a power
computed for it only repeats the p value.
"""

from collections.abc import Callable
from math import floor, isfinite, sqrt

from msgspec import Struct

from assay.stats.binary_power import show_power, within_power
from assay.stats.distributions import normal_quantile, special, student_quantile
from assay.stats.paired import FEW, LEVEL, PairedSample
from assay.stats.tango import bisect

POWER = 0.8
MAX_CASES = 10**12


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
