"""When an evaluation may stop: after each round, its results so far decide about it (ADR-0239)."""

from collections.abc import Iterable

from assay.comparison.metric import PASSED
from assay.comparison.pairing import CaseIndex, CaseValues, PairedRuns, run_cases
from assay.comparison.run_scores import RunScores
from assay.errors import InvalidRequest, Problem
from assay.errors.door import place_of
from assay.stats.stopping import BarLooks, DifferenceLooks, Look


class DifferenceRule:
    """Decides about the difference to a baseline, case by case."""

    def __init__(self, baseline: RunScores, margin: float | None = None) -> None:
        if margin is not None and not 0 < margin < 1:
            raise InvalidRequest(
                Problem(place_of("margin"), f"expected a number between 0 and 1, got {margin:g}")
            )
        self._baseline, self._looks = baseline, DifferenceLooks(margin)

    def look(self, run: RunScores) -> Look:
        """Look at the cases so far. Raises InvalidRequest if they cannot be compared with the baseline."""
        paired = PairedRuns([self._baseline, run])
        pairing, metric = paired.pairings[1], paired.metric
        _require_range([self._baseline, run], metric.name)
        differences = (pair.after - pair.before for pair in pairing.pairs())
        return self._looks.look(metric.name, differences, (one for _, one in pairing.unmeasured()))


class BarRule:
    """Decides whether the share of passed cases is above a bar or below it."""

    def __init__(self, bar: float) -> None:
        self._looks = BarLooks(bar)

    def look(self, run: RunScores) -> Look:
        index = CaseIndex([run])
        cases = list(run_cases(CaseValues(index, 0, run.metrics[PASSED.name]), is_whole=True))
        measured = (one.mean for one in cases if one.mean is not None)
        return self._looks.look(PASSED.name, measured, (one.limits for one in cases if one.mean is None))


StoppingRule = DifferenceRule | BarRule


def _require_range(runs: Iterable[RunScores], metric: str) -> None:
    """Refuse numbers without a known range: no limits hold for them at every look."""
    for run in runs:
        wrong = next((one for one in run.metrics[metric].values if one < 0 or one > 1), None)
        if wrong is not None:
            text = (
                f"{run.title} has a {metric} of {wrong:g}; a run can stop early by numbers from 0 to 1 alone"
            )
            raise InvalidRequest(Problem(place_of("until"), text))
