"""
The difference of two runs over the same cases, and its interval.

A `PairedSample` is filled case by case and keeps a few numbers, however many cases there are. One method gives the
interval, the p value and therefore the verdict:

- fewer than 15 cases: the exact sign-flip test (`sign_flip.py`);
- one trial of each case that passes or fails: Tango's score interval, with McNemar's exact p beside it (`tango.py`);
- everything else: Student's t over the differences of the cases;
- all differences equal: no method can estimate their spread. The interval then bounds the share of cases that could
  differ from those seen. It needs `span`, the largest difference that one case can have.
"""

from collections.abc import Iterable, Sequence
from math import isfinite, sqrt
from typing import Literal

from msgspec import Struct

from assay.stats.distributions import student_quantile, student_tail
from assay.stats.sign_flip import SignFlip
from assay.stats.tango import mcnemar_p, tango_interval, tango_p

LEVEL = 0.95
FEW = 15  # cases below which the sign-flip test is used

Method = Literal["tango", "t", "sign-flip", "equal-differences", "bca", "none"]


class PairedResult(Struct, frozen=True):
    """
    The mean difference of `n` cases, the second run minus the first, with its interval.

    `low` and `high` are None if there is no interval: without cases, if too few cases cannot bound the difference, or if
    the squares of the differences are beyond the range of a float.
    `p_value` belongs to the test that the interval inverts: it is below 1 - level exactly if the interval excludes 0.
    `mcnemar_p` is set if each case passes or fails once. `adjusted_p` is set by `holm`.
    """

    before: float | None
    after: float | None
    estimate: float | None
    low: float | None
    high: float | None
    level: float
    method: Method
    n: int
    p_value: float | None = None
    mcnemar_p: float | None = None
    adjusted_p: float | None = None


class PairedSample:
    """
    What is kept of paired cases. `span` is the largest possible difference of a case; None if there is no limit.

    The differences themselves are kept only while they are few.
    """

    def __init__(self, span: float | None = 1.0) -> None:
        if span is not None and not span > 0:
            raise ValueError(f"span: expected a number above 0 or None, got {span:g}")
        self.span = span
        self.n = 0
        self.gains = 0
        self.losses = 0
        self.is_binary = True
        self.few: list[float] = []
        self._before = 0.0
        self._mean = 0.0
        self.squares = 0.0  # sum of squared deviations from the mean (Welford)
        self._least = float("inf")
        self._largest = float("-inf")

    @classmethod
    def of(
        cls,
        before: Iterable[float],
        after: Iterable[float],
        *,
        span: float | None = 1.0,
        single_trial: bool = True,
    ) -> "PairedSample":
        sample = cls(span)
        for one, other in zip(before, after, strict=True):
            sample.add(one, other, single_trial=single_trial)
        return sample

    def add(self, before: float, after: float, *, single_trial: bool = True) -> None:
        """Add a case with its mean over the trials of each run. `single_trial`: both runs measured it exactly once."""
        difference = after - before
        if not isfinite(difference):
            raise ValueError(f"expected finite numbers, got {before!r} and {after!r}")
        self.n += 1
        if self.is_binary:
            self.is_binary = single_trial and before in (0, 1) and after in (0, 1)
            self.gains += difference > 0
            self.losses += difference < 0
        if self.n < FEW:
            self.few.append(difference)
        self._before += before / self.n - self._before / self.n  # the difference of two numbers may overflow
        step = difference - self._mean
        self._mean += step / self.n if isfinite(step) else difference / self.n - self._mean / self.n
        self.squares += step * (difference - self._mean)
        self._least = min(self._least, difference)
        self._largest = max(self._largest, difference)

    @property
    def estimate(self) -> float | None:
        if not self.n:
            return None
        return (self.gains - self.losses) / self.n if self.is_binary else self._mean

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation of the differences. None for one case."""
        return sqrt(self.squares / (self.n - 1)) if self.n > 1 else None

    @property
    def method(self) -> Method:
        if not self.n:
            return "none"
        if self.is_binary and self.n >= FEW:
            return "tango"
        if self._least == self._largest:
            return "equal-differences"
        return "sign-flip" if self.n < FEW else "t"

    def interval(self, level: float = LEVEL) -> PairedResult:
        """The difference with its interval at this level."""
        if not 0 < level < 1:
            raise ValueError(f"level: expected a number between 0 and 1, got {level:g}")
        estimate, method = self.estimate, self.method
        if estimate is None:
            return PairedResult(None, None, None, None, None, level, "none", 0)
        limits, p_value = _TESTS[method](self, level)
        if limits is not None and not all(map(isfinite, limits)):  # squares beyond the range of a float
            limits, p_value = None, None
        low, high = limits or ((-self.span, self.span) if self.span is not None else (None, None))
        return PairedResult(
            before=self._before,
            after=self._before + estimate,
            estimate=estimate,
            low=low,
            high=high,
            level=level,
            method=method,
            n=self.n,
            p_value=p_value,
            mcnemar_p=mcnemar_p(self.gains, self.losses) if self.is_binary else None,
        )


Test = tuple[tuple[float, float] | None, float | None]


def _tango(sample: PairedSample, level: float) -> Test:
    counts = sample.gains, sample.losses, sample.n
    return tango_interval(*counts, level), tango_p(*counts)


def _sign_flip(sample: PairedSample, level: float) -> Test:
    test = SignFlip(sample.few)
    return test.interval(level), test.p_value()


def _student(sample: PairedSample, level: float) -> Test:
    mean, deviation, df = sample.estimate or 0.0, sample.deviation or 0.0, sample.n - 1
    error = deviation / sqrt(sample.n)
    if not error:  # differences whose squares are below the range of a float
        return None, None
    reach = student_quantile((1 + level) / 2, df) * error
    return (mean - reach, mean + reach), 2 * student_tail(abs(mean) / error, df)


def _equal_differences(sample: PairedSample, level: float) -> Test:
    """
    All n cases differ by d. At this level, a share of at most 1 - ((1 - level) / 2)^(1/n) of all cases can be unlike them.

    Each of those can differ by `span` in either direction. Without a span there is no interval.
    """
    if sample.span is None:
        return None, None
    difference, span = sample.estimate or 0.0, sample.span
    like = ((1 - level) / 2) ** (1 / sample.n)
    low, high = like * difference - (1 - like) * span, like * difference + (1 - like) * span
    p_value = min(1.0, 2 * (span / (abs(difference) + span)) ** sample.n)
    return (max(low, -span), min(high, span)), p_value


_TESTS = {
    "tango": _tango,
    "sign-flip": _sign_flip,
    "t": _student,
    "equal-differences": _equal_differences,
}


def paired_interval(
    before: Sequence[float], after: Sequence[float], *, level: float = LEVEL, span: float | None = 1.0
) -> PairedResult:
    """The difference of two runs with one trial per case, from the values of the same cases in the same order."""
    return PairedSample.of(before, after, span=span).interval(level)
