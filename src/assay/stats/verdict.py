"""The verdict of a comparison. It follows from the interval that is shown, and from nothing else."""

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from math import sqrt
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from assay.concurrency.loop_budget import spend
from assay.stats.distributions import normal_tail, numpy, student_quantile, student_tail
from assay.stats.paired import LEVEL, PairedResult, PairedSample, nearest_limit
from assay.stats.sign_flip import SignFlip, tango_score

# Several comparisons at once: Holm's adjustment of p values, with intervals that say the same.

Key = TypeVar("Key", bound=Hashable)


class HasInterval(Protocol):
    """A sample of paired cases or of different ones."""

    def interval(self, level: float, /) -> PairedResult: ...


def holm(samples: Mapping[Key, HasInterval], level: float = LEVEL) -> dict[Key, PairedResult]:
    """
    The result of each sample, with Holm's adjusted p and an adjusted interval, in the order of `samples`.

    With m samples, the one with the i-th smallest p has an interval at 1 - (1 - level) / (m - i + 1). From the first
    that does not exclude 0 on, all have the level of that one. An interval excludes 0 exactly if Holm's procedure
    rejects that the difference is 0. A sample without a p value counts as one with p = 1.
    """
    plain: dict[Key, PairedResult] = {}
    for key, sample in samples.items():
        spend()  # there may be thousands of samples
        plain[key] = sample.interval(level)
    ranked = sorted(plain, key=lambda key: _p_value(plain[key]))
    found: dict[Key, PairedResult] = {}
    adjusted, stopped_at = 0.0, None
    for rank, key in enumerate(ranked):
        spend()
        remaining = len(ranked) - rank
        adjusted = max(adjusted, min(1.0, remaining * _p_value(plain[key])))
        share = stopped_at or remaining
        result = samples[key].interval(1 - (1 - level) / share)
        if stopped_at is None and not excludes_zero(result):
            stopped_at = remaining
        found[key] = replace(result, adjusted_p=adjusted if result.p_value is not None else None)
    return {key: found[key] for key in samples}


def excludes_zero(result: PairedResult) -> bool:
    return result.low is not None and result.high is not None and (result.low > 0 or result.high < 0)


def _p_value(result: PairedResult) -> float:
    return 1.0 if result.p_value is None else result.p_value


# The two one-sided tests (TOST): is a difference smaller than a margin?


def tost_p(sample: PairedSample, margin: float) -> float | None:
    """
    The p of a difference of at least `margin` in either direction. None if it cannot be computed.

    It is below a exactly if the interval at the level 1 - 2a is within the margin. A verdict at 95% therefore has a =
    0.025.
    """
    if not margin > 0:
        raise ValueError(f"margin: expected a number above 0, got {margin:g}")
    estimate = sample.estimate
    if estimate is None:
        return None
    match sample.method:
        case "tango":
            if margin >= 1:
                return 0.0
            counts = sample.gains, sample.losses, sample.n
            return max(normal_tail(tango_score(*counts, -margin)), normal_tail(-tango_score(*counts, margin)))
        case "sign-flip":
            test = SignFlip(sample.differences())
            return max(test.above(-margin), test.below(margin))
        case "t":
            error = (sample.deviation or 0.0) / sqrt(sample.n)
            return student_tail((margin - abs(estimate)) / error, sample.n - 1) if error else None
        case "equal-differences" if sample.span is not None:
            # The share of cases that are like those seen, at which a limit reaches the margin, to the power of n.
            like = (sample.span - margin) / (sample.span - abs(estimate)) if abs(estimate) < margin else 1.0
            return min(1.0, max(0.0, like)) ** sample.n
        case _:
            return None


# What unmeasured cases could do to an interval: its limits in the worst and in the best case. Nothing is imputed.

EDGE_POINTS = 16  # of a line between two corners


class UnmeasuredBounds(Struct, frozen=True):
    """
    The least lower limit and the largest upper limit that the interval could have with every case measured.

    `worst` and `best` are the estimates if all unmeasured cases had turned out worst or best. None: no limit.
    """

    cases: int
    worst: float | None
    best: float | None
    low: float | None
    high: float | None


