"""The verdict of a comparison. It follows from the interval that is shown, and from nothing else."""

from typing import Literal

from assay.stats.paired import PairedResult
from assay.stats.unmeasured import UnmeasuredBounds

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
