"""`assay gate`: does a run pass? One verdict, one sentence why, an exit code, and reports for CI."""

import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from assay.api.gate import gate
from assay.cli.console.console import echo, echo_command, echo_err, echo_json
from assay.comparison.gate_reports import annotations, markdown
from assay.comparison.gate_run import GateDecision
from assay.comparison.gate_verdict import GateOutcome, GateResult

LOOKS: dict[GateOutcome, str] = {"passed": "bold green", "failed": "bold red", "undecided": "bold yellow"}


class GateOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay gate`."""

    run: str
    baseline: str | None = None
    policy: str | None = None
    preset: str | None = None
    min_mean: float | None = None
    margin: float | None = None
    metric: str | None = None
    by: tuple[str, ...] = ()
    max_unmeasured: int | None = None
    markdown: str | None = None
    junit: str | None = None
    sarif: str | None = None
    tenant: str | None = None
    allow_partial: bool = False
    json: bool = False


def main(options: GateOptions) -> int:
    """Decide, write the reports, and return the exit code."""
    decision = gate(
        options.run,
        baseline=options.baseline,
        policy=options.policy,
        preset=options.preset,
        min_mean=options.min_mean,
        margin=options.margin,
        metric=options.metric,
        by=options.by,
        max_unmeasured=options.max_unmeasured,
        allow_partial=options.allow_partial,
        markdown=options.markdown,
        junit=options.junit,
        sarif=options.sarif,
        tenant=options.tenant,
    )
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


def _report_to_github(decision: GateDecision, *, json: bool) -> None:
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
            echo_err(
                f"GITHUB_STEP_SUMMARY: {name}: expected a file that can be written, got {wrong.strerror}"
            )
