"""`assay run --only`: the tasks that did not pass before, from the stored runs of the suite and the agent, or by id."""

from collections.abc import Sequence

from msgspec import Struct

from assay.agenteval.planning.run_header import KIND, part_of
from assay.agenteval.results.report import EvalReport, report_of
from assay.cli.console.console import echo_err
from assay.cli.console.only import NothingToRun, Only, names, refuse_unknown
from assay.errors import UsageError
from assay.ports import CLOSED, LOCAL_TENANT, Run, RunQuery, Store
from assay.protocol.agent_evals import AgentEvalSuite
from assay.runs.find_run import find_run

RECENT = 100  # newest runs of the suite that are searched


class TaskChoice(Struct, frozen=True):
    """The ids of the chosen tasks, and the runs in which those that did not pass did not."""

    tasks: tuple[str, ...]
    failing_in: tuple[str, ...]


async def choose_tasks(store: Store, only: Only, suite: AgentEvalSuite, agent_id: str) -> TaskChoice:
    """
    The named tasks of the suite, and those that did not pass, or were not measured, when they last ran.

    `failing`: in the latest run of the suite by the agent. If that run has a part of the suite, the other tasks are
    those of the run before it. `failing:RUN`: in that run alone.
    """
    check_ids(only, suite)
    runs = [await _given(store, one, suite) for one in only.runs]
    runs += await _latest(store, suite, agent_id) if only.latest else []
    return chosen_tasks(only, suite, [await report_of(store, run) for run in runs])


def check_ids(only: Only, suite: AgentEvalSuite) -> None:
    """Refuse ids that no task of the suite has."""
    refuse_unknown(only.ids, {task.task_id: None for task in suite.tasks}, "the suite", "task")


def chosen_tasks(only: Only, suite: AgentEvalSuite, reports: Sequence[EvalReport]) -> TaskChoice:
    """The choice by the reports of the runs that were asked for, the newest first."""
    there = {task.task_id for task in suite.tasks}
    passed: dict[str, bool] = {}
    for report in reports:
        for task in report.tasks:
            passed.setdefault(task.task_id, task.passed is True)
    failing = [id for id, well in passed.items() if not well]
    if gone := [id for id in failing if id not in there]:
        echo_err(f"--only: the suite no longer has {names(gone, 'task')}")
    found = tuple(dict.fromkeys((*only.ids, *(id for id in failing if id in there))))
    if not found:
        raise NothingToRun(f"nothing to run: no task of the suite failed in {reports[0].run}")
    return TaskChoice(found, tuple(report.run for report in reports))


async def _given(store: Store, reference: str, suite: AgentEvalSuite) -> Run:
    run = await find_run(store, reference, latest_of=frozenset({KIND}))
    if run.kind != KIND:
        raise UsageError(
            f"--only failing:{reference}: expected a run of a suite, {run.id} is a run of kind {run.kind!r}"
        )
    check_run(reference, suite, run.metadata.get("suiteId"), run.status)
    if run.erased:
        raise UsageError(f"--only failing:{reference}: {run.id}: {run.erasure}")
    return run


def check_run(reference: str, suite: AgentEvalSuite, suite_id: str | None, status: str) -> None:
    """Refuse a run of another suite, and one that has not ended."""
    place = f"--only failing:{reference}"
    if suite_id != suite.suite_id:
        raise UsageError(f"{place}: expected a run of suite {suite.suite_id}, got a run of {suite_id}")
    if status not in CLOSED:
        raise UsageError(f"{place}: expected a run that has ended, it is {status}")


def no_run(suite: AgentEvalSuite, agent_id: str) -> UsageError:
    return UsageError(
        f"--only failing: suite {suite.suite_id} has no run of {agent_id} yet: run it without --only"
    )


async def _latest(store: Store, suite: AgentEvalSuite, agent_id: str) -> list[Run]:
    """The latest runs, newest first, up to one that has every task."""
    runs: list[Run] = []
    for run in await store.runs(
        RunQuery(tenant=LOCAL_TENANT, kind=KIND, name=suite.suite_id, statuses=CLOSED, limit=RECENT)
    ):
        if run.metadata.get("agentId") == agent_id and not run.erased:
            runs.append(run)
            if not part_of(run):
                return runs
    if not runs:
        raise no_run(suite, agent_id)
    return runs
