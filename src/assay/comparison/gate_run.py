"""A gate over sources: its policy, its decision with all that its reports need, and the reports as files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.comparison.case_reasons import ALL_PASSED
from assay.comparison.compare import A_PART, MAX_IDS, CaseList, PairComparison
from assay.comparison.gate_reports import junit, markdown, sarif
from assay.comparison.gate_verdict import (
    Finding,
    GateFacts,
    GateOutcome,
    GateResult,
    decide,
    findings_of,
)
from assay.comparison.metric import SCORE, Metric, read_metric
from assay.comparison.pairing import CaseIndex, CaseValues
from assay.comparison.policy import LEAST_TRIALS, PRESETS, GatePolicy
from assay.comparison.run_level import CaseOutcome, LevelReader, RunLevel, level_text
from assay.comparison.run_scores import ReadOptions, RunScores, chosen_metric
from assay.comparison.sources import CompareOptions, RunSource, compare_sources, read_options
from assay.concurrency.loop_budget import paced
from assay.concurrency.threads import in_thread
from assay.errors import UsageError
from assay.errors.door import hint_of, place_of, verb_of
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.fep.outputs.output_file import OutputFile
from assay.results.notebook_html import page, paragraph, table
from assay.stats.number_text import rate_problem
from assay.terminal import one_line

CODES: dict[GateOutcome, int] = {"passed": PASSED, "failed": NOT_PASSED, "undecided": ERROR}
MAX_CHANGES = 100  # cases that changed, in a report
MAX_FAILING = 1_000  # cases that a report lists with their reasons


class PolicyOptions(Struct, frozen=True, kw_only=True):
    """Rules that are given beside a policy. They win."""

    preset: str | None = None
    min_mean: float | None = None
    margin: float | None = None
    metric: str | None = None
    by: tuple[str, ...] | None = None
    max_unmeasured: int | None = None


class GateDecision(Struct, frozen=True):
    """
    The result of a gate, with all that its reports need.

    `outcomes` has every case. `reasons` says why those that did not pass did not, by their ids.
    """

    result: GateResult
    outcomes: tuple[CaseOutcome, ...]
    reasons: Mapping[str, str]
    location: str  # of the results in a report: the path of a file, or the id of a run

    @property
    def outcome(self) -> GateOutcome:
        """`passed`, `failed` or `undecided`."""
        return self.result.outcome

    @property
    def passed(self) -> bool:
        return self.result.outcome == "passed"

    @property
    def exit_code(self) -> int:
        """That of `assay gate`: 0, 3 or 1."""
        return self.result.exit_code

    @property
    def reason(self) -> str:
        """One sentence why."""
        return self.result.reason

    @property
    def level(self) -> RunLevel:
        """The mean of the metric with its interval."""
        return self.result.level

    @property
    def failing(self) -> tuple[CaseOutcome, ...]:
        """The cases that did not pass or were not measured; at most a thousand."""
        return self.result.failing

    @property
    def comparison(self) -> PairComparison | None:
        """The run beside its baseline, if there is one."""
        return self.result.comparison

    def _repr_html_(self) -> str:
        """What a notebook shows: the outcome and why, and the cases that did not pass."""
        rows = ((one.id, one.outcome, self.reasons.get(one.id, "")) for one in self.failing)
        total = len(self.failing) + self.result.more_failing
        failing = table(("case", "outcome", "reason"), rows, total)
        return page([paragraph(repr(self), strong=True), paragraph(level_text(self.level)), failing])

    def __repr__(self) -> str:
        """The line that `assay gate` prints."""
        return one_line(f"{self.outcome}: {self.reason}")


def policy_with(policy: GatePolicy, options: PolicyOptions, *, has_baseline: bool) -> GatePolicy:
    """The policy with the options, which win. Raises UsageError."""
    if options.min_mean is not None and not abs(options.min_mean) < float("inf"):
        raise UsageError(f"{place_of('min-mean')}: expected a number, got {options.min_mean:g}")
    if options.max_unmeasured is not None and options.max_unmeasured < 0:
        raise UsageError(f"{place_of('max-unmeasured')}: expected at least 0, got {options.max_unmeasured}")
    if options.preset is not None and options.preset not in PRESETS:
        raise UsageError(f"{place_of('preset')}: expected {', '.join(PRESETS)}, got {options.preset[:40]!r}")
    given = {name: getattr(options, name) for name in options.__struct_fields__}
    policy = replace(policy, **{name: value for name, value in given.items() if value is not None})
    if policy.require == "equivalent" and policy.margin is None:
        raise UsageError(f"{place_of('require')}: equivalent needs a margin, such as margin: 0.02")
    if policy.require != "not-regressed" and not has_baseline:
        raise UsageError(
            f"the policy requires {policy.require}: expected {hint_of('baseline')}, the run to compare with"
        )
    if policy.metric is not None and read_metric(policy.metric).quantile is not None:
        raise UsageError(
            f"{place_of('metric')}: expected a metric with a mean, got {policy.metric};"
            f" {verb_of('compare')} compares it"
        )
    if (
        policy.min_mean is not None
        and policy.metric is not None
        and read_metric(policy.metric).lower_is_better
    ):
        raise UsageError(
            f"{place_of('min-mean')}: expected a metric where higher is better, got {policy.metric};"
            f" {hint_of('baseline')} compares it"
        )
    return policy


def rules_in(policy: GatePolicy, options: PolicyOptions) -> set[str]:
    """The rules that the policy itself gives: those that an option replaces are not of it."""
    default = GatePolicy()
    given = {name for name in options.__struct_fields__ if getattr(options, name) is not None}
    return {
        name for name in policy.__struct_fields__ if getattr(policy, name) != getattr(default, name)
    } - given


def gate_options(policy: GatePolicy) -> ReadOptions:
    """What a gate reads of each result. Raises UsageError."""
    options = CompareOptions(
        metric=policy.metric, by=policy.by, margin=policy.margin, standardize_by=policy.standardize_by
    )
    return replace(read_options(options), with_passed=True)


async def decide_sources(
    run: RunSource, baseline: RunSource | None, policy: GatePolicy, read: ReadOptions, *, allow_partial: bool
) -> GateDecision:
    """Decide on a run, and read why the cases that did not pass did not."""
    result, outcomes = await gate_result(run, baseline, policy, read, allow_partial=allow_partial)
    ids = dict.fromkeys([*result.newly_failing.ids, *(one.id for one in result.failing)])
    reasons = _with_findings(await run.reasons(list(ids)) if ids else {}, result.findings)
    location = result.run if run.path is None else _place(run.path)
    return GateDecision(result, tuple(outcomes), reasons, location)


async def gate_result(
    run: RunSource, baseline: RunSource | None, policy: GatePolicy, read: ReadOptions, *, allow_partial: bool
) -> tuple[GateResult, Sequence[CaseOutcome]]:
    """
    Decide on a run, alone or beside a baseline, with the outcome of each case.

    This is the one function that decides: the command, the library and REST call it.
    """
    scores = await run.scores(read)
    facts = GateFacts(
        run=scores,
        level=RunLevel(metric=policy.metric or SCORE.name),
        policy=policy,
        allow_partial=allow_partial,
    )
    if scores.rows and baseline is not None:
        before = await baseline.scores(read)
        compared = await compare_sources([baseline, run], [before, scores], policy.margin, MAX_CHANGES)
        pair = compared.comparisons[0]
        newly = CaseList(0) if pair.unpaired else await in_thread(lambda: newly_failing(before, scores))
        facts = replace(
            facts,
            comparison=pair,
            newly_failing=newly,
            baseline_missing=_missing(before),
            unknown_baseline=before.unknown_end,
        )
    return await in_thread(lambda: _judged(facts))


def _missing(baseline: RunScores) -> str:
    """Why a baseline is not a whole run."""
    if baseline.incomplete:
        return f"is not complete: {baseline.incomplete}"
    return f"is {A_PART}: {baseline.part}" if baseline.part else ""


def _judged(facts: GateFacts) -> tuple[GateResult, Sequence[CaseOutcome]]:
    run = facts.run
    outcomes: list[CaseOutcome] = []
    if run.rows:
        metric = chosen_metric([run])
        _require_reachable(facts.policy.min_mean, metric)
        reader = LevelReader(run, metric)
        facts, outcomes = replace(facts, level=reader.level()), list(reader.outcomes())
    failing = [one for one in outcomes if one.outcome in ("failed", "unmeasured")]
    listed = failing[:MAX_FAILING]
    outcome, reason = decide(facts)
    result = GateResult(
        outcome=outcome,
        exit_code=CODES[outcome],
        reason=reason,
        run=run.name,
        run_name=run.given_name,
        level=facts.level,
        preset=facts.policy.preset,
        failing=tuple(listed),
        more_failing=len(failing) - len(listed),
        newly_failing=facts.newly_failing,
        findings=findings_of(run),
        not_looked_for=run.not_looked_for,
        comparison=facts.comparison,
    )
    return result, outcomes


def _require_reachable(least: float | None, metric: Metric) -> None:
    """Refuse a bar that no pass rate can have. Other metrics have no range that is known."""
    if least is not None and metric.kind == "passed" and (wrong := rate_problem(least)) is not None:
        raise UsageError(f"{place_of('min-mean')}: {wrong}")


def _with_findings(reasons: Mapping[str, str], findings: Iterable[Finding]) -> dict[str, str]:
    """The reasons; a case whose checks passed did not pass because of its findings."""
    kinds: dict[str, dict[str, None]] = {}
    for one in findings:
        kinds.setdefault(one.case, {})[f"{one.kind} ({one.severity})"] = None
    return {
        id: f"safety findings: {', '.join(kinds[id])}"
        if id in kinds and text.startswith(ALL_PASSED)
        else text
        for id, text in reasons.items()
    }


def _place(path: Path) -> str:
    """
    The path of a result file from the working folder; of a file outside of it, only the name. Reports have no absolute
    path.
    """
    path, folder = path.resolve(), Path.cwd().resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


class ReportFiles(Struct, frozen=True, kw_only=True):
    """The names of the reports that a gate writes."""

    markdown: str | None = None
    junit: str | None = None
    sarif: str | None = None


def write_reports(decision: GateDecision, files: ReportFiles) -> None:
    """Write the reports that have a name."""
    result, reasons = decision.result, decision.reasons
    if files.markdown is not None:
        _write(files.markdown, [markdown(result, reasons)])
    if files.junit is not None:
        _write(files.junit, junit(result, decision.outcomes, reasons))
    if files.sarif is not None:
        document = msgspec.json.encode(sarif(result, decision.location))
        _write(files.sarif, [msgspec.json.format(document, indent=1).decode() + "\n"])


def _write(name: str, parts: Iterable[str]) -> None:
    file = OutputFile(name)
    for part in parts:
        file.write(part.encode(errors="replace"))
    file.close()


# The cases that passed in all trials of the baseline, and in none of the run.

TrialCounts = tuple[int, int]  # trials, and those that passed; 0 trials: not measured, or not in the run


def newly_failing(baseline: RunScores, run: RunScores) -> CaseList:
    """Those with at least three measured trials in both runs. Both runs were read with the metric `passed`."""
    index = CaseIndex([baseline, run])
    pairs = zip(_counts(index, 0), _counts(index, 1), strict=True)
    found = [
        case
        for case, ((trials, passed), (others, others_passed)) in enumerate(paced(pairs))
        if min(trials, others) >= LEAST_TRIALS and passed == trials and not others_passed
    ]
    return CaseList(len(found), tuple(map(index.id_of, found[:MAX_IDS])))


def _counts(index: CaseIndex, at: int) -> Iterator[TrialCounts]:
    run = index.runs[at]
    if not run.is_eval:
        values = CaseValues(index, at, run.metrics["passed"])
        for trials, measured, total in values.counts():
            yield (trials, round(total)) if measured == trials else (0, 0)
        return
    tasks = {case: row for row, case in enumerate(index.cases_of_rows[at]) if row >= run.tasks}
    series = run.metrics["passed"]
    measured_rows = {row for row, value in zip(series.rows, series.values, strict=True) if not isnan(value)}
    for case in range(index.count):
        row = tasks.get(case)
        is_measured = row is not None and row in measured_rows
        yield (run.trials[row], run.trials_passed[row]) if is_measured and row is not None else (0, 0)
