"""Whether an eval can be had as it was asked for: the refusals of contract §3.2, steps 5 to 13, in their order."""

from msgspec import UNSET, Struct

from assay.agenteval.modes import MODES, offered
from assay.agenteval.request import MOST_TRIALS, Baseline, EvalFacts, EvalLimits, EvalRequest
from assay.agents.handoff import task_problems
from assay.errors import EvalRefused, InvalidRequest, Problem
from assay.protocol.agents import AgentCard
from assay.protocol.suite import AgentEvalSuite, EvalTask

Tasks = tuple[EvalTask, ...]


class EvalPlan(Struct, frozen=True, kw_only=True):
    """An eval that makes sense; nothing has happened yet."""

    asked: EvalRequest
    card: AgentCard
    suite: AgentEvalSuite
    modes: tuple[str, ...]
    tasks: Tasks  # those it covers, in the suite's order
    live: bool
    seconds: float
    baseline: Baseline | None = None


def plan(asked: EvalRequest, known: EvalFacts, host: EvalLimits) -> EvalPlan:
    """Pure. The first step that refuses is the one that is told, with all that is wrong at it."""
    _require_names(asked)
    card = _card(asked, known)
    suite = _suite(known)
    _check_target(asked, card, suite)
    modes, tasks = _select_tasks(asked, known, suite)
    if len(suite.tasks) > host.max_tasks:
        told = f"{len(suite.tasks)} tasks, and at most {host.max_tasks} are taken"
        raise EvalRefused(Problem("tasks", told), field="evalSuiteRef")
    for mode in modes:
        MODES[mode].meet(asked, known, suite, tasks)
    live = any(MODES[mode].live for mode in modes)
    _scorable(known, tasks)
    _check_tools(card, tasks, live=live)
    for mode in modes:
        MODES[mode].last(asked, known, suite, tasks)
    _check_handoff(card, tasks)
    return EvalPlan(
        asked=asked,
        card=card,
        suite=suite,
        modes=modes,
        tasks=tasks,
        live=live,
        seconds=asked.seconds or host.seconds,
        baseline=known.baseline if "regression" in modes else None,
    )


def _require_names(asked: EvalRequest) -> None:
    """Step 5, and what `configurable` says that is no choice."""
    missing = [
        Problem(name, "an eval needs this")
        for name, value in (("evalSuiteRef", asked.suite_ref), ("agentId", asked.agent_id))
        if not value
    ]
    if missing:
        raise EvalRefused(missing, field=missing[0].place)
    if not 1 <= asked.trials <= MOST_TRIALS:
        place = "configurable.trials"
        raise EvalRefused(Problem(place, f"expected a whole number from 1 to {MOST_TRIALS}"), field=place)
    if asked.seconds is not None and not asked.seconds > 0:
        place = "configurable.timeout"
        raise EvalRefused(Problem(place, "expected a number of seconds above 0"), field=place)


def _card(asked: EvalRequest, known: EvalFacts) -> AgentCard:
    """Step 6."""
    if known.card is None:
        raise EvalRefused(Problem("agentId", f"there is no agent {asked.agent_id!r} here"), field="agentId")
    return known.card


def _suite(known: EvalFacts) -> AgentEvalSuite:
    """Step 7, and the duplicates of step 11."""
    if isinstance(known.suite, AgentEvalSuite):
        return known.suite
    problems = known.suite.problems if isinstance(known.suite, InvalidRequest) else ()
    problems = problems or (Problem("evalSuiteRef", "there is no such suite here"),)
    raise EvalRefused(problems, field="evalSuiteRef", errors=[one.place for one in problems if one.place])


def _check_target(asked: EvalRequest, card: AgentCard, suite: AgentEvalSuite) -> None:
    """Steps 8 and 9."""
    target = suite.target_agent_id
    if target is not UNSET and target != card.agent_id and not asked.allow_target_mismatch:
        told = (
            f"the suite is for {target}, and this is {card.agent_id}"
            " (configurable.allowTargetMismatch runs it all the same)"
        )
        raise EvalRefused(Problem("agentId", told), field="agentId")
    allowed = suite.allowed_models
    if allowed is not UNSET and card.model_class not in allowed:
        told = f"the suite is for models of {', '.join(allowed)}, and this agent's is {card.model_class}"
        raise EvalRefused(Problem("agentId", told), field="agentId")


def _select_tasks(
    asked: EvalRequest, known: EvalFacts, suite: AgentEvalSuite
) -> tuple[tuple[str, ...], Tasks]:
    """Step 10, and which tasks the modes cover (§6.3)."""
    place = "configurable.evalModes"
    modes = tuple(dict.fromkeys(suite.modes if asked.modes is None else asked.modes))
    here = offered(judge=known.no_judge is None)
    problems = [Problem(place, "expected at least one mode")] if not modes else []
    for mode in modes:
        if mode not in suite.modes:
            problems.append(
                Problem(place, f"the suite has no mode {mode!r}; it has {', '.join(suite.modes)}")
            )
        elif mode not in here:
            why = f" ({known.no_judge})" if mode in MODES and MODES[mode].judge and known.no_judge else ""
            problems.append(
                Problem(place, f"mode {mode!r} is not offered here{why}; there are {', '.join(here)}")
            )
    if problems:
        lacking = [mode for mode in modes if mode not in suite.modes or mode not in here]
        raise EvalRefused(problems, field=place, unsupported=lacking, advertised=here)
    kinds = {MODES[mode].covers for mode in modes} - {None}
    tasks = tuple(task for task in suite.tasks if not kinds or task.expected.kind in kinds)
    if not tasks:
        told = f"no task of the suite is covered by {', '.join(modes)}"
        raise EvalRefused(Problem(place, told), field=place)
    return modes, tasks


def _scorable(known: EvalFacts, tasks: Tasks) -> None:
    """Step 13: whether each task can be scored as things are."""
    judged = [task.task_id for task in tasks if task.expected.kind == "rubric"]
    if judged and known.no_judge is not None:
        raise EvalRefused(Problem("tasks", f"rubrics need a judge: {known.no_judge}"), tasks=judged)


def _check_tools(card: AgentCard, tasks: Tasks, *, live: bool) -> None:
    """Step 13: whether the agent has a way to the fixtures."""
    if live:
        return
    for name, takes in (("tool_responses", card.takes_tools), ("memory_seed", card.takes_memory)):
        given = [one.task_id for one in tasks if one.fixtures is not UNSET and getattr(one.fixtures, name)]
        if given and not takes:
            what = "tools" if name == "tool_responses" else "memory"
            told = f"these tasks have fixtures for {what}, and agent {card.agent_id} has no way to take any"
            raise EvalRefused(Problem("tasks", told), tasks=given)


def _check_handoff(card: AgentCard, tasks: Tasks) -> None:
    """Step 13, at last: the agent's own idea of a task."""
    wrong = {task.task_id: some for task in tasks if (some := task_problems(card, task.input, "input"))}
    if wrong:  # places, and not what stands there: an input is content
        raise EvalRefused(
            [
                Problem(
                    f"tasks[{id}].{one.place}", f"this is no task for {card.agent_id}, by its hand-off schema"
                )
                for id, some in wrong.items()
                for one in some
            ],
            tasks=list(wrong),
        )
