"""`assay run --only failing`: the tasks that did not pass before, from the stored runs of the suite and the agent."""

from collections.abc import Iterable, Sequence

from assay.agenteval.planning.run_header import KIND, part_of
from assay.agenteval.results.report import report_of
from assay.cli.console.console import echo_err
from assay.errors import UsageError
from assay.ports import CLOSED, LOCAL_TENANT, Run, RunQuery, Store
from assay.protocol.agent_evals import AgentEvalSuite
from assay.runs.find_run import find_run

FAILING = "failing"
RECENT = 100  # newest runs of the suite that are searched
NAMED = 5  # tasks that a message names


class NothingToRun(Exception):  # it is no error: everything passed
    """No task is left to run."""


async def find_failing(store: Store, only: str, suite: AgentEvalSuite, agent_id: str) -> tuple[str, ...]:
    """
    The tasks of the suite that did not pass, or were not measured, when they last ran.

    `failing`: in the latest run of the suite by the agent. If that run has a part of the suite, the other tasks are
    those of the run before it. `failing:RUN`: in that run alone.
    """
    which, colon, reference = only.partition(":")
    if which != FAILING or (colon and not reference):
        raise UsageError(
            f"--only {only[:100]!r}: expected failing or failing:RUN; --task ID selects a task by its id"
        )
    if reference:
        runs = [await _given(store, reference, suite)]
    else:
        runs = await _latest(store, suite, agent_id)
    passed: dict[str, bool] = {}
    for run in runs:
        for task in (await report_of(store, run)).tasks:
            passed.setdefault(task.task_id, task.passed is True)
    failing = [id for id, well in passed.items() if not well]
    there = {task.task_id for task in suite.tasks}
    if gone := [id for id in failing if id not in there]:
        echo_err(f"--only {only}: the suite no longer has {_names(gone)}")
    found = tuple(id for id in failing if id in there)
    if not found:
        raise NothingToRun(f"nothing to run: no task of the suite failed in {runs[0].id}")
    return found


async def _given(store: Store, reference: str, suite: AgentEvalSuite) -> Run:
    run = await find_run(store, reference, KIND)
    if run.metadata.get("suiteId") != suite.suite_id:
        got = run.metadata.get("suiteId")
        raise UsageError(
            f"--only failing:{reference}: expected a run of suite {suite.suite_id}, got a run of {got}"
        )
    if run.status not in CLOSED:
        raise UsageError(f"--only failing:{reference}: expected a run that has ended, it is {run.status}")
    if run.erased:
        raise UsageError(f"--only failing:{reference}: {run.id}: {run.erasure}")
    return run


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
        raise UsageError(
            f"--only failing: suite {suite.suite_id} has no run of {agent_id} yet: run it without --only"
        )
    return runs


def both(tasks: Sequence[str] | None, failing: tuple[str, ...]) -> tuple[str, ...]:
    """The tasks of --task that are failing; all that are failing without --task."""
    if tasks is None:
        return failing
    found = tuple(id for id in tasks if id in failing)
    if not found:
        raise NothingToRun(f"nothing to run: {_names(tasks)} did not fail")
    return found


def _names(ids: Iterable[str]) -> str:
    many = list(ids)
    more = f" and {len(many) - NAMED:,} more" if len(many) > NAMED else ""
    return f"task{'s' if len(many) > 1 else ''} {', '.join(id[:100] for id in many[:NAMED])}{more}"
