"""The cases that one comparison is about: pairs of both runs, or the cases of each run where they are not paired."""

from abc import ABC, abstractmethod

from assay.comparison.difference import DifferenceInterval
from assay.comparison.metric import Metric
from assay.comparison.pairing import CasePair
from assay.stats.paired import PairedResult, PairedSample
from assay.stats.power import Sensitivity, cases_to_show, sensitivity
from assay.stats.unpaired import UnpairedSample
from assay.stats.unpaired_power import unpaired_cases_to_show, unpaired_sensitivity
from assay.stats.verdict import UnmeasuredBounds, tost_p, unmeasured_bounds, verdict

MAX_BOUNDED = 100_000  # unmeasured cases whose bounds are computed; with more there is no verdict


class CaseSample(ABC):
    """The cases of one comparison, or of one slice of it."""

    span: float | None

    @abstractmethod
    def interval(self, level: float) -> PairedResult:
        """The difference with its interval."""

    @property
    @abstractmethod
    def measured(self) -> int:
        """The cases that the difference is of."""

    @property
    @abstractmethod
    def unmeasured(self) -> int:
        """The cases that were not measured."""

    @property
    @abstractmethod
    def is_same(self) -> bool:
        """Whether every case was measured, and has the same value in both runs."""

    @abstractmethod
    def sensitivity(self, margin: float | None, level: float) -> Sensitivity:
        """What these cases can show."""

    @abstractmethod
    def more_to_show(self, effect: float, level: float) -> int | None:
        """How many more cases would show a difference of this size."""

    @abstractmethod
    def _equivalence_p(self, margin: float) -> float | None:
        """The p of a difference of at least the margin."""

    @abstractmethod
    def _bounds(self, level: float) -> UnmeasuredBounds:
        """What the unmeasured cases could do to the interval."""

    def result(self, found: PairedResult, margin: float | None, metric: Metric) -> DifferenceInterval:
        """The difference with its verdict."""
        is_mean = metric.quantile is None
        bounds: UnmeasuredBounds | None = None
        if self.unmeasured:
            is_bounded = self.unmeasured <= MAX_BOUNDED and self.measured and is_mean
            unbounded = UnmeasuredBounds(self.unmeasured, None, None, None, None)
            bounds = self._bounds(found.level) if is_bounded else unbounded
        decided = verdict(found, margin, bounds=bounds, lower_is_better=metric.lower_is_better)
        measured = verdict(found, margin, lower_is_better=metric.lower_is_better)
        before, after = found.sizes or (None, None)
        return DifferenceInterval(
            before=found.before,
            after=found.after,
            difference=found.estimate,
            low=found.low,
            high=found.high,
            level=found.level,
            method=found.method,
            cases=found.n,
            verdict=decided,
            p_value=found.p_value,
            mcnemar_p=found.mcnemar_p,
            adjusted_p=found.adjusted_p,
            equivalence_p=None
            if margin is None or found.n < 2 or not is_mean
            else self._equivalence_p(margin),
            unmeasured=bounds,
            margin=margin,
            measured_verdict=None if measured == decided else measured,
            cases_before=before,
            cases_after=after,
            share=metric.is_share,
            same=self.is_same,
        )


class PairedCases(CaseSample):
    """The pairs of one group of cases, and the ranges of those that were not measured."""

    def __init__(self, span: float | None) -> None:
        self.span = span
        self._pairs = PairedSample(span)
        self.ranges: list[tuple[float, float]] = []

    def add(self, pair: CasePair) -> None:
        self._pairs.add(pair.before, pair.after, single_trial=pair.single_trial)

    def interval(self, level: float) -> PairedResult:
        return self._pairs.interval(level)

    @property
    def measured(self) -> int:
        return self._pairs.n

    @property
    def unmeasured(self) -> int:
        return len(self.ranges)

    @property
    def is_same(self) -> bool:
        return self._pairs.n > 0 and not self.ranges and not self._pairs.changed

    def sensitivity(self, margin: float | None, level: float) -> Sensitivity:
        return sensitivity(self._pairs, margin, level)

    def more_to_show(self, effect: float, level: float) -> int | None:
        needed = cases_to_show(self._pairs, effect, level)
        return None if needed is None or needed <= self._pairs.n else needed - self._pairs.n

    def _equivalence_p(self, margin: float) -> float | None:
        return tost_p(self._pairs, margin)

    def _bounds(self, level: float) -> UnmeasuredBounds:
        return unmeasured_bounds(self._pairs, self.ranges, level)


class UnpairedCases(CaseSample):
    """The cases of both runs, which are not paired."""

    def __init__(self, sample: UnpairedSample) -> None:
        self.sample, self.span = sample, sample.span

    def interval(self, level: float) -> PairedResult:
        return self.sample.interval(level)

    @property
    def measured(self) -> int:
        """None, if one of the runs measured none."""
        return self.sample.n if self.sample.is_comparable() else 0

    @property
    def unmeasured(self) -> int:
        return self.sample.unmeasured

    @property
    def is_same(self) -> bool:
        return False  # no case is in both runs

    def sensitivity(self, margin: float | None, level: float) -> Sensitivity:
        return unpaired_sensitivity(self.sample, margin, level)

    def more_to_show(self, effect: float, level: float) -> int | None:
        return unpaired_cases_to_show(self.sample, effect, level) or None

    def _equivalence_p(self, margin: float) -> float | None:
        return self.sample.equivalence_p(margin)

    def _bounds(self, level: float) -> UnmeasuredBounds:
        return self.sample.unmeasured_bounds(level)
