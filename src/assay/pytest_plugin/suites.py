"""
Suites as tests: one item for each task. The suite runs once in a session, also under xdist; its items report their
tasks.
"""

import asyncio
import fcntl
import hashlib
import inspect
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from msgspec import Struct

from assay.agenteval.planning.modes import covered_tasks
from assay.agenteval.results.report import TaskReport as Task
from assay.agenteval.results.report import unmet_text
from assay.agenteval.scoring.safety_records import BLOCKING
from assay.agenteval.suites.suite import read_suite_file
from assay.api.suites import SuiteRun, run_suite
from assay.errors import Refusal
from assay.host import parts
from assay.ports import Store
from assay.protocol.agent_evals import AgentEvalSuite, EvalTask
from assay.protocol.json_types import JSON, is_object
from assay.pytest_plugin.case_verdict import Bar, decide, describe
from assay.pytest_plugin.mark_options import NO_AGENT, MarkOptions, agent_option, claim, parametrize_columns
from assay.pytest_plugin.outcome import CASE, RECORD, CaseNotPassed, variant_of
from assay.pytest_plugin.samples import argument_names
from assay.results.reasons import agent_error, is_failing
from assay.settings import load
from assay.stats.number_text import score_text
from assay.terminal import lines as terminal_lines
from assay.terminal import one_line

CONTEXTS = ("ctx", "context")
COLUMNS = (CASE, "task", "input", *CONTEXTS)  # the parameters of an item that come from its task


class TaskReport(Struct):
    """How one task ended: `passed` is None if it was not measured. `text` says why it did not pass."""

    passed: bool | None
    text: str = ""


class SuiteReport(Struct):
    """How a suite ended, as the workers of xdist share it."""

    tasks: dict[str, TaskReport] = {}
    lines: list[str] = []  # for the summary of the session
    failed: bool = False  # every task passed, and the suite as a whole did not
    error: str = ""  # why it did not run


class SuiteGroup(Struct):
    """A suite and how it runs."""

    name: str
    suite: AgentEvalSuite
    trials: int = 1
    judge: str | None = None
    min_pass_rate: float | None = None  # None: the bar of the suite
    agent: Any = None  # of the mark; None: the function

    @property
    def task_ids(self) -> list[str]:
        return [task.task_id for task in self.suite.tasks]


class HasTask(Protocol):
    """What an item of a suite knows."""

    group: SuiteGroup
    task: EvalTask


REPORTS = pytest.StashKey[dict[str, SuiteReport]]()


def parametrize_suite(metafunc: pytest.Metafunc, options: MarkOptions) -> None:
    """One item for each task. The function is the agent: `task` or `input` is its input, `ctx` its context."""
    definition = metafunc.definition
    path = definition.path.parent / options.suite
    suite = read_suite_file(str(path), load().limits)
    claim(metafunc.config, path)
    group = SuiteGroup(definition.nodeid, suite, options.samples, options.judge, options.rate, options.agent)
    columns: dict[str, list[Any]] = {CASE: [TaskRun(group, task) for task in suite.tasks]}
    for name in ("task", "input"):
        if name in metafunc.fixturenames:
            columns[name] = [task.input for task in suite.tasks]
    for name in CONTEXTS:
        if name in metafunc.fixturenames:
            columns[name] = [None] * len(suite.tasks)
    if len(columns) == 1 and options.agent is None:
        raise pytest.UsageError(
            "expected a function with a parameter task or input, which is the input of a task"
        )
    parametrize_columns(metafunc, columns, group.task_ids)


class TaskRun(Struct):
    """One task of a suite, as the parameter of an item."""

    group: SuiteGroup
    task: EvalTask

    def run(self, item: pytest.Function) -> None:
        report_task(item, self, _agent_of(item) if self.group.agent is None else self.group.agent)


def _agent_of(item: pytest.Function) -> Callable[..., Any]:
    """The function of the item as an agent. Its fixtures are those of this item."""
    fixed = {name: item.funcargs[name] for name in argument_names(item)}
    inputs = [name for name in ("task", "input") if name in fixed]
    contexts = [name for name in CONTEXTS if name in fixed]
    function: Any = item.obj
    wrapped = getattr(function, "__wrapped__", None)
    function = wrapped if inspect.iscoroutinefunction(wrapped) else function

    def arguments(task: Any, ctx: Any) -> dict[str, Any]:
        return fixed | dict.fromkeys(inputs, task) | dict.fromkeys(contexts, ctx)

    async def ask(task: Any, ctx: Any) -> Any:
        return await function(**arguments(task, ctx))

    def call(task: Any, ctx: Any) -> Any:
        return function(**arguments(task, ctx))

    agent: Any = ask if inspect.iscoroutinefunction(function) else call
    agent.__module__, agent.__qualname__ = item.obj.__module__, item.originalname
    return agent


