"""
The gate: one outcome and one sentence why.

`failed`: a rule of the policy is broken, or a regression was shown. `undecided`: neither, but the run is empty, partial
or not measured, has other inputs than the baseline, or is visibly worse than it. `passed`: the rest.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from assay.comparison.compare import CaseList, PairComparison
from assay.comparison.metric import Metric, read_metric
from assay.comparison.pairing import ABSENT, MEASURED, UNMEASURED, CaseIndex, CaseValues
from assay.comparison.policy import GatePolicy
from assay.comparison.run_scores import SEVERITIES, RunScores
from assay.comparison.wording import more_cases_text, smallest_drop_text, verdict_line
from assay.concurrency.loop_budget import paced
from assay.errors import InvalidRequest, Problem
from assay.errors.door import hint_of
from assay.protocol.agent_evals import findings_text
from assay.stats.intervals import METHOD_NAMES, Method, Range, counted_rate, mean_of, score_range
from assay.stats.number_text import value_text

# The level of one run: the mean of its metric with an interval (FEP-52), and the cases that did not pass.

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


GateOutcome = Literal["passed", "failed", "undecided"]
NAMED = 3  # cases that a sentence names
MAX_FINDINGS = 1_000  # that are listed


class Finding(Struct, frozen=True):
    """Safety findings of one kind in one case, without content."""

    case: str
    kind: str
    severity: str
    count: int


class GateResult(Struct, frozen=True, kw_only=True):
    """
    `exit_code` is that of `assay gate`. `newly_failing` are the cases whose trials all passed in the baseline, and none
    in the run.
    """

    outcome: GateOutcome
    exit_code: int
    reason: str
    run: str
    level: RunLevel
    preset: str = "balanced"
    failing: tuple[CaseOutcome, ...] = ()
    more_failing: int = 0
    newly_failing: CaseList = CaseList(0)
    findings: tuple[Finding, ...] = ()
    not_looked_for: tuple[str, ...] = ()  # kinds of findings, each with the reason
    comparison: PairComparison | None = None


def findings_of(run: RunScores) -> tuple[Finding, ...]:
    """The findings of a run by case and kind, the most severe first."""
    rows = [
        Finding(case, kind, severity, count)
        for severity, found in run.findings.items()
        for (case, kind), count in found.items()
    ]
    order = {severity: at for at, severity in enumerate(SEVERITIES)}
    rows.sort(key=lambda one: (order.get(one.severity, len(order)), one.case, one.kind))
    return tuple(rows[:MAX_FINDINGS])


class GateFacts(Struct, frozen=True, kw_only=True):
    """What a gate decides by."""

    run: RunScores
    level: RunLevel
    policy: GatePolicy
    comparison: PairComparison | None = None
    newly_failing: CaseList = CaseList(0)
    allow_partial: bool = False
    unknown_baseline: bool = False  # nothing says whether the baseline is complete

    @property
    def noun(self) -> str:
        return "task" if self.run.is_eval else "case"


def decide(facts: GateFacts) -> tuple[GateOutcome, str]:
    """The outcome and the reason: a finding first, then what cannot be decided, then what failed."""
    found = next(_broken_findings(facts), None)
    if found is not None:
        return "failed", found
    missing = next(_missing(facts), None)
    if missing is not None:
        return "undecided", missing
    failed = next(_failures(facts), None)
    if failed is not None:
        return failed
    worse = list(_visibly_worse(facts))
    if worse:
        return "undecided", _against(facts, "; ".join(worse))
    return "passed", _passed(facts)


def _missing(facts: GateFacts) -> Iterator[str]:
    run, level, policy, comparison = facts.run, facts.level, facts.policy, facts.comparison
    if not run.rows:
        yield f"{run.name} is empty: there is no result to decide on"
    if run.incomplete and not facts.allow_partial:
        yield f"{run.name} is not complete: {run.incomplete}"
    if run.unknown_end and not facts.allow_partial:
        yield _unknown(run.name)
    missing = level.unmeasured
    if missing.count > policy.max_unmeasured:
        yield (
            f"{_count(missing.count, facts.noun)} not measured ({_names(missing.ids, missing.count)});"
            f" the policy allows {policy.max_unmeasured:,}"
        )
    if not level.cases:
        yield f"no {facts.noun} was measured"
    if comparison is not None:
        yield from _missing_in_comparison(facts, comparison)


def _missing_in_comparison(facts: GateFacts, comparison: PairComparison) -> Iterator[str]:
    lost, name = comparison.only_in_baseline, facts.run.name
    if lost.count and not facts.policy.allow_missing_cases:
        yield (
            f"{_count(lost.count, facts.noun)} of the baseline {'is' if lost.count == 1 else 'are'} not in {name}"
            f" ({_names(lost.ids, lost.count)})"
        )
    other = comparison.other_inputs
    if other.count:
        yield (
            f"{_count(other.count, facts.noun)} {'has' if other.count == 1 else 'have'} another input in {name} than in"
            f" {comparison.baseline} ({_names(other.ids, other.count)}): {facts.noun}s are paired by their ids;"
            f" give each {facts.noun} an id of its own, or compare runs of the same {facts.noun}s"
        )
    if facts.allow_partial:
        return
    for note in comparison.notes:
        if note.startswith(f"{comparison.baseline} is not complete"):
            yield f"the baseline {note}"
    if facts.unknown_baseline:
        yield f"the baseline: {_unknown(comparison.baseline)}"


def _unknown(name: str) -> str:
    unknown = f"unknown whether {name} is complete: it does not say how many cases were planned"
    return f"{unknown}; {hint_of('allow-partial', code='True')} decides on what it has"


def _broken_findings(facts: GateFacts) -> Iterator[str]:
    run, policy = facts.run, facts.policy
    for severity in SEVERITIES:
        number = run.finding_counts.get(severity, 0)
        if number > (allowed := policy.max_findings.get(severity, 0)):
            kinds = [kind for one, kind in run.finding_kinds if one == severity]
            yield f"{findings_text(number, severity, kinds)}, at most {allowed:,} allowed"


def _failures(facts: GateFacts) -> Iterator[tuple[GateOutcome, str]]:
    policy, comparison = facts.policy, facts.comparison
    yield from _below_bar(facts)
    if comparison is None:
        return
    line = verdict_line(comparison.result)
    if comparison.verdict == "regressed":
        yield "failed", f"it regressed against {comparison.baseline}: {line}"
    if comparison.result.measured_verdict == "regressed":
        yield (
            "undecided",
            f"the measured cases regressed against {comparison.baseline}, and only unmeasured ones could change"
            f" that ({_names(comparison.unmeasured.ids, comparison.unmeasured.count)}): {line}",
        )
    for one in comparison.slices:
        if one.result.verdict == "regressed":
            yield "failed", f"the slice {one.by} {one.slice} regressed: {verdict_line(one.result)}"
        elif one.result.measured_verdict == "regressed":
            yield (
                "undecided",
                f"the measured cases of the slice {one.by} {one.slice} regressed, and only unmeasured ones could"
                f" change that: {verdict_line(one.result)}",
            )
    allowed = {"not-regressed": (), "equivalent": ("equivalent", "improved"), "improved": ("improved",)}[
        policy.require
    ]
    if allowed and comparison.verdict not in allowed:
        expected = f"the policy requires {policy.require} against {comparison.baseline}"
        if comparison.verdict == "not enough data":
            yield "undecided", _against(facts, expected)
        else:
            yield "failed", f"{expected}: {line}"
    rules = policy.drop_rules
    if rules.newly_failing == "failed" and (newly := _newly_failing(facts)) is not None:
        yield "failed", f"{newly}: {line}"


def _visibly_worse(facts: GateFacts) -> Iterator[str]:
    """A drop that is plain to see, although no test shows it."""
    comparison, rules = facts.comparison, facts.policy.drop_rules
    if comparison is None or comparison.verdict in ("improved", "equivalent"):
        return
    drop, most = drop_of(facts), rules.max_drop
    if drop is not None and most is not None and drop > most + 1e-9:
        yield (
            f"{facts.level.metric} is worse than in {comparison.baseline} by {drop:.2g}, and max_drop is {most:g}"
        )
    if (newly := _newly_failing(facts)) is not None:
        yield newly


def drop_of(facts: GateFacts) -> float | None:
    """How much worse the estimate is. The rule of a preset is for numbers from 0 to 1; a policy's is for all."""
    comparison = facts.comparison
    if comparison is None or comparison.result.difference is None:
        return None
    if comparison.span is None and facts.policy.max_drop is None:
        return None
    sign = 1 if read_metric(facts.level.metric).lower_is_better else -1
    return sign * comparison.result.difference


