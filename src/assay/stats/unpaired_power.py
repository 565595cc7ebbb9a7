"""
What two runs over different cases can show: the smallest effect, and how many more cases in each run a margin needs.

As for paired cases (`power.py`), the observed effect has no part in it. Of cases that pass or fail, the power is that
of Fisher's exact test: the sum over all outcomes that it rejects, or the normal distribution with a correction for
continuity. Of other values it is that of Welch's t.
"""

from collections.abc import Callable
from functools import lru_cache
from math import comb, isfinite, sqrt
from typing import Any

from assay.stats.distributions import normal_quantile, numpy, special, student_quantile
from assay.stats.paired import LEVEL
from assay.stats.permutation import effective_sizes, log_choose
from assay.stats.power import MAX_CASES, POWER, Sensitivity
from assay.stats.sign_flip import bisect
from assay.stats.unpaired import UnpairedSample

MAX_OUTCOMES = 20_000  # of both runs that are summed


def unpaired_sensitivity(
    sample: UnpairedSample, margin: float | None = None, level: float = LEVEL, power: float = POWER
) -> Sensitivity:
    """What these cases can show. The cases that are missing for the margin are those that each run needs."""
    facts = _Facts.of(sample)
    if facts is None:
        return Sensitivity(power, None)
    most = facts.largest
    smallest = None
    if facts.shows(most, 0, level) >= power:
        smallest = bisect(lambda effect: facts.shows(effect, 0, level) < power, 0.0, most)
    more = None
    if margin is not None:
        limit = margin

        def is_enough(added: int) -> bool:
            return facts.is_within(limit, added, level, power) and facts.shows(limit, added, level) >= power

        more = _least(is_enough) if limit <= most else None
    return Sensitivity(power, smallest, None, more)


def unpaired_cases_to_show(
    sample: UnpairedSample, effect: float, level: float = LEVEL, power: float = POWER
) -> int | None:
    """How many more cases in each run show a true difference of this size; None if the spread is unknown."""
    facts = _Facts.of(sample)
    if facts is None or not effect > 0:
        return None
    size = min(effect, facts.largest)
    return _least(lambda added: facts.shows(size, added, level) >= power)


class _Facts:
    """The sizes of both runs and the spread of their values."""

    def __init__(self, sizes: tuple[float, float], *, rate: float | None, deviations: tuple[float, float]):
        self._sizes, self._rate, self._deviations = sizes, rate, deviations

    @classmethod
    def of(cls, sample: UnpairedSample) -> "_Facts | None":
        """None if nothing is known about the spread."""
        if not sample.is_comparable():
            return None
        strata = sample.strata()
        sizes = effective_sizes(strata)
        if sample.method == "newcombe":
            count = sum(len(one.before) for one in strata)
            passed = sum(one.weight * float(one.before.mean()) for one in strata) * count
            return cls(sizes, rate=(passed + 1) / (count + 2), deviations=(0.0, 0.0))  # one more of each
        before, after = sample.sizes()
        if comb(before + after, before) * (1 - LEVEL) < 2:  # no permutation is rare enough
            return None
        parts: list[float] = []
        for at, size in enumerate(sizes):
            sides = [(one.weight, (one.before, one.after)[at]) for one in strata]
            variance = sum(weight**2 * _variance(side, sample.span) / len(side) for weight, side in sides)
            parts.append(sqrt(variance * size))
        deviations = parts[0], parts[1]
        if not all(map(isfinite, deviations)) or not any(deviations):
            return None
        return cls(sizes, rate=None, deviations=deviations)

    @property
    def largest(self) -> float:
        """The largest effect. A rate falls if it is high and rises if it is low: that way it spreads more."""
        if self._rate is not None:
            return max(self._rate, 1 - self._rate)
        return 100 * max(self._deviations)

    def shows(self, effect: float, added: int, level: float) -> float:
        """The probability that the interval excludes 0 on the side of a true effect, with so many more cases."""
        first, second = self._sizes[0] + added, self._sizes[1] + added
        if self._rate is not None:
            other = self._rate - effect if self._rate >= 0.5 else self._rate + effect
            other = min(1.0, max(0.0, other))
            if first * second <= MAX_OUTCOMES:
                sizes = max(1, round(first)), max(1, round(second))
                return _exact_power(*sizes, self._rate, other, level)
            return _normal_power(first, second, self._rate, other, level)
        error, df = self._error(added)
        limit = student_quantile((1 + level) / 2, df)
        return 1 - float(special().nctdtr(df, effect / error, limit))

    def is_within(self, margin: float, added: int, level: float, power: float) -> bool:
        """Whether an interval of no true difference is within the margin with the power."""
        if self._rate is not None:
            first, second = self._sizes[0] + added, self._sizes[1] + added
            error = sqrt(self._rate * (1 - self._rate) * (1 / first + 1 / second))
            return margin >= error * (normal_quantile((1 + level) / 2) + normal_quantile((1 + power) / 2))
        error, df = self._error(added)
        return (
            margin >= (student_quantile((1 + level) / 2, df) + student_quantile((1 + power) / 2, df)) * error
        )

    def _error(self, added: int) -> tuple[float, float]:
        parts = [
            (deviation**2 / (size + added), max(size + added - 1, 0.5))
            for deviation, size in zip(self._deviations, self._sizes, strict=True)
        ]
        variance = sum(part for part, _ in parts)
        return sqrt(variance), max(1.0, variance**2 / sum(part**2 / df for part, df in parts))


