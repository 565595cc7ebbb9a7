"""
`assay run --baseline`: find the run to compare with, refuse one that is not comparable, and show which tasks changed.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND, part_of
from assay.agenteval.results.baseline import BaselineRun, Comparison, TaskChange, same_version_differs
from assay.agenteval.results.detail import detail_of
from assay.agenteval.results.recorded_fixtures import RecordedFixtures
from assay.agenteval.suites.suite_store import suite_digest
from assay.checks.safety.tool_policy import policy_document
from assay.cli.console.console import (
    count_of,
    echo,
    echo_err,
)
from assay.cli.console.console_table import Page, Table, cell
from assay.cli.console.only import Only
from assay.comparison.compare import PairComparison
from assay.comparison.wording import verdict_line
from assay.errors import UsageError
from assay.inputs.yaml_reader import read_yaml
from assay.ports import Run, RunQuery, Store
from assay.ports.config import SafetyPolicy
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.json_types import is_object, kind_of
from assay.protocol.validation_messages import problems_in
from assay.runs.find_run import find_run
from assay.stats.number_text import SCORE_DIGITS, case_value, change_text
from assay.terminal import one_line

RECENT = 100  # newest runs of a suite that are searched for one of all its tasks
CHANGES = 10  # tasks that are listed as better, and as worse


async def find_baseline(store: Store, reference: str, suite: AgentEvalSuite) -> BaselineRun | None:
    """The baseline; None if `latest` is given and no run of the whole suite is completed yet."""
    if reference == "latest":
        query = RunQuery(kind=KIND, name=suite.suite_id, statuses=frozenset({"completed"}), limit=RECENT)
        run = next((run for run in await store.runs(query) if not part_of(run)), None)
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
            f"--baseline {report.run}: expected the same content of suite {suite.suite_id} {suite.version}, got other"
            f" content under this version; give the suite a new version, or compare anyway with --force"
        )


def note_no_baseline(suite: AgentEvalSuite, modes: Sequence[str], reference: str | None) -> None:
    """Say why nothing is compared: there is no run yet, or no baseline was given for the mode `regression`."""
    if reference is not None:
        echo_err(f"suite {suite.suite_id} has no completed run yet: nothing is compared")
    elif "regression" in modes:
        echo_err("the mode regression compares only with --baseline RUN: nothing is compared")


def show_comparison(comparison: Comparison, pair: PairComparison | None, title: str = "") -> None:
    """
    Print the verdict as `assay compare` does, the tasks that got better and worse, and the notes. `title`: the name of
    the baseline, if it has one.
    """
    page = Page()
    page.put(_headline(comparison, title or comparison.baseline_run_id))
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


def _headline(comparison: Comparison, title: str) -> str:
    if comparison.score_delta is None:
        return f"against {title}: no task was scored in both runs"
    unchanged = comparison.tasks - len(comparison.better) - len(comparison.worse)
    return (
        f"against {title}: {change_text(comparison.score_delta, SCORE_DIGITS)},"
        f" {len(comparison.better):,} better, {len(comparison.worse):,} worse, {unchanged:,} unchanged"
    )


def _scores(change: TaskChange) -> str:
    return f"{case_value(change.before)} → {case_value(change.after)}"


# Reads the file of `assay run --policy`: the members of `[safety]`, in TOML, YAML or JSON.

MAX_BYTES = 1 << 20


def read_policy(name: str) -> SafetyPolicy:
    """The policy. A UsageError lists everything that is wrong with the file."""
    place = f"--policy {name}"
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as wrong:
        raise UsageError(f"{place}: expected a file that can be read, got {wrong.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{place}: expected at most {MAX_BYTES:,} bytes")
    document = _parse(name, data, place)
    if not is_object(document):
        raise UsageError(f"{place}: expected the members of [safety], got {kind_of(document)}")
    if problems := problems_in(document, SafetyPolicy):
        raise UsageError(*(f"{place}: {one}" for one in problems))
    policy = msgspec.convert(document, SafetyPolicy)
    policy_document(policy, f"{place}: ")
    return policy


def _parse(name: str, data: bytes, place: str) -> Any:
    if not name.endswith(".toml"):
        return read_yaml(data, place)  # JSON is YAML
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise UsageError(f"{place}: not TOML: {wrong}") from None


def say_recorded(recorded: RecordedFixtures, name: str, *, quiet: bool) -> None:
    """What was written, and what no fixture can repeat."""
    for tool, code in recorded.left_out:
        echo_err(f"--record: a call of {one_line(tool)} failed with {code}, which is not recorded")
    if not recorded.calls:
        echo_err(f"--record: no tool was called in a task that was measured: {name} has no fixtures")
    elif not quiet:
        tasks = count_of(len(recorded.tasks), "task")
        echo(f"written to {name}: {count_of(recorded.calls, 'fixture')} of {tasks}")


class RunOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay run`."""

    suite: str | None = None
    agent: str | None = None
    modes: tuple[str, ...] | None = None
    baseline: str | None = None
    force: bool = False
    only: Only = Only()
    until: str | None = None
    min_pass_rate: float | None = None
    margin: float | None = None
    seed: int = 0  # of the order of --until
    limit: int | None = None
    trials: int = 1
    ks: tuple[int, ...] = ()  # of --k
    model: str | None = None
    judge: str | None = None
    checks: str | None = None
    modules: tuple[str, ...] = ()  # of --check-module
    fixtures: str | None = None  # a file
    record: str | None = None  # a new file
    policy: str | None = None  # a file
    max_attack_success: float | None = None
    concurrency: int | None = None
    timeout: float | None = None
    max_cost: float | None = None
    batch: bool = False
    batch_hours: float | None = None
    resume: str | None = None
    tags: tuple[str, ...] = ()
    any_agent: bool = False
    traces: bool = False
    traces_port: int | None = None
    to: tuple[str, ...] = ()
    verbose: bool = False
    json: bool = False
    server: str | None = None
    key_file: str | None = None

    @property
    def selects(self) -> bool:
        """Whether the command selects tasks of the suite."""
        return bool(self.only) or self.limit is not None