def report_task(item: pytest.Item, run: HasTask, agent: Any) -> None:
    """Run the suite if no item did yet, and raise if the task of this item did not pass."""
    task, group = run.task, msgspec.structs.replace(run.group, name=_name_of(item, run))
    report = _shared_report(item, group, agent)
    if report.error:
        raise CaseNotPassed(report.error, measured=False)
    item.stash[RECORD] = msgspec.json.encode(
        {"group": group.name, "suite": {"lines": report.lines, "failed": report.failed}}
    ).decode()
    ended = report.tasks.get(task.task_id, TaskReport(None, "the run ended before this task"))
    if not ended.passed:
        raise CaseNotPassed(ended.text, measured=ended.passed is False)


def _name_of(item: pytest.Item, run: HasTask) -> str:
    """The name of the run that the item belongs to."""
    return run.group.name + variant_of(item, COLUMNS)


def _shared_report(item: pytest.Item, group: SuiteGroup, agent: Any) -> SuiteReport:
    """
    The report of the suite. Under xdist, the first worker that needs it runs the suite; the others wait and read its
    file.
    """
    reports = item.config.stash.setdefault(REPORTS, {})
    if group.name in reports:
        return reports[group.name]
    selected = _selection(item.session.items, group)
    worker: dict[str, Any] | None = getattr(item.config, "workerinput", None)
    if worker is None:
        report = _run(item, group, agent, selected)
    else:
        own: str | None = item.config.getoption("basetemp")  # of this worker, in a folder that all share
        folder = Path(own).parent if own else Path(tempfile.gettempdir())
        key = hashlib.sha256(f"{worker['testrunuid']} {group.name}".encode()).hexdigest()[:32]
        with (folder / f"assay-{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            file = folder / f"assay-{key}.json"
            if file.exists():
                report = msgspec.json.decode(file.read_bytes(), type=SuiteReport)
            else:
                report = _run(item, group, agent, selected)
                file.write_bytes(msgspec.json.encode(report))
    reports[group.name] = report
    return report


def _selection(items: Iterable[pytest.Item], group: SuiteGroup) -> list[str]:
    """The tasks of the suite that this session selected."""
    found: set[str] = set()
    for item in items:
        callspec = getattr(item, "callspec", None)
        run = item if isinstance(item, TaskItem) else callspec and callspec.params.get(CASE)
        if isinstance(run, TaskRun | TaskItem) and _name_of(item, run) == group.name:
            found.add(run.task.task_id)
    return [task for task in group.task_ids if task in found]


def _run(item: pytest.Item, group: SuiteGroup, agent: Any, selected: Sequence[str]) -> SuiteReport:
    partial = len(selected) < len(group.suite.tasks)
    save = not partial and not item.config.getoption("--assay-no-save")
    name = one_line(group.name)
    lines: list[str] = []
    if partial:
        lines.append(
            f"{name}: {len(selected)} of {len(group.suite.tasks)} tasks selected; not stored as a run of the suite"
        )
    try:
        run = asyncio.run(_run_suite(group, selected, agent, lines, save=save))
    except Refusal as refusal:
        return SuiteReport(error="\n".join(map(terminal_lines, refusal.lines)))
    if not partial:
        verdict = "passed" if run.passed else "not passed" if run.summary else run.status
        stored = f"; details: assay show {run.run_id}" if save and not lines else ""
        unmet = () if run.report.verdict is None else tuple(run.report.verdict.failed)
        why = "".join(f"; {unmet_text(one, run.report)}" for one in unmet)
        lines.append(f"{name}: {verdict}, score {score_text(run.report.score)}{why}{stored}")
    ended = {task.task_id: _task_report(run, task, group) for task in run.report.tasks}
    all_passed = all(task.passed for task in ended.values())
    return SuiteReport(ended, lines, failed=not partial and all_passed and not _suite_passed(run, group))


async def _run_suite(
    group: SuiteGroup, selected: Sequence[str], agent: Any, lines: list[str], *, save: bool
) -> SuiteRun:
    async with _open_store(lines, save=save) as store:
        covered = [task.task_id for task in covered_tasks(group.suite, group.suite.modes)]
        part = len(selected) < len(group.suite.tasks)
        tasks = [id for id in covered if id in selected] if part else None
        return await run_suite(
            group.suite, agent, tasks=tasks, trials=group.trials, judge=group.judge, store=store
        )


@asynccontextmanager
async def _open_store(lines: list[str], *, save: bool) -> AsyncGenerator[Store | str]:
    """The store of this host; memory if the run is not stored, or if the store cannot be opened, which is a line."""
    opened = parts.store(load())
    store: Store | str = "memory:"
    if save:
        try:
            store = await opened.__aenter__()
        except Refusal as refusal:
            lines.append(f"the results are not stored: {one_line(refusal.lines[0])}")
    try:
        yield store
    finally:
        if not isinstance(store, str):
            await opened.__aexit__(None, None, None)


def _suite_passed(run: SuiteRun, group: SuiteGroup) -> bool:
    """Whether the suite met its thresholds. A `min_pass_rate` stands in place of its score."""
    failed = None if run.report.verdict is None else set(run.report.verdict.failed)
    return failed is not None and not failed - (
        {"passScore"} if group.min_pass_rate is not None else set[str]()
    )


def _bar(run: SuiteRun, group: SuiteGroup) -> Bar:
    """The share of the trials of a task that must pass: that of the mark, or the bar of the suite."""
    rate = group.min_pass_rate
    if rate is None:
        rate = run.report.pass_score if group.trials > 1 else 1.0
    return Bar(min_pass_rate=rate)


def _outcomes(run: SuiteRun, task: Task, trials: int) -> list[bool | None]:
    """The outcome of each trial of a task; None if it was not measured."""
    if task.score is not None:
        return [at < task.trials_passed for at in range(task.trials)]
    if trials == 1:
        return [None]
    reasons = {reason.trial: reason.measured for reason in run.reasons if reason.task_id == task.task_id}
    outcomes: list[bool | None] = [None] * trials
    for result in run.results:
        context = result.execution_context
        if context.test_case["id"] == task.task_id and result.status == "completed":
            about: Any = context.output.get("metadata")
            trial: int = about.get("trial", 0) if is_object(about) else 0
            outcomes[trial] = trial not in reasons if reasons.get(trial, True) else None
    return outcomes


def _task_report(run: SuiteRun, task: Task, group: SuiteGroup) -> TaskReport:
    task_id = task.task_id
    verdict = decide(_outcomes(run, task, group.trials), _bar(run, group), "trial")
    blocked = any(one.case == task_id and one.severity in BLOCKING for one in run.findings)
    passed = False if blocked else verdict.passed  # a finding of any trial counts
    if passed:
        return TaskReport(True)
    results: list[JSON] = [
        msgspec.json.decode(msgspec.json.encode(result))
        for result in run.results
        if result.execution_context.test_case["id"] == task_id
    ]
    text = describe(results, "all")
    failing = any(is_failing(check) for result in results for check in result["check_results"])
    if not failing or any(agent_error(result) for result in results):
        reasons = dict.fromkeys(reason.message for reason in run.reasons if reason.task_id == task_id)
        why = "\n".join(map(terminal_lines, reasons)) or terminal_lines(run.error or "not measured")
        text = (
            f"{why}\n\n{text}" if text else why
        )  # no check of the result says why: a rubric, a detector, or an agent that failed
    if group.trials > 1:
        text = f"{verdict.headline}\n{text}"
    return TaskReport(passed, text)


class SuiteFile(pytest.File):
    """A suite beside a test: one item for each task. An agent must be named."""

    def collect(self) -> Iterable["TaskItem"]:
        try:
            suite = read_suite_file(str(self.path), load().limits)
        except Refusal as refusal:
            raise self.CollectError("\n".join(map(terminal_lines, refusal.lines))) from None
        group = SuiteGroup(self.nodeid, suite)
        for task in suite.tasks:
            yield TaskItem.from_parent(  # pyright: ignore[reportUnknownMemberType]
                self, name=task.task_id, group=group, task=task
            )


class TaskItem(pytest.Item):
    """One task of a suite file."""

    def __init__(self, *, group: SuiteGroup, task: EvalTask, **more: Any) -> None:
        super().__init__(**more)  # pyright: ignore[reportUnknownMemberType]
        self.group, self.task = group, task

    def runtest(self) -> None:
        agent = agent_option(self.config)
        if not agent:
            raise CaseNotPassed(NO_AGENT.format(name=self.path.name, argument="suite"), measured=False)
        report_task(self, self, agent)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name
