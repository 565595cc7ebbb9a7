"""`assay gate`: does a run pass? One verdict, one sentence why, an exit code, and reports for CI."""

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay import settings
from assay.cli.compare.compare import CompareOptions, RunSource, compare_sources, open_sources, read_options
from assay.cli.console.console import echo, echo_command, echo_err, echo_json
from assay.comparison.gate import (
    CaseOutcome,
    GateFacts,
    GateOutcome,
    GateResult,
    LevelReader,
    RunLevel,
    decide,
    findings_of,
)
from assay.comparison.gate_reports import annotations, junit, markdown, sarif
from assay.comparison.metric import SCORE, read_metric
from assay.comparison.newly_failing import newly_failing
from assay.comparison.policy import PRESETS, GatePolicy, read_gate_policy
from assay.comparison.run_scores import ReadOptions, chosen_metric
from assay.errors import UsageError
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.fep.outputs.output_file import OutputFile

CODES: dict[GateOutcome, int] = {"passed": PASSED, "failed": NOT_PASSED, "undecided": ERROR}
LOOKS: dict[GateOutcome, str] = {"passed": "bold green", "failed": "bold red", "undecided": "bold yellow"}
MAX_CHANGES = 100  # cases that changed, in a report
MAX_FAILING = 1_000  # cases that a report lists with their reasons


class GateOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay gate`."""

    run: str
    baseline: str | None = None
    policy: str | None = None
    preset: str | None = None
    min: float | None = None
    margin: float | None = None
    metric: str | None = None
    markdown: str | None = None
    junit: str | None = None
    sarif: str | None = None
    tenant: str | None = None
    allow_partial: bool = False
    json: bool = False


class _Decision(Struct, frozen=True):
    """A result with all that its reports need."""

    result: GateResult
    outcomes: list[CaseOutcome]
    reasons: Mapping[str, str]


def main(options: GateOptions) -> int:
    """Decide, write the reports, and return the exit code."""
    policy = _policy(options)
    read = read_options(
        CompareOptions(references=(options.run,), metric=policy.metric, by=policy.by, margin=policy.margin)
    )
    decision = asyncio.run(_decide(options, policy, replace(read, with_passed=True)))
    _write_reports(options, decision)
    result = decision.result
    if options.json:
        echo_json(msgspec.json.encode(result))
    else:
        _show(result)
    _report_to_github(decision, json=options.json)
    return result.exit_code


def _show(result: GateResult) -> None:
    """One line. On a terminal, each outcome has its color."""
    for line in result.not_looked_for:
        echo_err(line)
    if not sys.stdout.isatty():
        echo(f"{result.outcome}: {result.reason}")
        return
    from assay.cli.console.console_table import Page, cell  # deferred import: rich loads slowly

    line = cell("").append(
        result.outcome, LOOKS[result.outcome]
    )  # the style of the first part is that of all
    Page().put(line.append(f": {result.reason}"))


def _policy(options: GateOptions) -> GatePolicy:
    """The policy of the file; an option of the command line wins."""
    policy = (
        GatePolicy() if options.policy is None else read_gate_policy(options.policy, settings.load().limits)
    )
    if options.min is not None and not abs(options.min) < float("inf"):
        raise UsageError(f"--min: expected a number, got {options.min:g}")
    if options.preset is not None and options.preset not in PRESETS:
        raise UsageError(f"--preset: expected {', '.join(PRESETS)}, got {options.preset[:40]!r}")
    given = {"preset": options.preset, "min": options.min, "margin": options.margin, "metric": options.metric}
    policy = replace(policy, **{name: value for name, value in given.items() if value is not None})
    if policy.require != "not-regressed" and options.baseline is None:
        raise UsageError(
            f"the policy requires {policy.require}: expected --baseline, the run to compare with"
        )
    if policy.metric is not None and read_metric(policy.metric).quantile is not None:
        raise UsageError(
            f"metric: expected a metric with a mean, got {policy.metric}; assay compare compares it"
        )
    if policy.min is not None and policy.metric is not None and read_metric(policy.metric).lower_is_better:
        raise UsageError(
            f"min: expected a metric where higher is better, got {policy.metric}; --baseline compares it"
        )
    return policy


async def _decide(options: GateOptions, policy: GatePolicy, read: ReadOptions) -> _Decision:
    references = [options.run] if options.baseline is None else [options.baseline, options.run]
    async with open_sources(references, options.tenant) as sources:
        source = sources[-1]
        if len(sources) == 2 and sources[0].is_same(source):
            raise UsageError(f"--baseline {options.baseline}: it is {source.name} itself; name another run")
        run = await source.scores(read)
        facts = GateFacts(
            run=run,
            level=RunLevel(metric=policy.metric or SCORE.name),
            policy=policy,
            allow_partial=options.allow_partial,
        )
        if run.rows and len(sources) == 2:
            baseline = await sources[0].scores(read)
            compared = await compare_sources(sources, [baseline, run], policy.margin, MAX_CHANGES)
            facts = replace(
                facts,
                comparison=compared.comparisons[0],
                newly_failing=newly_failing(baseline, run),
                unknown_baseline=baseline.unknown_end,
            )
        return await _judged(facts, source)


async def _judged(facts: GateFacts, source: RunSource) -> _Decision:
    run, policy = facts.run, facts.policy
    outcomes: list[CaseOutcome] = []
    if run.rows:
        reader = LevelReader(run, chosen_metric([run]))
        facts, outcomes = replace(facts, level=reader.level()), list(reader.outcomes())
    failing = [one for one in outcomes if one.outcome in ("failed", "unmeasured")]
    listed, newly = failing[:MAX_FAILING], facts.newly_failing
    ids = dict.fromkeys([*newly.ids, *(one.id for one in listed)])
    reasons = await source.reasons(list(ids)) if ids else {}
    outcome, reason = decide(facts)
    result = GateResult(
        outcome=outcome,
        exit_code=CODES[outcome],
        reason=reason,
        run=run.name,
        level=facts.level,
        preset=policy.preset,
        failing=tuple(listed),
        more_failing=len(failing) - len(listed),
        newly_failing=newly,
        findings=findings_of(run),
        not_looked_for=run.not_looked_for,
        comparison=facts.comparison,
    )
    return _Decision(result, outcomes, reasons)


def _write_reports(options: GateOptions, decision: _Decision) -> None:
    result, reasons = decision.result, decision.reasons
    if options.markdown is not None:
        _write(options.markdown, [markdown(result, reasons)])
    if options.junit is not None:
        _write(options.junit, junit(result, decision.outcomes, reasons))
    if options.sarif is not None:
        document = sarif(result, _place(options.run) if Path(options.run).is_file() else result.run)
        _write(options.sarif, [msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"])


def _place(name: str) -> str:
    """
    The path of a result file from the working folder; of a file outside of it, only the name. Reports have no absolute
    path.
    """
    path, folder = Path(name).resolve(), Path.cwd().resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


def _write(name: str, parts: Iterable[str]) -> None:
    file = OutputFile(name)
    for part in parts:
        file.write(part.encode(errors="replace"))
    file.close()


def _report_to_github(decision: _Decision, *, json: bool) -> None:
    """Annotations, and the summary of the job, where GitHub Actions runs the command."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for line in annotations(decision.result, decision.reasons):
        echo_command(line, to_stderr=json)
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if name:
        try:
            with Path(name).open("a", encoding="utf-8", errors="replace") as file:
                file.write(markdown(decision.result, decision.reasons))
        except OSError as wrong:
            echo_err(f"GITHUB_STEP_SUMMARY: {name}: cannot be written: {wrong.strerror}")
