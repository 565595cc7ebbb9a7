"""
The difference of two runs over the same cases, and its interval.

A `PairedSample` is filled case by case. One test gives the p value, from the cases that changed and from nothing else:
McNemar's exact test of one trial of each case that passes or fails, and sign flips of all others (`sign_flip.py`). One
method gives the interval:

- fewer than 15 cases: the means that sign flips accept;
- one trial of each case that passes or fails: Tango's score interval (`tango_interval`);
- everything else: Student's t over the differences of the cases;
- all differences equal: no method can estimate their spread. The interval then bounds the share of cases that could
  differ from those seen. It needs `span`, the largest difference that one case can have.

The interval excludes 0 exactly if the test rejects (`agreeing_limits`), so cases that did not change never turn a
verdict.
"""

from array import array
from collections.abc import Iterable, Sequence
from math import isfinite, sqrt
from typing import Literal

from msgspec import Struct

from assay.stats.distributions import normal_quantile, student_quantile
from assay.stats.sign_flip import SignFlip, mcnemar_p, sign_flip_p, tango_interval

LEVEL = 0.95
FEW = 15  # cases below which sign flips give the interval

Method = Literal[
    "tango", "t", "sign-flip", "equal-differences", "bca", "none",
    "newcombe", "gaffke", "welch", "permutation",  # of different cases
]  # fmt: skip


