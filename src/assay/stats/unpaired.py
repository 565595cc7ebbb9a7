"""
The difference of two runs over different cases, and its interval.

An `UnpairedSample` is filled case by case. Permutations of the cases over the runs give the p value (`permutation.py`).
The interval puts the intervals of both runs together, as those of one run are (`intervals.py`): the limit of the
difference is away from it by the root of the squares of what each run's limit is away (R. Newcombe, Statistics in
Medicine 17, 1998; G. Zou and A. Donner, Statistics in Medicine 27, 2008). The intervals of the runs are

- Wilson's, of one trial of each case that passes or fails: the result is Newcombe's interval;
- Gaffke's, of other values between 0 and 1;
- for values without a known range, from FEW cases in each run on, Welch's t over both runs.

The interval excludes 0 exactly if the test rejects (`agreeing_limits`).

With `weights`, the sample has strata: the difference is the mean of their differences with these weights, and the
limits of all strata are put together in the same way (direct standardization).
"""

from array import array
from collections.abc import Iterable, Mapping
from math import isfinite, sqrt
from typing import Any

from assay.stats.distributions import numpy, student_quantile, student_tail
from assay.stats.gaffke import count_values, mean_limits, tail_of
from assay.stats.intervals import wilson
from assay.stats.paired import FEW, LEVEL, Limits, Method, PairedResult, agreeing_limits
from assay.stats.permutation import Stratum, permutation_p, welch
from assay.stats.sign_flip import bisect
from assay.stats.verdict import UnmeasuredBounds

CELLS = 64  # distinct values of a run; more are put into as many cells of equal width
Range = tuple[float, float]


class _Side:
    """The values of one run in one stratum, and the ranges of those that were not measured."""

    __slots__ = ("unmeasured", "values")

    def __init__(self) -> None:
        self.values, self.unmeasured = array("d"), list[Range]()