def unmeasured_bounds(
    sample: PairedSample, ranges: Sequence[tuple[float, float]], level: float = LEVEL
) -> UnmeasuredBounds:
    """
    The bounds, from the least and the largest possible difference of each unmeasured case.

    Of a score between 0 and 1, the range is (-before, 1 - before) if only the second run lacks the case,
    (after - 1, after) if only the first does, and (-1, 1) if both do.
    """
    found = sample.interval(level)
    if not ranges:
        return UnmeasuredBounds(0, found.estimate, found.estimate, found.low, found.high)
    if sample.span is None:
        return UnmeasuredBounds(len(ranges), None, None, None, None)
    worst = _filled(sample, [low for low, _ in ranges]).interval(level)
    best = _filled(sample, [high for _, high in ranges]).interval(level)
    lows, highs = [worst.low, best.low], [worst.high, best.high]
    if found.method == "equal-differences":  # the interval can be widest if the other cases are like these
        middle = found.estimate or 0.0
        alike = _filled(sample, [min(max(middle, low), high) for low, high in ranges]).interval(level)
        lows.append(alike.low)
        highs.append(alike.high)
    if "t" in (worst.method, best.method):
        some_lows, some_highs = _corner_limits(sample, ranges, level)
        lows += some_lows
        highs += some_highs
    low = None if None in lows else min(one for one in lows if one is not None)
    high = None if None in highs else max(one for one in highs if one is not None)
    # No way to fill the cases has a larger p than the extreme one, so no interval reaches 0 if that one does not.
    if low is not None and low <= 0 and worst.low is not None and worst.low > 0:
        low = min(worst.low, nearest_limit(worst) or worst.low)
    if high is not None and high >= 0 and best.high is not None and best.high < 0:
        high = max(best.high, nearest_limit(best) or best.high)
    return UnmeasuredBounds(len(ranges), worst.estimate, best.estimate, low, high)


def _filled(sample: PairedSample, differences: Sequence[float]) -> PairedSample:
    """The sample with these cases as well."""
    filled = copy(sample)
    filled.changes = sample.changes[:]
    for one in differences:
        before = 1 if one < 0 else 0  # a difference of -1, 0 or 1 is one of a case that passes or fails
        filled.add(before, before + one)
    return filled


def _corner_limits(
    sample: PairedSample, ranges: Sequence[tuple[float, float]], level: float
) -> tuple[list[float | None], list[float | None]]:
    """
    The limits of t with some unmeasured cases at their largest difference and the others at their least.

    The lower limit is concave in each difference and the upper one convex, because a spread widens the interval. The
    extremes are therefore corners, and not always those where all cases move the same way. With the largest middle
    first, the corners are those with the largest sum of squares for their sum. No other corner is above the lines
    between them, so points on these lines bound the corners of ranges of unlike widths. Ranges of equal width need no
    points between.
    """
    np = numpy()
    ordered = np.array(sorted(ranges, key=sum, reverse=True), dtype=float)
    least, largest = ordered[:, 0], ordered[:, 1]
    n, mean = sample.n + len(ranges), sample.estimate or 0.0
    widths, growth = largest - least, largest**2 - least**2
    steps = np.array(
        [1.0] if np.ptp(widths) == 0 else [step / EDGE_POINTS for step in range(1, EDGE_POINTS + 1)]
    )
    sums = _along(sample.n * mean + least.sum(), widths, steps)
    squares = _along(sample.squares + sample.n * mean**2 + (least**2).sum(), growth, steps)
    means = sums / n
    errors = np.sqrt(np.maximum(0.0, squares - n * means**2) / (n - 1) / n)
    reach = student_quantile((1 + level) / 2, n - 1) * errors
    return (means - reach).tolist(), (means + reach).tolist()


def _along(first: float, steps: Any, parts: Any) -> Any:
    """The running sums of the steps from `first` on, each step in parts."""
    np = numpy()
    before = first + np.cumsum(steps) - steps
    return (before[:, None] + steps[:, None] * parts[None, :]).ravel()


Verdict = Literal["improved", "regressed", "equivalent", "not enough data"]


def verdict(
    result: PairedResult,
    margin: float | None = None,
    *,
    bounds: UnmeasuredBounds | None = None,
    lower_is_better: bool = False,
) -> Verdict:
    """
    `equivalent` if the whole interval is within the margin, else `improved` or `regressed` if it excludes 0.

    A difference within the margin is `equivalent` even if it is certain: the margin says that it does not matter.
    With `bounds`, a verdict that the unmeasured cases could change is `not enough data`.
    """
    if margin is not None and not margin > 0:
        raise ValueError(f"margin: expected a number above 0, got {margin:g}")
    found = interval_verdict(result.low, result.high, margin, lower_is_better=lower_is_better)
    if bounds is None or not bounds.cases:
        return found
    extreme = interval_verdict(bounds.low, bounds.high, margin, lower_is_better=lower_is_better)
    return found if extreme == found else "not enough data"


def interval_verdict(
    low: float | None, high: float | None, margin: float | None, *, lower_is_better: bool = False
) -> Verdict:
    """The verdict of an interval. None is an interval without limits."""
    if low is None or high is None:
        return "not enough data"
    if margin is not None and -margin < low and high < margin:
        return "equivalent"
    if low > 0:
        return "regressed" if lower_is_better else "improved"
    if high < 0:
        return "improved" if lower_is_better else "regressed"
    return "not enough data"