class PairedResult(Struct, frozen=True):
    """
    The mean difference of `n` cases, the second run minus the first, with its interval.

    `low` and `high` are None if there is no interval: without cases, if too few cases cannot bound the difference, or
    if the squares of the differences are beyond the range of a float. `p_value` is at most 1 - level exactly if the
    interval excludes 0. `mcnemar_p` is the same number, and is set if each case passes or fails once. `adjusted_p` is
    set by `holm`. `sizes` are the cases of each run, if they are different cases; `n` is then their sum.
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
    sizes: tuple[int, int] | None = None


class PairedSample:
    """
    What is kept of paired cases. `span` is the largest possible difference of a case; None if there is no limit.

    The differences of the cases that changed are kept, unless each case passes or fails once: then they are counted.
    """

    def __init__(self, span: float | None = 1.0) -> None:
        if span is not None and not span > 0:
            raise ValueError(f"span: expected a number above 0 or None, got {span:g}")
        self.span = span
        self.n = 0
        self.gains = 0
        self.losses = 0
        self.is_binary = True
        self.changes = array("d")
        self._before = self._after = 0.0
        self._mean = 0.0
        self.squares = 0.0  # sum of squared deviations from the mean (Welford)
        self._least = float("inf")
        self._largest = float("-inf")
        self._p_value: tuple[int, float] | None = None  # with the number of cases that it is of

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
        if self.is_binary and not (single_trial and before in (0, 1) and after in (0, 1)):
            self.is_binary, self.changes = False, array("d", self._changes())
        if self.is_binary:
            self.gains += difference > 0
            self.losses += difference < 0
        elif difference:
            self.changes.append(difference)
        self._before += before / self.n - self._before / self.n  # the difference of two numbers may overflow
        self._after += (
            after / self.n - self._after / self.n
        )  # not the sum with the difference: equal values are exact
        step = difference - self._mean
        self._mean += step / self.n if isfinite(step) else difference / self.n - self._mean / self.n
        self.squares += step * (difference - self._mean)
        self._least = min(self._least, difference)
        self._largest = max(self._largest, difference)

    def _changes(self) -> Sequence[float]:
        return [1.0] * self.gains + [-1.0] * self.losses if self.is_binary else self.changes

    @property
    def changed(self) -> int:
        """The cases whose value differs."""
        return self.gains + self.losses if self.is_binary else len(self.changes)

    def differences(self) -> list[float]:
        """The differences of all cases, for a sample of few."""
        changes = self._changes()
        return [*changes, *[0.0] * (self.n - len(changes))]

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

    def p_value(self) -> float:
        """The two-sided p of no difference. Cases that did not change have no part in it."""
        if self._p_value is None or self._p_value[0] != self.n:
            found = mcnemar_p(self.gains, self.losses) if self.is_binary else sign_flip_p(self.changes)
            self._p_value = self.n, found
        return self._p_value[1]

    def interval(self, level: float = LEVEL) -> PairedResult:
        """The difference with its interval at this level."""
        if not 0 < level < 1:
            raise ValueError(f"level: expected a number between 0 and 1, got {level:g}")
        estimate, method = self.estimate, self.method
        if estimate is None:
            return PairedResult(None, None, None, None, None, level, "none", 0)
        limits = _LIMITS[method](self, level)
        if limits is not None and not all(map(isfinite, limits)):  # squares beyond the range of a float
            limits = None
        if limits is None and self.span is not None:
            limits = -self.span, self.span
        p_value = self.p_value()
        low, high = agreeing_limits(estimate, limits, p_value, level) or (None, None)
        return PairedResult(
            before=self._before,
            after=self._after,
            estimate=estimate,
            low=low,
            high=high,
            level=level,
            method=method,
            n=self.n,
            p_value=p_value,
            mcnemar_p=p_value if self.is_binary else None,
        )


Limits = tuple[float, float]


def agreeing_limits(estimate: float, limits: Limits | None, p_value: float, level: float) -> Limits | None:
    """
    The limits, which exclude 0 exactly if the test of no difference rejects at this level.

    Where it does not reject, they are extended to 0. Where it rejects and they include 0, the nearer one becomes that
    of the test-based interval (O. Miettinen, American Journal of Epidemiology 103, 1976). So do both if there were
    none.
    """
    alpha = 1 - level
    if p_value > alpha * (1 + 1e-9):
        return None if limits is None else (min(limits[0], 0.0), max(limits[1], 0.0))
    near, far = _test_based(estimate, p_value, alpha)
    if limits is None:
        return (min(near, far), max(near, far)) if isfinite(far) else None
    low, high = limits
    if estimate > 0:
        return (low if low > 0 else near), high
    return low, (high if high < 0 else near)


def _test_based(estimate: float, p_value: float, alpha: float) -> Limits:
    """The limit between 0 and the estimate, and the one beyond it."""
    share = min(normal_quantile(alpha / 2) / normal_quantile(p_value / 2), 1 - 1e-9) if p_value else 0.0
    return estimate * (1 - share), estimate * (1 + share)


def nearest_limit(result: PairedResult) -> float | None:
    """The test-based limit between 0 and the estimate of a result whose test rejects; else None."""
    alpha = 1 - result.level
    if result.estimate is None or result.p_value is None or result.p_value > alpha * (1 + 1e-9):
        return None
    return _test_based(result.estimate, result.p_value, alpha)[0]


def _tango(sample: PairedSample, level: float) -> Limits:
    return tango_interval(sample.gains, sample.losses, sample.n, level)


def _sign_flip(sample: PairedSample, level: float) -> Limits | None:
    return SignFlip(sample.differences()).interval(level)


def _student(sample: PairedSample, level: float) -> Limits | None:
    mean, deviation = sample.estimate or 0.0, sample.deviation or 0.0
    error = deviation / sqrt(sample.n)
    if not error:  # differences whose squares are below the range of a float
        return None
    reach = student_quantile((1 + level) / 2, sample.n - 1) * error
    return mean - reach, mean + reach


def _equal_differences(sample: PairedSample, level: float) -> Limits | None:
    """
    All n cases differ by d.

    At this level, a share of at most 1 - ((1 - level) / 2)^(1/n) of all cases can be unlike them.

    Each of those can differ by `span` in either direction. Without a span there are no limits.
    """
    if sample.span is None:
        return None
    difference, span = sample.estimate or 0.0, sample.span
    like = ((1 - level) / 2) ** (1 / sample.n)
    low, high = like * difference - (1 - like) * span, like * difference + (1 - like) * span
    return max(low, -span), min(high, span)


_LIMITS = {
    "tango": _tango,
    "sign-flip": _sign_flip,
    "t": _student,
    "equal-differences": _equal_differences,
}