def _newly_failing(facts: GateFacts) -> str | None:
    newly, most = facts.newly_failing, facts.policy.drop_rules.max_newly_failing
    if most is None or newly.count <= most:
        return None
    passed = (
        f"{_count(newly.count, facts.noun)} passed in all trials before and "
        f"{'passes' if newly.count == 1 else 'pass'} in none now"
    )
    return f"{passed} ({_names(newly.ids, newly.count)}), and max_newly_failing is {most:,}"


def _against(facts: GateFacts, reason: str) -> str:
    """The reason with the numbers, what these cases could have shown, and how many more would show it."""
    comparison = facts.comparison
    if comparison is None:
        return reason
    parts = [
        f"{reason}: {verdict_line(comparison.result)}",
        smallest_drop_text(comparison, facts.noun),
        more_cases_text(comparison, facts.noun),
    ]
    return "; ".join(part for part in parts if part is not None)


def _below_bar(facts: GateFacts) -> Iterator[tuple[GateOutcome, str]]:
    run, level, policy, comparison = facts.run, facts.level, facts.policy, facts.comparison
    if policy.min is not None:
        value = level.low if policy.decide_by == "lower" else level.mean
        word = "the lower limit of " if policy.decide_by == "lower" else ""
        if value is None:
            why = f", {METHOD_NAMES[level.method]} for an interval" if level.cases else ""
            measured = f"{_count(level.cases, facts.noun)} measured{why}"
            yield "undecided", f"{word}{level.metric} is not known: {measured}"
        elif value < policy.min:
            yield (
                "failed",
                f"{word}{level.metric} is {_value(level, value)}, below {policy.min:g} ({level_text(level)})",
            )
        return
    if run.own_verdict is False:
        yield "failed", f"the scorecard of {run.name} did not pass ({level_text(level)})"
    elif (
        run.own_verdict is None and comparison is None and level.metric == "passed" and (level.mean or 0) < 1
    ):
        yield "failed", f"not every case passed ({level_text(level)})"
    elif run.own_verdict is None and comparison is None and level.metric != "passed":
        hints = [hint_of(one) for one in ("min", "baseline", "policy")]
        yield "undecided", f"no rule decides on {level.metric}: give {hints[0]}, {hints[1]} or {hints[2]}"