class UnpairedSample:
    """
    What is kept of the cases of two runs. `span` is 1 if all values are between 0 and 1, and None if not.

    `weights` are those of the strata, which add up to 1. None: there is one stratum, with the name "".
    """

    def __init__(self, span: float | None = 1.0, weights: Mapping[str, float] | None = None) -> None:
        if span not in (None, 1.0):
            raise ValueError(f"span: expected 1 or None, got {span:g}")
        self.span = span
        self.is_binary = True
        self._weights = {"": 1.0} if weights is None else dict(weights)
        self._sides = {name: (_Side(), _Side()) for name in self._weights}
        self._p_value: tuple[int, float] | None = None  # with the number of cases that it is of

    @classmethod
    def of(
        cls,
        before: Iterable[float],
        after: Iterable[float],
        *,
        span: float | None = 1.0,
        single_trial: bool = True,
    ) -> "UnpairedSample":
        sample = cls(span)
        for value in before:
            sample.add(value, is_after=False, single_trial=single_trial)
        for value in after:
            sample.add(value, is_after=True, single_trial=single_trial)
        return sample

    def add(self, value: float, *, is_after: bool, single_trial: bool = True, stratum: str = "") -> None:
        """Add a case with its mean over its trials. `single_trial`: it was measured exactly once."""
        if not isfinite(value):
            raise ValueError(f"expected a finite number, got {value!r}")
        self.is_binary = self.is_binary and single_trial and value in (0, 1)
        self._sides[stratum][is_after].values.append(value)

    def add_unmeasured(self, limits: Range, *, is_after: bool, stratum: str = "") -> None:
        """Add a case that was not measured, with the least and the largest value that it could have."""
        self._sides[stratum][is_after].unmeasured.append(limits)

    def sizes(self) -> tuple[int, int]:
        """How many cases each run measured."""
        pairs = self._sides.values()
        return sum(len(one.values) for one, _ in pairs), sum(len(other.values) for _, other in pairs)

    @property
    def n(self) -> int:
        return sum(self.sizes())

    @property
    def unmeasured(self) -> int:
        return sum(len(side.unmeasured) for both in self._sides.values() for side in both)

    def is_comparable(self) -> bool:
        """Whether both runs measured a case in every stratum."""
        return all(one.values and other.values for one, other in self._sides.values())

    def strata(self) -> list[Stratum]:
        np = numpy()
        return [
            Stratum(weight, *(np.asarray(side.values, dtype=float) for side in self._sides[name]))
            for name, weight in self._weights.items()
        ]

    @property
    def method(self) -> Method:
        if not self.is_comparable():
            return "none"
        if self.is_binary and self.span is not None:
            return "newcombe"
        if self.span is not None:
            return "gaffke"
        return "welch" if min(self.sizes()) >= FEW else "permutation"

    def p_value(self) -> float:
        """The two-sided p of no difference."""
        if self._p_value is None or self._p_value[0] != self.n:
            binary = self.is_binary and self.span is not None
            self._p_value = self.n, permutation_p(self.strata(), binary=binary)
        return self._p_value[1]

    def interval(self, level: float = LEVEL) -> PairedResult:
        """The difference with its interval at this level."""
        if not 0 < level < 1:
            raise ValueError(f"level: expected a number between 0 and 1, got {level:g}")
        if not self.is_comparable():
            return PairedResult(None, None, None, None, None, level, "none", self.n, sizes=self.sizes())
        strata, method = self.strata(), self.method
        before = sum(one.weight * float(one.before.mean()) for one in strata)
        after = sum(one.weight * float(one.after.mean()) for one in strata)
        limits = self._limits(strata, method, after - before, level)
        p_value = self.p_value()
        low, high = agreeing_limits(after - before, limits, p_value, level) or (None, None)
        return PairedResult(
            before=before,
            after=after,
            estimate=after - before,
            low=low,
            high=high,
            level=level,
            method=method,
            n=self.n,
            p_value=p_value,
            sizes=self.sizes(),
        )

    def _limits(
        self, strata: Iterable[Stratum], method: Method, estimate: float, level: float
    ) -> Limits | None:
        if method == "permutation":
            return None
        if method == "welch":
            return _welch_limits(list(strata), estimate, level)
        below = above = 0.0
        for one in strata:
            (mean, low, high), (other, other_low, other_high) = (
                _side_limits(side, level, binary=method == "newcombe") for side in (one.before, one.after)
            )
            below += one.weight**2 * ((other - other_low) ** 2 + (high - mean) ** 2)
            above += one.weight**2 * ((other_high - other) ** 2 + (mean - low) ** 2)
        return max(-1.0, estimate - sqrt(below)), min(1.0, estimate + sqrt(above))

    def equivalence_p(self, margin: float) -> float | None:
        """
        The p of a difference of at least `margin` in either direction (TOST); None if it is not computed.

        It is below a exactly if the interval at the level 1 - 2a is within the margin.
        """
        if not self.is_comparable():
            return None
        strata, method = self.strata(), self.method
        estimate = sum(one.weight * one.difference for one in strata)
        if method == "welch":
            error, df = welch(strata)
            return student_tail((margin - abs(estimate)) / error, df) if error else None
        if method != "newcombe":
            return None
        if abs(estimate) >= margin:
            return 1.0

        def is_outside(tail: float) -> bool:
            low, high = self._limits(strata, method, estimate, 1 - 2 * tail) or (-1.0, 1.0)
            return low <= -margin or high >= margin

        return bisect(is_outside, 1e-12, 0.5)

    def unmeasured_bounds(self, level: float = LEVEL) -> UnmeasuredBounds:
        """
        The limits that the interval could have with every case measured.

        The lower limit grows with each value of the second run and falls with each value of the first, and so does the
        upper one. The extremes are therefore two: all cases at their worst, and all at their best.
        """
        if self.span is None or not self.is_comparable():
            return UnmeasuredBounds(self.unmeasured, None, None, None, None)
        worst, best = self._filled(is_best=False).interval(level), self._filled(is_best=True).interval(level)
        lows = [one for one in (worst.low, best.low) if one is not None]
        highs = [one for one in (worst.high, best.high) if one is not None]
        return UnmeasuredBounds(self.unmeasured, worst.estimate, best.estimate, min(lows), max(highs))

    def _filled(self, *, is_best: bool) -> "UnpairedSample":
        filled = UnpairedSample(self.span, self._weights)
        filled.is_binary = self.is_binary
        for name, sides in self._sides.items():
            for is_after, side in enumerate(sides):
                filled._sides[name][is_after].values.extend(side.values)
                for low, high in side.unmeasured:
                    value = high if is_best == bool(is_after) else low
                    filled.add(
                        value,
                        is_after=bool(is_after),
                        single_trial=self.is_binary and value in (0, 1),
                        stratum=name,
                    )
        return filled


def _side_limits(values: Any, level: float, *, binary: bool) -> tuple[float, float, float]:
    """The mean of one run, and its limits."""
    mean = float(values.mean())
    if binary:
        return (mean, *wilson(mean, len(values), level))
    low, high = mean_limits(count_values(values.tolist(), most=CELLS), tail=tail_of(level))
    return mean, min(low, mean), max(high, mean)


def _welch_limits(strata: list[Stratum], estimate: float, level: float) -> Limits | None:
    with numpy().errstate(over="ignore", invalid="ignore"):  # squares beyond the range of a float
        error, df = welch(strata)
    if not error or not isfinite(error):
        return None
    reach = student_quantile((1 + level) / 2, df) * error
    return estimate - reach, estimate + reach
