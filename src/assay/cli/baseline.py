"""
`assay run --baseline`: find the run to compare with, refuse one that is not comparable, and show which tasks changed.
"""

from collections.abc import Sequence

from assay.agenteval.planning.run_header import KIND
from assay.agenteval.results.baseline import BaselineRun, Comparison, TaskChange, same_version_differs
from assay.agenteval.results.detail import detail_of
from assay.agenteval.suites.suite_store import suite_digest
from assay.cli.console import count_of, echo_err
from assay.cli.console_table import Page, Table, cell
from assay.cli.find_run import find_run
from assay.comparison.compare import PairComparison
from assay.comparison.wording import verdict_line
from assay.errors import UsageError
from assay.ports import Run, RunQuery, Store
from assay.protocol.agent_evals import AgentEvalSuite

CHANGES = 10  # tasks that are listed as better, and as worse


async def find_baseline(store: Store, reference: str, suite: AgentEvalSuite) -> BaselineRun | None:
    """The baseline; None if `latest` is given and the suite has no completed run yet."""
    if reference == "latest":
        query = RunQuery(kind=KIND, name=suite.suite_id, statuses=frozenset({"completed"}), limit=1)
        run = next(iter(await store.runs(query)), None)
    else:
        run = await find_run(store, reference, KIND)
    return None if run is None else await read_baseline(store, run)


async def read_baseline(store: Store, run: Run) -> BaselineRun:
    detail = await detail_of(store, run, {}, max_reasons=0)
    return BaselineRun(report=detail.report, suite_digest=detail.suite_digest)


def check_baseline(baseline: BaselineRun, suite: AgentEvalSuite, *, force: bool) -> None:
    """
    Refuse a run that did not complete, a run of another suite, and other content under the same version unless `force`.
    """
    report = baseline.report
    if report.suite_id != suite.suite_id:
        raise UsageError(
            f"--baseline {report.run}: expected a run of suite {suite.suite_id}, got a run of {report.suite_id}"
        )
    if report.status != "completed":
        raise UsageError(f"--baseline {report.run}: expected a completed run, it is {report.status}")
    if not force and same_version_differs(baseline, suite.version, suite_digest(suite)):
        raise UsageError(
            f"--baseline {report.run}: it ran other content of suite {suite.suite_id} under the same version"
            f" {suite.version}: give the suite a new version, or compare anyway with --force"
        )


def note_no_baseline(suite: AgentEvalSuite, modes: Sequence[str], reference: str | None) -> None:
    """Say why nothing is compared: there is no run yet, or no baseline was given for the mode `regression`."""
    if reference is not None:
        echo_err(f"suite {suite.suite_id} has no completed run yet: nothing is compared")
    elif "regression" in modes:
        echo_err("the mode regression compares only with --baseline RUN: nothing is compared")


def show_comparison(comparison: Comparison, pair: PairComparison | None) -> None:
    """Print the verdict as `assay compare` does, the tasks that got better and worse, and the notes."""
    page = Page()
    page.put(_headline(comparison))
    if pair is not None:
        page.put(f"  {verdict_line(pair.result)}")
    table = Table(show_header=False, padding=(0, 2, 0, 0))
    table.add_column("change", no_wrap=True)
    table.add_column("score", no_wrap=True)
    table.add_column("task", overflow="fold", ratio=1)
    for word, style, changes in (("worse", "red", comparison.worse), ("better", "green", comparison.better)):
        for change in changes[:CHANGES]:
            table.add_row(cell(f"  {word}", style), _scores(change), change.task_id)
        if len(changes) > CHANGES:
            table.add_row(f"  {word}", "", f"… and {count_of(len(changes) - CHANGES, 'task')} more")
    if table.row_count:
        page.print(table)
    for note in comparison.notes:
        page.put(f"  note: {note}")


def _headline(comparison: Comparison) -> str:
    if comparison.score_delta is None:
        return f"against {comparison.baseline_run_id}: no task was scored in both runs"
    unchanged = comparison.tasks - len(comparison.better) - len(comparison.worse)
    return (
        f"against {comparison.baseline_run_id}: {comparison.score_delta:+.3f},"
        f" {len(comparison.better):,} better, {len(comparison.worse):,} worse, {unchanged:,} unchanged"
    )


def _scores(change: TaskChange) -> str:
    return f"{change.before:.2f} → {change.after:.2f}"
