"""What a comparison of two runs says: the difference with its interval and verdict, and that of each slice."""

from msgspec import Struct

from assay.comparison.metric import Metric
from assay.comparison.run_scores import GROUPINGS
from assay.stats.verdict import UnmeasuredBounds, Verdict

NO_CHANGE = "no change"


class DifferenceInterval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A difference with its interval and the verdict that follows from it.

    `cases` are those that both runs measured. If the cases are not paired, they are those of both runs together, and
    `cases_before` and `cases_after` say how many each run measured.
    """

    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    cases: int
    verdict: Verdict
    p_value: float | None = None
    mcnemar_p: float | None = None
    adjusted_p: float | None = None
    equivalence_p: float | None = None
    unmeasured: UnmeasuredBounds | None = None
    margin: float | None = None
    measured_verdict: Verdict | None = None  # of the measured cases, if unmeasured ones took it away
    cases_before: int | None = None
    cases_after: int | None = None
    share: bool = False  # the numbers are shares of cases: percentages, and their difference is in points
    same: bool = False  # every case was measured, and has the same value in both runs

    @property
    def word(self) -> str:
        """The verdict for a person. Where nothing differs, data that show no difference are not what is missing."""
        return NO_CHANGE if self.same and self.verdict == "not enough data" else self.verdict


class SliceDifference(Struct, frozen=True, kw_only=True):
    """The difference of one slice. Its interval is adjusted for the number of slices (Holm)."""

    by: str
    slice: str
    result: DifferenceInterval

    def gain(self, metric: Metric) -> float:
        """How much better the slice is. Checks and criteria are compared by their scores."""
        is_lower_better = metric.lower_is_better and self.by not in GROUPINGS
        return (self.result.difference or 0.0) * (-1 if is_lower_better else 1)


class SliceShare(Struct, frozen=True, kw_only=True):
    """The cases of each run in one slice, and their share of all cases of the run."""

    slice: str
    cases_before: int
    cases_after: int
    share_before: float
    share_after: float


class SliceMix(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The slices of a grouping in both runs, those whose shares differ most first.

    `moved` is the share of the cases that would have to be in another slice for the mixes to be equal.
    """

    by: str
    moved: float
    slices: tuple[SliceShare, ...]


class Standardization(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Direct standardization: the difference is the mean of the differences of the slices, weighted by the mix of the
    baseline. `slices` have the weights as `share_before`. `left_out` are slices that one run alone measured.
    """

    by: str
    slices: tuple[SliceShare, ...]
    left_out: tuple[SliceShare, ...] = ()


class SamplingRates(Struct, frozen=True, kw_only=True):
    """The share of all traces that each run has."""

    before: float
    after: float
