"""
The modes of an agent eval (RFC 0081 §D).

To add a mode, add its name to MODE_NOTES and a row to MODES, and a check if it has a requirement.

The table drives what a host offers, which tasks a run covers, and what is refused before anything runs
(openwop-contract §3.2, §6.3).
"""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from assay.agenteval.planning.mode_names import MODE_NOTES
from assay.agenteval.planning.request import EvalFacts, EvalRequest
from assay.agenteval.suites.extension import tools_of
from assay.errors import EvalRefused, Problem
from assay.protocol.agent_evals import AgentEvalSuite, EvalTask

BASELINE = "configurable.baselineRunId"
Tasks = tuple[EvalTask, ...]
ModeCheck = Callable[[EvalRequest, EvalFacts, AgentEvalSuite, Tasks], None]  # raises EvalRefused


def no_requirement(request: EvalRequest, facts: EvalFacts, suite: AgentEvalSuite, tasks: Tasks) -> None:
    """The check of a mode that needs nothing."""


def check_regression(request: EvalRequest, facts: EvalFacts, suite: AgentEvalSuite, tasks: Tasks) -> None:
    """
    Check the baseline (openwop-contract §3.2 step 12): a completed eval of the same suite over the same tasks.

    It must have the same suite version, unless the request allows another.
    """
    baseline = facts.baseline
    if request.skip_regression:
        return
    if request.baseline_run_id is None:
        raise _bad_baseline("the mode regression compares with an earlier run: expected its id")
    if baseline is None:
        raise _bad_baseline("this eval run does not exist, or did not complete")
    if baseline.suite_id != suite.suite_id:
        raise _bad_baseline(f"expected a run of suite {suite.suite_id}, got a run of {baseline.suite_id}")
    if baseline.suite_version != suite.version and not request.allow_suite_version_drift:
        raise _bad_baseline(
            f"expected a run of suite version {suite.version}, got a run of {baseline.suite_version}"
            " (configurable.allowSuiteVersionDrift allows it)"
        )
    other = sorted(baseline.task_ids ^ {task.task_id for task in tasks})
    if other:
        raise EvalRefused(
            Problem(BASELINE, "expected a baseline with the tasks of this run, got one with other tasks"),
            field=BASELINE,
            tasks=other,
        )


def _bad_baseline(message: str) -> EvalRefused:
    return EvalRefused(Problem(BASELINE, message), field=BASELINE)


def check_live_shadow(request: EvalRequest, facts: EvalFacts, suite: AgentEvalSuite, tasks: Tasks) -> None:
    """Check the tools (openwop-contract §6.2): a tool that only fixtures answer cannot be called live."""
    missing = {task.task_id: tools for task in tasks if (tools := tools_of(task) - facts.live_tools)}
    if missing:
        names = ", ".join(sorted({tool for tools in missing.values() for tool in tools}))
        raise EvalRefused(
            Problem("tasks", f"live-shadow: expected live tools, got tools that have only fixtures: {names}"),
            tasks=list(missing),
        )


class Mode(Struct, frozen=True, kw_only=True):
    """A row of MODES. `check` refuses a request that the mode cannot run; `check_last` runs after all others."""

    name: str
    covers: Literal["golden", "rubric"] | None = None  # the kind of task it selects; None selects no task
    judge: bool = False  # the mode is offered only where a judge is
    detectors: bool = False  # the mode is offered only where a detector is
    live: bool = False  # tools and memory are live, for the whole run; fixtures are not used
    check: ModeCheck = no_requirement
    check_last: ModeCheck = no_requirement


MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        Mode(name="golden", covers="golden"),  # one right answer: equal, contained, or equal as JSON
        Mode(name="rubric", covers="rubric", judge=True),  # a judge scores weighted criteria
        Mode(name="adversarial", detectors=True),  # detectors look at what the agent wrote and did
        # the same tasks as an earlier run, and the difference
        Mode(name="regression", check=check_regression),
        Mode(name="live-shadow", live=True, check_last=check_live_shadow),
    )
}


assert list(MODES) == list(MODE_NOTES), "each mode has a row in MODES and a name in MODE_NOTES"


def covered_tasks(suite: AgentEvalSuite, modes: Iterable[str]) -> Tasks:
    """The tasks that the modes select, by the suite's order (openwop-contract §6.3). Without a choice, all tasks."""
    kinds = {MODES[mode].covers for mode in modes if mode in MODES} - {None}
    return tuple(task for task in suite.tasks if not kinds or task.expected.kind in kinds)


def available_modes(*, judge: bool, detectors: bool) -> list[str]:
    """The names of the modes that work on this host."""
    return [
        name
        for name, mode in MODES.items()
        if (judge or not mode.judge) and (detectors or not mode.detectors)
    ]