def _variance(values: Any, span: float | None) -> float:
    """Of the values of a run. If all are equal, one more that differs by `span` is assumed."""
    found = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return found if found or span is None else span**2 / (len(values) + 1)


def _least(is_enough: Callable[[int], bool]) -> int:
    """The least number of more cases that is enough; `MAX_CASES` at most."""
    if is_enough(0):
        return 0
    high = 1
    while not is_enough(high):
        high *= 2
        if high > MAX_CASES:
            return MAX_CASES
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _exact_power(first: int, second: int, rate: float, other: float, level: float) -> float:
    higher = other > rate
    rejected = _rejected(first, second, level) if higher else _rejected(second, first, level).T
    return float(_chances(first, rate) @ rejected.astype(float) @ _chances(second, other))


def _chances(cases: int, rate: float) -> Any:
    np = numpy()
    functions: Any = special()
    passed = np.arange(cases + 1, dtype=float)
    logs = (
        log_choose(cases, passed) + functions.xlogy(passed, rate) + functions.xlogy(cases - passed, 1 - rate)
    )
    return np.exp(logs)


@lru_cache(maxsize=32)
def _rejected(first: int, second: int, level: float) -> Any:
    """For all numbers of passes of both runs, whether Fisher's test shows that the second is higher."""
    np = numpy()
    tail = (1 - level) / 2 * (1 + 1e-9)
    found = np.zeros((first + 1, second + 1), dtype=bool)
    for passed in range(first + second + 1):
        counts = np.arange(max(0, passed - first), min(passed, second) + 1)
        logs = log_choose(second, counts) + log_choose(first, passed - counts)
        chances = np.exp(logs - log_choose(first + second, float(passed)))
        above = np.cumsum(chances[::-1])[::-1]
        found[passed - counts, counts] = above <= tail
    return found


def _normal_power(first: float, second: float, rate: float, other: float, level: float) -> float:
    pooled = (first * rate + second * other) / (first + second)
    sizes = 1 / first + 1 / second
    spread = sqrt(rate * (1 - rate) / first + other * (1 - other) / second)
    distance = abs(other - rate) - sizes / 2
    distance -= normal_quantile((1 + level) / 2) * sqrt(pooled * (1 - pooled) * sizes)
    if not spread:
        return 1.0 if distance > 0 else 0.0
    return float(special().ndtr(distance / spread))
