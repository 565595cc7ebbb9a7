"""Decides about a run after each round, by limits that hold at every look (ADR-0239)."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from assay.stats.number_text import ScaleText
from assay.stats.sequential import ConfidenceSequence, Limits
from assay.stats.verdict import interval_verdict

Decision = Literal["improved", "regressed", "equivalent", "above the bar", "below the bar"]
GOOD: frozenset[Decision] = frozenset(("improved", "equivalent", "above the bar"))
UNDECIDED: Literal["not enough data"] = "not enough data"
Ranges = Iterable[tuple[float, float]]


class Look(Struct, frozen=True, kw_only=True):
    """
    What a run knows after a round. `decision` is None while it has to go on.

    `estimate` is the mean over the cases so far, with its limits: a difference, or a rate. Unmeasured cases
    are not in it; a decision that they could turn is not made.
    """

    metric: str
    estimate: float | None
    low: float
    high: float
    cases: int
    unmeasured: int
    decision: Decision | None

    def text(self, *, is_rate: bool) -> str:
        """
        `passed 93.0% (85.1…97.2%)` of a rate, `score +0.100 (+0.020…+0.180)` of a difference; empty: none is measured.
        """
        if self.estimate is None:
            return ""
        scale = ScaleText(is_share=self.metric == "passed")
        if is_rate:
            limits = f"{scale.limit(self.low)}…{scale.value(self.high)}"
            return f"{self.metric} {scale.value(self.estimate)} ({limits})"
        limits = f"{scale.change_limit(self.low)}…{scale.change_limit(self.high)}"
        return f"{self.metric} {scale.change(self.estimate)} ({limits})"


class _Looks:
    """The limits of the looks so far: of the measured cases, and if all others had turned out worst, or best."""

    def __init__(self, least: float, largest: float) -> None:
        self._ends = least, largest
        self._before: tuple[Limits, Limits, Limits] | None = None
        self.unmeasured = 0

    def look(self, measured: Iterable[float], ranges: Ranges) -> tuple[Limits, Limits, Limits]:
        values, others = list(measured), list(ranges)
        self.unmeasured = len(others)
        worst, best = ([one[at] for one in others] for at in (0, 1))
        found = tuple(self._limits(at, [*values, *extra]) for at, extra in enumerate(([], worst, best)))
        self._before = found[0], found[1], found[2]
        return self._before

    def _limits(self, at: int, values: list[float]) -> Limits:
        sequence = ConfidenceSequence(*self._ends)
        for value in values:
            sequence.add(value)
        return sequence.look(None if self._before is None else self._before[at])


class DifferenceLooks:
    """Decides about differences between -1 and 1, one of each case."""

    def __init__(self, margin: float | None = None) -> None:
        self._margin, self._looks = margin, _Looks(-1.0, 1.0)

    def look(self, metric: str, differences: Iterable[float], ranges: Ranges = ()) -> Look:
        """`ranges`: the least and the largest difference that each unmeasured case could have."""
        found, worst, best = self._looks.look(differences, ranges)
        verdict = interval_verdict(found.low, found.high, self._margin)
        extreme = interval_verdict(worst.low, best.high, self._margin)
        decided = None if verdict == UNDECIDED or verdict != extreme else verdict
        return _look(metric, found, self._looks.unmeasured, decided)


class BarLooks:
    """Decides whether a mean of values between 0 and 1, one of each case, is above a bar or below it."""

    def __init__(self, bar: float) -> None:
        self._bar, self._looks = bar, _Looks(0.0, 1.0)

    def look(self, metric: str, values: Iterable[float], ranges: Ranges = ()) -> Look:
        found, worst, best = self._looks.look(values, ranges)
        decided: Decision | None = None
        if found.n and min(found.low, worst.low) >= self._bar:
            decided = "above the bar"
        elif found.n and max(found.high, best.high) < self._bar:
            decided = "below the bar"
        return _look(metric, found, self._looks.unmeasured, decided)


def _look(metric: str, found: Limits, unmeasured: int, decision: Decision | None) -> Look:
    return Look(
        metric=metric,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        cases=found.n,
        unmeasured=unmeasured,
        decision=decision,
    )
