"""When a run may stop: after each round, limits that hold at every look decide about it (ADR-0239)."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from assay.comparison.metric import PASSED
from assay.comparison.pairing import CaseIndex, CaseValues, PairedRuns, run_cases
from assay.comparison.run_scores import RunScores
from assay.errors import InvalidRequest, Problem
from assay.errors.door import place_of
from assay.stats.sequential import ConfidenceSequence, Limits
from assay.stats.verdict import interval_verdict

Decision = Literal["improved", "regressed", "equivalent", "above the bar", "below the bar"]
GOOD: frozenset[Decision] = frozenset(("improved", "equivalent", "above the bar"))


class Look(Struct, frozen=True, kw_only=True):
    """
    What a run knows after a round. `decision` is None while it has to go on.

    `before` and `estimate` are the means over the cases that were run so far, with the limits of the difference or of
    the rate. Unmeasured cases are in neither; a decision that they could turn is not made.
    """

    metric: str
    estimate: float | None
    low: float
    high: float
    cases: int
    unmeasured: int
    decision: Decision | None


class Values:
    """One value a case: those that were measured, and the least and the largest that the others could have."""

    def __init__(self, least: float, largest: float) -> None:
        self._ends = least, largest
        self._measured: list[float] = []
        self._ranges: list[tuple[float, float]] = []
        self._before: list[Limits | None] = [None, None, None]

    def take(self, measured: Iterable[float], ranges: Iterable[tuple[float, float]]) -> None:
        self._measured, self._ranges = list(measured), list(ranges)

    def limits(self) -> tuple[Limits, Limits, Limits]:
        """Of the measured cases; and if all others had turned out worst, or best."""
        worst, best = ([one[at] for one in self._ranges] for at in (0, 1))
        found = tuple(self._look(at, extra) for at, extra in enumerate(([], worst, best)))
        self._before = list(found)
        return found[0], found[1], found[2]

    def _look(self, at: int, extra: list[float]) -> Limits:
        sequence = ConfidenceSequence(*self._ends)
        for value in (*self._measured, *extra):
            sequence.add(value)
        return sequence.look(self._before[at])

    @property
    def unmeasured(self) -> int:
        return len(self._ranges)


class DifferenceRule:
    """Decides about the difference to a baseline, case by case."""

    def __init__(self, baseline: RunScores, margin: float | None = None) -> None:
        if margin is not None and not 0 < margin < 1:
            raise InvalidRequest(
                Problem(place_of("margin"), f"expected a number between 0 and 1, got {margin:g}")
            )
        self._baseline, self._margin = baseline, margin
        self._values = Values(-1.0, 1.0)

    def look(self, run: RunScores) -> Look:
        """Look at the cases so far. Raises InvalidRequest if they cannot be compared with the baseline."""
        paired = PairedRuns([self._baseline, run])
        pairing, metric = paired.pairings[1], paired.metric
        require_range([self._baseline, run], metric.name)
        self._values.take(
            (pair.after - pair.before for pair in pairing.pairs()), (one for _, one in pairing.unmeasured())
        )
        found, worst, best = self._values.limits()
        verdict = interval_verdict(found.low, found.high, self._margin)
        extreme = interval_verdict(worst.low, best.high, self._margin)
        decided = None if verdict == "not enough data" or verdict != extreme else verdict
        return _look(metric.name, found, self._values.unmeasured, decided)


class BarRule:
    """Decides whether the share of passed cases is above a bar or below it."""

    def __init__(self, bar: float) -> None:
        self._bar, self._values = bar, Values(0.0, 1.0)

    def look(self, run: RunScores) -> Look:
        index = CaseIndex([run])
        cases = list(run_cases(CaseValues(index, 0, run.metrics[PASSED.name]), is_whole=True))
        self._values.take(
            (one.mean for one in cases if one.mean is not None),
            (one.limits for one in cases if one.mean is None),
        )
        found, worst, best = self._values.limits()
        decided: Decision | None = None
        if found.n and min(found.low, worst.low) >= self._bar:
            decided = "above the bar"
        elif found.n and max(found.high, best.high) < self._bar:
            decided = "below the bar"
        return _look(PASSED.name, found, self._values.unmeasured, decided)


StoppingRule = DifferenceRule | BarRule


def require_range(runs: Iterable[RunScores], metric: str) -> None:
    """Refuse numbers without a known range: no limits hold for them at every look."""
    for run in runs:
        wrong = next((one for one in run.metrics[metric].values if one < 0 or one > 1), None)
        if wrong is not None:
            text = (
                f"{run.title} has a {metric} of {wrong:g}; a run can stop early by numbers from 0 to 1 alone"
            )
            raise InvalidRequest(Problem(place_of("until"), text))


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
