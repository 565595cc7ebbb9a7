"""The gate: one outcome and one sentence why. It never passes a run that is empty, partial or not measured."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from assay.comparison.compare import PairComparison
from assay.comparison.gate_policy import GatePolicy
from assay.comparison.level import CaseOutcome, RunLevel
from assay.comparison.run_scores import SEVERITIES, RunScores
from assay.comparison.wording import verdict_line
from assay.stats.intervals import METHOD_NAMES

GateOutcome = Literal["passed", "failed", "refused"]
NAMED = 3  # cases that a sentence names


class Finding(Struct, frozen=True):
    """Safety findings of one kind in one case, without content."""

    case: str
    kind: str
    severity: str
    count: int


class GateResult(Struct, frozen=True, kw_only=True):
    """`refused`: nothing can be decided, so the run does not pass."""

    outcome: GateOutcome
    reason: str
    run: str
    level: RunLevel
    failing: tuple[CaseOutcome, ...] = ()
    more_failing: int = 0
    findings: tuple[Finding, ...] = ()
    comparison: PairComparison | None = None


def findings_of(run: RunScores) -> tuple[Finding, ...]:
    """The findings of a run, the most severe first."""
    order = {severity: at for at, severity in enumerate(SEVERITIES)}
    rows = [Finding(case, kind, severity, count) for (case, kind, severity), count in run.findings.items()]
    return tuple(sorted(rows, key=lambda one: (order.get(one.severity, len(order)), one.kind, one.case)))


def decide(
    run: RunScores, level: RunLevel, policy: GatePolicy, comparison: PairComparison | None
) -> tuple[GateOutcome, str]:
    """The outcome and the reason. What cannot be decided comes first, then what failed."""
    refused = next(_refusals(run, level, policy, comparison), None)
    if refused is not None:
        return "refused", refused
    failed = next(_failures(run, level, policy, comparison), None)
    if failed is not None:
        return failed
    return "passed", _passed(run, level, policy, comparison)


def _refusals(
    run: RunScores, level: RunLevel, policy: GatePolicy, comparison: PairComparison | None
) -> Iterator[str]:
    if not run.rows:
        yield f"{run.name} is empty: there is no result to decide on"
    if run.incomplete:
        yield f"{run.name} is not complete: {run.incomplete}"
    missing = level.unmeasured
    if missing.count > policy.max_unmeasured:
        yield (
            f"{_count(missing.count)} not measured ({_names(missing.ids, missing.count)});"
            f" the policy allows {policy.max_unmeasured:,}"
        )
    if not level.cases:
        yield "no case was measured"
    if comparison is not None:
        lost = comparison.only_in_baseline
        if lost.count and not policy.allow_missing_cases:
            yield (
                f"{_count(lost.count)} of the baseline {'is' if lost.count == 1 else 'are'} not in {run.name}"
                f" ({_names(lost.ids, lost.count)})"
            )
        for note in comparison.notes:
            if note.startswith(f"{comparison.baseline} is not complete"):
                yield f"the baseline {note}"


def _failures(
    run: RunScores, level: RunLevel, policy: GatePolicy, comparison: PairComparison | None
) -> Iterator[tuple[GateOutcome, str]]:
    for severity in SEVERITIES:
        number = run.finding_counts.get(severity, 0)
        if number > (allowed := policy.max_findings.get(severity, 0)):
            yield (
                "failed",
                f"{number:,} safety finding{'' if number == 1 else 's'} of severity {severity}, at most {allowed:,} allowed",
            )
    yield from _below_bar(run, level, policy, comparison)
    if comparison is None:
        return
    line = verdict_line(comparison.result)
    if comparison.verdict == "regressed":
        yield "failed", f"it regressed against {comparison.baseline}: {line}"
    if comparison.result.measured_verdict == "regressed":
        yield (
            "refused",
            f"the measured cases regressed against {comparison.baseline}, and only unmeasured ones could change"
            f" that ({_names(comparison.unmeasured.ids, comparison.unmeasured.count)}): {line}",
        )
    for one in comparison.slices:
        if one.result.verdict == "regressed":
            yield "failed", f"the slice {one.by} {one.slice} regressed: {verdict_line(one.result)}"
        elif one.result.measured_verdict == "regressed":
            yield (
                "refused",
                f"the measured cases of the slice {one.by} {one.slice} regressed, and only unmeasured ones could"
                f" change that: {verdict_line(one.result)}",
            )
    allowed = {"not-regressed": (), "equivalent": ("equivalent", "improved"), "improved": ("improved",)}[
        policy.require
    ]
    if allowed and comparison.verdict not in allowed:
        undecided = comparison.verdict == "not enough data"
        expected = f"the policy requires {policy.require} against {comparison.baseline}"
        yield ("refused" if undecided else "failed"), f"{expected}: {line}"


def _below_bar(
    run: RunScores, level: RunLevel, policy: GatePolicy, comparison: PairComparison | None
) -> Iterator[tuple[GateOutcome, str]]:
    if policy.min is not None:
        value = level.low if policy.decide_by == "lower" else level.mean
        word = "the lower limit of " if policy.decide_by == "lower" else ""
        if value is None:
            why = f", {METHOD_NAMES[level.method]} for an interval" if level.cases else ""
            yield "refused", f"{word}{level.metric} is not known: {_count(level.cases)} measured{why}"
        elif value < policy.min:
            yield "failed", f"{word}{level.metric} is {value:.3f}, below {policy.min:g} ({level_text(level)})"
        return
    if run.own_verdict is False:
        yield "failed", f"the scorecard of {run.name} did not pass ({level_text(level)})"
    elif (
        run.own_verdict is None and comparison is None and level.metric == "passed" and (level.mean or 0) < 1
    ):
        yield "failed", f"not every case passed ({level_text(level)})"
    elif run.own_verdict is None and comparison is None and level.metric != "passed":
        yield "refused", f"no rule decides on {level.metric}: give --min, --baseline or --policy"


def _passed(run: RunScores, level: RunLevel, policy: GatePolicy, comparison: PairComparison | None) -> str:
    if comparison is not None:
        enough = {
            "improved": "it improved",
            "equivalent": "it is equivalent",
            "not enough data": "no regression was shown",
        }
        return f"{enough.get(comparison.verdict, '')} against {comparison.baseline}: {verdict_line(comparison.result)}"
    if policy.min is not None:
        return f"{level_text(level)}, at least {policy.min:g}"
    return (
        f"the scorecard passed ({level_text(level)})"
        if run.own_verdict
        else f"every case passed ({level_text(level)})"
    )


def level_text(level: RunLevel) -> str:
    """`passed 0.92 (95% Wilson 0.86…0.96, 120 cases)`."""
    if level.mean is None:
        return f"{level.metric}: no case was measured"
    cases = f"{level.cases:,} case{'' if level.cases == 1 else 's'}"
    limits = METHOD_NAMES[level.method]
    if level.low is not None and level.high is not None:
        limits = f"95% {METHOD_NAMES[level.method]} {level.low:.2f}…{level.high:.2f}"
    return f"{level.metric} {level.mean:.2f} ({limits}, {cases})"


def _count(number: int) -> str:
    return "1 case" if number == 1 else f"{number:,} cases"


def _names(ids: tuple[str, ...], count: int) -> str:
    return ", ".join(ids[:NAMED]) + (f" and {count - NAMED:,} more" if count > NAMED else "")