def _passed(facts: GateFacts) -> str:
    run, level, policy, comparison = facts.run, facts.level, facts.policy, facts.comparison
    if comparison is not None:
        enough = {
            "improved": "it improved",
            "equivalent": "it is equivalent",
            "not enough data": "no regression was shown",
        }
        reason = f"{enough.get(comparison.verdict, '')} against {comparison.baseline}"
        shown = [f"{reason}: {verdict_line(comparison.result)}", smallest_drop_text(comparison, facts.noun)]
        return "; ".join(part for part in shown if part is not None)
    if policy.min is not None:
        return f"{level_text(level)}, at least {policy.min:g}"
    return (
        f"the scorecard passed ({level_text(level)})"
        if run.own_verdict
        else f"every case passed ({level_text(level)})"
    )


def level_text(level: RunLevel) -> str:
    """`passed 0.917 (95% 0.853…0.955, 120 cases)`."""
    if level.mean is None:
        return f"{level.metric}: no case was measured"
    cases = f"{level.cases:,} case{'' if level.cases == 1 else 's'}"
    limits = METHOD_NAMES[level.method]
    if level.low is not None and level.high is not None:
        limits = f"95% {_value(level, level.low)}…{_value(level, level.high)}"
    return f"{level.metric} {_value(level, level.mean)} ({limits}, {cases})"


def _value(level: RunLevel, value: float) -> str:
    """A value of the metric. Only shares and scores are never above 1."""
    is_score = read_metric(level.metric).kind in ("passed", "score")
    return value_text(value, "score" if is_score else "number")


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def _names(ids: tuple[str, ...], count: int) -> str:
    return ", ".join(ids[:NAMED]) + (f" and {count - NAMED:,} more" if count > NAMED else "")
