"""The level of one run: the mean of its metric with an interval (FEP-52), its words, and the outcomes of its cases."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from assay.comparison.compare import CaseList
from assay.comparison.metric import Metric, read_metric
from assay.comparison.pairing import ABSENT, MEASURED, UNMEASURED, CaseIndex, CaseValues
from assay.comparison.run_scores import RunScores
from assay.concurrency.loop_budget import paced
from assay.errors import InvalidRequest, Problem
from assay.stats.intervals import METHOD_NAMES, Method, Range, counted_rate, mean_of, score_range
from assay.stats.number_text import Scale, range_text, value_text

MAX_IDS = 1_000
Outcome = Literal["passed", "failed", "unmeasured", "other"]


class RunLevel(Struct, frozen=True, kw_only=True):
    """The mean of a metric over the cases. `method` names its interval."""

    metric: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    method: Method = "none"
    cases: int = 0
    unmeasured: CaseList = CaseList(0)


class CaseOutcome(Struct, frozen=True):
    id: str
    outcome: Outcome


class LevelReader:
    """Reads one run's level and its cases."""

    def __init__(self, run: RunScores, metric: Metric) -> None:
        if metric.quantile is not None:
            raise InvalidRequest(Problem("metric", f"expected a metric with a mean, got {metric.name}"))
        self._index, self._metric = CaseIndex([run]), metric
        self._values = CaseValues(self._index, 0, run.metrics[metric.name])
        self._passed = CaseValues(self._index, 0, run.metrics["passed"])

    def level(self) -> RunLevel:
        counts = [
            (trials, total)
            for trials, measured, total in paced(self._values.counts())
            if trials == measured and trials
        ]
        missing = [case for case in paced(range(self._index.count)) if self._is_unmeasured(case)]
        listed = CaseList(len(missing), tuple(map(self._index.id_of, missing[:MAX_IDS])))
        if not counts:
            return RunLevel(metric=self._metric.name, unmeasured=listed)
        if self._metric.kind == "passed":
            rate = counted_rate(Counter((round(total), trials) for trials, total in counts))
            assert rate is not None
            mean, low, high, method = rate.rate, rate.low, rate.high, rate.method
        else:
            values = [total / trials for trials, total in counts]
            found = mean_of(values, sum(trials for trials, _ in counts), self._range(values))
            mean, low, high, method = found.mean, found.low, found.high, found.method
        return RunLevel(
            metric=self._metric.name, mean=mean, low=low, high=high, method=method, cases=len(counts),
            unmeasured=listed,
        )  # fmt: skip

    def _range(self, values: Sequence[float]) -> Range | None:
        """Scores and true or false members of a result have a range; other numbers have none that is known."""
        is_score = self._metric.kind == "score" or (
            self._metric.kind == "check" and self._metric.member in ("", "score", "passed")
        )
        return score_range(values) if is_score else None

    def _is_unmeasured(self, case: int) -> bool:
        """A case without any value was not measured, except by the metric of a check that the case does not have."""
        status = self._values.status(case)
        return status == UNMEASURED or (status == ABSENT and self._metric.kind != "check")

    def outcomes(self) -> Iterator[CaseOutcome]:
        """Every case in the order of the run. A case passed if all its trials passed."""
        passed = list(self._passed.counts())
        for case in paced(range(self._index.count)):
            states = self._passed.status(case), self._values.status(case)
            outcome: Outcome = "other"
            if UNMEASURED in states or self._is_unmeasured(case):
                outcome = "unmeasured"
            elif states[0] == MEASURED:
                outcome = "passed" if passed[case][2] >= passed[case][0] else "failed"
            if states != (ABSENT, ABSENT):
                yield CaseOutcome(self._index.id_of(case), outcome)


def metric_text(metric: str) -> str:
    """A metric in words: `the case pass rate`."""
    words = {"passed": "the case pass rate", "score": "the mean score"}
    return words.get(metric, f"the mean of {metric}")


def level_text(level: RunLevel) -> str:
    """`the case pass rate is 91.7%, 95% 85.3…95.5%, 120 cases`; `the score is 0.917, 95% 0.853…0.955, 120 cases`."""
    if level.mean is None:
        return f"{metric_text(level.metric)} is not known: no case was measured"
    return f"{metric_text(level.metric)} is {level_value(level, level.mean)}, {limits_text(level)}"


def limits_text(level: RunLevel) -> str:
    cases = f"{level.cases:,} case{'' if level.cases == 1 else 's'}"
    if level.low is None or level.high is None:
        return f"{METHOD_NAMES[level.method]}, {cases}"
    return f"95% {limits_of(level, '…')}, {cases}"


def limits_of(level: RunLevel, between: str) -> str:
    """`85.3…95.5%`: the ends of the interval; a dash if there is none."""
    return range_text(level.low, level.high, _scale(level), between)


def level_value(level: RunLevel, value: float) -> str:
    """A value of the metric: a share of cases, a score, or any number."""
    return value_text(value, _scale(level))


def _scale(level: RunLevel) -> Scale:
    kind = read_metric(level.metric).kind
    return "rate" if kind == "passed" else "score" if kind == "score" else "number"
