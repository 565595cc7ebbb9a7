"""
The findings of detectors on the terminal: the attack success rate, a row for each kind, and where each finding is.
"""

from collections.abc import Sequence

from assay.agenteval.results.detail import EvalDetail
from assay.agenteval.results.safety_report import SafetyReport, describe
from assay.agenteval.scoring.safety_records import MODE
from assay.checks.registry import Registry
from assay.cli.console.console import count_of, echo_err
from assay.cli.console.console_table import Page, Table, cell
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.protocol.json_types import JSON
from assay.stats.number_text import rate_text, trial_text

BAR = "--max-attack-success"
LISTED = 50  # findings after a run; `assay show` lists more
COLORS = {"critical": "bold red", "high": "red", "medium": "yellow", "low": ""}


def put_safety(page: Page, detail: EvalDetail, limit: int = LISTED) -> None:
    """Print the safety part of a scorecard with at most `limit` findings; nothing for a run in another mode."""
    safety = detail.report.safety
    if safety is None:
        return
    for one in safety.not_looked_for:
        page.put(f"{one.kind}: {one}", "yellow")
    if safety.attack_success_rate is None:
        page.put("attack success: not measured", "yellow")
    else:
        shown = rate_text(safety.attack_success_rate)
        page.put(f"attack success {shown}: {safety.succeeded:,} of {count_of(safety.tasks, 'task')}")
    if safety.errors:
        page.put(f"not measured: a detector gave no answer for {count_of(safety.errors, 'task')}", "yellow")
    if safety.failed:
        page.put(f"not measured: the agent failed in {count_of(safety.failed, 'task')}", "yellow")
    page.put_table(_kinds(safety), folds=0)
    for signal in safety.signals:
        page.put(
            f"{signal.signal}: phrases in {signal.seen:,} of {count_of(signal.tasks, 'task')} (a signal, not a finding)"
        )
    put_findings(page, detail, limit)


def put_findings(page: Page, detail: EvalDetail, limit: int = LISTED) -> None:
    """Print where the findings are, one on a line."""
    listed = detail.findings[:limit]
    for one in listed:
        trial = f" {trial_text(one.trial)}" if detail.report.trials > 1 else ""
        line = cell("  ").append(one.severity, style=COLORS.get(one.severity, ""))
        line.append(cell(f" {one.task_id}{trial}: {one.detector} {one.version} {describe(one)}".rstrip()))
        page.put(line)
    if more := detail.more_findings + len(detail.findings) - len(listed):
        page.put(f"  … and {more:,} more findings")


def _kinds(safety: SafetyReport) -> Table:
    table = Table(padding=(0, 2, 0, 0))
    table.add_column("kind")
    table.add_column("severity")
    for name in ("tasks", "found"):
        table.add_column(name, justify="right")
    table.add_column("rate (95%)", justify="right")
    for one in safety.kinds:
        share = "not applicable" if one.rate is None else rate_text(one.rate)
        table.add_row(
            one.kind,
            cell(one.severity, COLORS.get(one.severity, "")),
            f"{one.tasks:,}",
            f"{one.found:,}",
            share,
        )
    for one in safety.not_looked_for:
        table.add_row(one.kind, "–", "–", "–", str(one))
    return table


def say_not_looked_for(registry: Registry, modes: Sequence[str], policy: JSON | None) -> None:
    """Say, before a run, which kinds of findings it does not look for."""
    if MODE in modes:
        from assay.agenteval.scoring.safety import kinds_not_looked_for  # deferred import

        for kind, reason in kinds_not_looked_for(registry, policy).items():
            echo_err(f"{kind}: not looked for ({reason})")


def exit_code(detail: EvalDetail, max_attack_success: float | None = None) -> int:
    """
    A critical finding is 3, even if the score passes and if other tasks were not measured (openwop-contract §6.3).

    So is an attack success rate above `max_attack_success`, if all tasks were measured. A run without the mode is then
    an error.
    """
    safety = detail.report.safety
    if safety is not None and safety.critical:
        return NOT_PASSED
    verdict = detail.report.verdict  # of the tasks of the run, which may be a part of the suite
    if verdict is None:
        return ERROR
    if max_attack_success is not None:
        if safety is None or safety.attack_success_rate is None:
            why = "it was not in the mode adversarial" if safety is None else "no task was measured"
            echo_err(f"{BAR}: the run has no attack success rate: {why}")
            return ERROR
        if safety.attack_success_rate.rate > max_attack_success:
            echo_err(
                f"{BAR} {max_attack_success:g}: {safety.succeeded:,} of {count_of(safety.tasks, 'task')}"
            )
            return NOT_PASSED
    return PASSED if verdict.passed else NOT_PASSED
