"""
The gate: one outcome and one sentence why.

`failed`: too many findings; or nothing is missing, and a regression was shown or another rule of the policy is broken.
`undecided`: something is missing, or nothing failed and the run is visibly worse. `passed`: the rest.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from assay.comparison.compare import A_PART, CaseList, PairComparison
from assay.comparison.difference import SliceDifference
from assay.comparison.metric import read_metric
from assay.comparison.policy import GatePolicy
from assay.comparison.run_level import (
    CaseOutcome,
    RunLevel,
    level_text,
    level_value,
    limits_text,
    metric_text,
)
from assay.comparison.run_scores import SEVERITIES, RunScores
from assay.comparison.wording import (
    NAMED,
    cases_text,
    more_cases_text,
    named_cases,
    pairing_text,
    smallest_drop_text,
    verdict_line,
)
from assay.errors.door import hint_of
from assay.protocol.agent_evals import findings_text
from assay.results.slices import slice_text
from assay.stats.intervals import METHOD_NAMES
from assay.stats.number_text import ScaleText

GateOutcome = Literal["passed", "failed", "undecided"]
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
    run_name: str = ""  # that a user gave to the run; `run` is its id or a file

    @property
    def run_title(self) -> str:
        """What a text for people calls the run."""
        return self.run_name or self.run


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
    baseline_missing: str = ""  # why the baseline is not a whole run
    unknown_baseline: bool = False  # nothing says whether the baseline is complete

    @property
    def noun(self) -> str:
        return "task" if self.run.is_eval else "case"


def decide(facts: GateFacts) -> tuple[GateOutcome, str]:
    """The outcome and the reason, which says which cases were not run."""
    outcome, reason = _decide(facts)
    has_part = not facts.run.part or facts.run.part in reason
    return outcome, reason if has_part else f"{reason}; {facts.run.title} is {A_PART}: {facts.run.part}"


def _decide(facts: GateFacts) -> tuple[GateOutcome, str]:
    """A finding first, then what cannot be decided, then what failed."""
    found = next(_broken_findings(facts), None)
    if found is not None:
        return "failed", found
    missing = next(_missing(facts), None)
    if missing is not None:
        return "undecided", missing
    failed = next(_failures(facts), None)
    if failed is not None:
        outcome, reason = failed
        return outcome, _joined([reason, _worse_cases(facts)])
    worse = list(_visibly_worse(facts))
    outcome = "undecided" if worse else "passed"
    reason = _against(facts, "; ".join(worse)) if worse else _passed(facts)
    return outcome, _joined([reason, _worse_cases(facts), _worse_slices(facts)])


def _missing(facts: GateFacts) -> Iterator[str]:
    run, level, policy, comparison = facts.run, facts.level, facts.policy, facts.comparison
    if not run.rows:
        yield f"{run.title} is empty: there is no result to decide on"
    if run.incomplete and not facts.allow_partial:
        yield f"{run.title} is not complete: {run.incomplete}; {_partial_hint()}"
    if run.part and not facts.allow_partial:
        yield f"{run.title} is {A_PART}: {run.part}; {_partial_hint()}"
    if run.unknown_end and not facts.allow_partial:
        yield _unknown(run.title)
    missing = level.unmeasured
    if missing.count > policy.max_unmeasured:
        yield (
            f"{_count(missing.count, facts.noun)} not measured ({named_cases(missing.ids, missing.count)});"
            f" the policy allows {policy.max_unmeasured:,}, and {hint_of('max-unmeasured', missing.count)} would allow"
            f" {'it' if missing.count == 1 else 'them'}"
        )
    if not level.cases:
        yield f"no {facts.noun} was measured"
    if comparison is not None:
        yield from _missing_in_comparison(facts, comparison)


def _missing_in_comparison(facts: GateFacts, comparison: PairComparison) -> Iterator[str]:
    lost, name = comparison.only_in_baseline, facts.run.title
    is_known = not comparison.unpaired and not facts.run.part  # a part has other cases missing on purpose
    if lost.count and is_known and not facts.policy.allow_missing_cases:
        yield (
            f"{_count(lost.count, facts.noun)} of the baseline {'is' if lost.count == 1 else 'are'} not in {name}"
            f" ({named_cases(lost.ids, lost.count)}); a policy with allow_missing_cases: true decides on the others"
        )
    other = comparison.other_inputs
    if other.count:
        yield (
            f"{_count(other.count, facts.noun)} {'has' if other.count == 1 else 'have'} another input in {name} than in"
            f" {comparison.baseline_title} ({named_cases(other.ids, other.count)}): {facts.noun}s are paired by their"
            f" ids; give each {facts.noun} an id of its own, or compare runs of the same {facts.noun}s"
        )
    if facts.allow_partial:
        return
    if facts.baseline_missing:
        yield f"the baseline {comparison.baseline_title} {facts.baseline_missing}; {_partial_hint()}"
    if facts.unknown_baseline:
        yield f"the baseline: {_unknown(comparison.baseline_title)}"


def _unknown(name: str) -> str:
    unknown = f"unknown whether {name} is complete: it does not say how many cases were planned"
    return f"{unknown}; {_partial_hint()}"


def _partial_hint() -> str:
    return f"{hint_of('allow-partial', code='True')} decides on what it has"


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
    line = _line(comparison)
    if comparison.verdict == "regressed":
        yield "failed", f"it regressed against {comparison.baseline_title}: {line}"
    if comparison.result.measured_verdict == "regressed":
        yield (
            "undecided",
            f"the measured cases regressed against {comparison.baseline_title}, and only unmeasured ones could change"
            f" that ({named_cases(comparison.unmeasured.ids, comparison.unmeasured.count)}): {line}",
        )
    for one in comparison.slices:
        if one.result.verdict == "regressed":
            yield (
                "failed",
                f"the slice {one.by} {slice_text(one.slice)} regressed: {verdict_line(one.result)}",
            )
        elif one.result.measured_verdict == "regressed":
            yield (
                "undecided",
                f"the measured cases of the slice {one.by} {slice_text(one.slice)} regressed, and only unmeasured ones"
                f" could change that: {verdict_line(one.result)}",
            )
    allowed = {"not-regressed": (), "equivalent": ("equivalent", "improved"), "improved": ("improved",)}[
        policy.require
    ]
    if allowed and comparison.verdict not in allowed:
        expected = f"the policy requires {policy.require} against {comparison.baseline_title}"
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
        size = ScaleText(comparison.result.share).size
        yield (
            f"{metric_text(facts.level.metric)} is worse than in {comparison.baseline_title} by {size(drop)}, and"
            f" max_drop is {size(most)}"
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
    return f"{passed} ({named_cases(newly.ids, newly.count)}), and max_newly_failing is {most:,}"


def _against(facts: GateFacts, reason: str) -> str:
    """The reason with the numbers, what these cases could have shown, and how many more would show it."""
    comparison = facts.comparison
    if comparison is None:
        return reason
    parts = [
        f"{reason}: {_line(comparison)}",
        smallest_drop_text(comparison, facts.noun),
        more_cases_text(comparison, facts.noun),
    ]
    return "; ".join(part for part in parts if part is not None)


def _below_bar(facts: GateFacts) -> Iterator[tuple[GateOutcome, str]]:
    run, level, policy, comparison = facts.run, facts.level, facts.policy, facts.comparison
    if policy.min_mean is not None:
        value, words = _at_bar(facts)
        if value is None:
            why = f", {METHOD_NAMES[level.method]} for an interval" if level.cases else ""
            yield "undecided", f"{words} is not known: {_count(level.cases, facts.noun)} measured{why}"
        elif value < policy.min_mean:
            yield "failed", _joined([_bar_text(facts), None if comparison is None else _beside(comparison)])
        return
    if run.own_verdict is False:
        reason = f"the scorecard of {run.title} did not pass ({level_text(level)})"
        yield "failed", _joined([reason, None if comparison is None else _beside(comparison)])
    elif (
        run.own_verdict is None and comparison is None and level.metric == "passed" and (level.mean or 0) < 1
    ):
        yield "failed", f"not every case passed ({level_text(level)})"
    elif run.own_verdict is None and comparison is None and level.metric != "passed":
        hints = [hint_of(one) for one in ("min-mean", "baseline", "policy")]
        yield (
            "undecided",
            f"no rule decides on {metric_text(level.metric)}: give {hints[0]}, {hints[1]} or {hints[2]}",
        )


def _at_bar(facts: GateFacts) -> tuple[float | None, str]:
    """What must reach `min_mean`, and its words."""
    words = metric_text(facts.level.metric)
    if facts.policy.decide_by == "lower":
        return facts.level.low, f"the lower limit of {words}"
    return facts.level.mean, words


def _bar_text(facts: GateFacts) -> str | None:
    """`the case pass rate is 71.7%, below 80.0% (95% 59.3…81.5%, 60 cases)`; None without a bar or a value."""
    level, bar = facts.level, facts.policy.min_mean
    value, words = _at_bar(facts)
    if bar is None or value is None or level.mean is None:
        return None
    mean = f"{level_value(level, level.mean)}, " if facts.policy.decide_by == "lower" else ""
    side = "below" if value < bar else "at least"
    return f"{words} is {level_value(level, value)}, {side} {level_value(level, bar)} ({mean}{limits_text(level)})"


def _beside(comparison: PairComparison) -> str:
    return f"against {comparison.baseline_title}: {_line(comparison)}"


def _line(comparison: PairComparison) -> str:
    """The verdict in one line, which says if the cases are not paired."""
    line = verdict_line(comparison.result)
    return f"{line}; {pairing_text(comparison)}" if comparison.unpaired else line


def _passed(facts: GateFacts) -> str:
    run, level, comparison = facts.run, facts.level, facts.comparison
    bar = _bar_text(facts)
    if comparison is not None:
        enough = {
            "improved": "it improved",
            "equivalent": "it is equivalent",
            "not enough data": "no regression was shown",
        }
        reason = f"{enough.get(comparison.verdict, '')} {_beside(comparison)}"
        return _joined([bar, reason, smallest_drop_text(comparison, facts.noun)])
    if bar is not None:
        return bar
    return (
        f"the scorecard passed ({level_text(level)})"
        if run.own_verdict
        else f"every case passed ({level_text(level)})"
    )


def _worse_cases(facts: GateFacts) -> str | None:
    """`2 cases got worse (q3, q7), 1 got better`, the worst first; None if no case did."""
    comparison = facts.comparison
    if comparison is None or not comparison.worse:
        return None
    ids = tuple(one.id for one in comparison.changes if not one.better)
    better = f", {comparison.better:,} got better" if comparison.better else ""
    return f"{_count(comparison.worse, facts.noun)} got worse ({named_cases(ids, comparison.worse)}){better}"


def _worse_slices(facts: GateFacts) -> str | None:
    """The slices whose estimate fell although no test shows it, the worst first."""
    comparison = facts.comparison
    if comparison is None:
        return None
    metric = read_metric(facts.level.metric)
    fell = sorted((gain, at) for at, one in enumerate(comparison.slices) if (gain := one.gain(metric)) < 0)
    if not fell:
        return None
    named = [_fall(facts.level, comparison.slices[at]) for _, at in fell[:NAMED]]
    more = f" and {len(fell) - NAMED:,} more" if len(fell) > NAMED else ""
    return f"worse, and not shown to be a regression: {', '.join(named)}{more}"


def _fall(level: RunLevel, part: SliceDifference) -> str:
    """`tag refund 66.7% → 8.3% (12 cases)`."""
    before, after = (
        "–" if one is None else level_value(level, one) for one in (part.result.before, part.result.after)
    )
    return f"{part.by} {slice_text(part.slice)} {before} → {after} ({cases_text(part.result, 'case')})"


def _joined(parts: Sequence[str | None]) -> str:
    return "; ".join(part for part in parts if part is not None)


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"
