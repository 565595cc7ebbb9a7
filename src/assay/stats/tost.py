"""The two one-sided tests (TOST): is a difference smaller than a margin?"""

from math import sqrt

from assay.stats.distributions import normal_tail, student_tail
from assay.stats.paired import PairedSample
from assay.stats.sign_flip import SignFlip
from assay.stats.tango import tango_score


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
