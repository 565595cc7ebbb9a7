"""What unmeasured cases could do to an interval: its limits in the worst and in the best case. Nothing is imputed."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from msgspec import Struct

from assay.stats.distributions import numpy, student_quantile
from assay.stats.paired import LEVEL, PairedSample, nearest_limit

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
