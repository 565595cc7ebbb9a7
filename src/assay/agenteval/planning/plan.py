"""Plans an eval, or refuses it: steps 5 to 13 of openwop-contract §3.2, in order. Nothing has happened yet."""

from msgspec import UNSET, Struct
from msgspec.structs import replace

from assay.agenteval.planning.modes import MODES, Tasks, available_modes, covered_tasks
from assay.agenteval.planning.request import MAX_TRIALS, Baseline, EvalFacts, EvalLimits, EvalRequest
from assay.agenteval.scoring.safety import wants_judge
from assay.agents.handoff import task_problems
from assay.errors import EvalRefused, InvalidRequest, Problem
from assay.protocol.agent_evals import AgentEvalSuite
from assay.protocol.agents import AgentCard
from assay.protocol.json_types import JSON
from assay.protocol.manifest import AgentDefinition
from assay.protocol.suite_extension import extended_tasks, extension_of

TAKES_NONE = {  # why, or what to do, by the kind of agent
    "callable": ": add a parameter `ctx` to its function",
    "http": ": its settings say takes_{what} = false",
    "command": ": its settings say takes_{what} = false",
    "manifest": ": its manifest has no {what}",
    "object": ": give a function of the task and `ctx` that calls it",
}


NO_TURNS = {  # what to do, by the kind of agent
    "callable": "add a parameter `ctx` to its function, and read ctx.messages",
    "object": "add a parameter `ctx` to its method, and read ctx.messages",
}
TURNS = "turns work with a function of the task and `ctx`, an endpoint, a command, or an agent of a framework"
SELECTED = "tasks"  # the member of a request with the tasks that it selects
NAMED = 10  # tasks that a refusal names


class EvalPlan(Struct, frozen=True, kw_only=True):
    """An eval that can run as requested."""

    request: EvalRequest
    card: AgentCard
    suite: AgentEvalSuite
    modes: tuple[str, ...]
    tasks: Tasks  # those it runs, in the suite's order
    suite_total: int  # the tasks of the suite that its modes cover
    live: bool
    seconds: float
    baseline: Baseline | None = None
    definition: AgentDefinition | None = None  # of an agent of a pack
    tenant_agent: bool = False  # the tenant brought the agent
    policy: JSON | None = None  # of tool calls, in the mode adversarial


def plan(request: EvalRequest, facts: EvalFacts, limits: EvalLimits) -> EvalPlan:
    """The plan, or an EvalRefused with every problem of the first step that fails. It has no side effect."""
    _require_names(request)
    card = _card(request, facts)
    suite = _suite(facts)
    _check_target(request, card, suite)
    modes, covered = _cover_tasks(request, facts, suite)
    tasks = extended_tasks(suite, _select_tasks(request, suite, modes, covered))
    if len(suite.tasks) > limits.max_tasks:
        message = f"expected at most {limits.max_tasks} tasks, got {len(suite.tasks)}"
        raise EvalRefused(Problem("tasks", message), field="evalSuiteRef")
    for mode in modes:
        MODES[mode].check(request, facts, suite, tasks)
    live = any(MODES[mode].live for mode in modes)
    _check_judge(facts, tasks)
    takes_tools = card.takes_tools or facts.traced
    _check_tools(replace(card, takes_tools=takes_tools), tasks, live=live or request.record)
    _check_record(request, card)
    _check_turns(card, tasks)
    for mode in modes:
        MODES[mode].check_last(request, facts, suite, tasks)
    _check_handoff(card, tasks)
    return EvalPlan(
        request=request,
        card=card,
        suite=suite,
        modes=modes,
        tasks=tasks if request.until is None else request.until.shuffled(tasks),
        suite_total=len(covered),
        live=live,
        seconds=request.seconds or limits.seconds,
        baseline=facts.baseline if "regression" in modes else None,
        definition=facts.definition,
        tenant_agent=facts.tenant_agent,
        policy=facts.policy if "adversarial" in modes else None,
    )


def _require_names(request: EvalRequest) -> None:
    """Step 5, and the ranges of numbers in `configurable`."""
    missing = [
        Problem(name, "an eval run requires this member")
        for name, value in (("evalSuiteRef", request.suite_ref), ("agentId", request.agent_id))
        if not value
    ]
    if missing:
        raise EvalRefused(missing, field=missing[0].place)
    if not 1 <= request.trials <= MAX_TRIALS:
        place = "configurable.trials"
        raise EvalRefused(Problem(place, f"expected a whole number from 1 to {MAX_TRIALS}"), field=place)
    if request.seconds is not None and not request.seconds > 0:
        place = "configurable.timeout"
        raise EvalRefused(Problem(place, "expected a number of seconds above 0"), field=place)
    for name, limit in (("limit", request.limit), ("max_cost", request.max_cost)):
        if limit is not None and not limit > 0:
            raise EvalRefused(Problem(name, f"expected a number above 0, got {limit:g}"), field=name)


def _card(request: EvalRequest, facts: EvalFacts) -> AgentCard:
    """Step 6."""
    if facts.card is None:
        raise EvalRefused(Problem("agentId", f"there is no agent {request.agent_id!r} here"), field="agentId")
    return facts.card


def _suite(facts: EvalFacts) -> AgentEvalSuite:
    """Step 7, and the duplicates of step 11."""
    if isinstance(facts.suite, AgentEvalSuite):
        return facts.suite
    problems = facts.suite.problems if isinstance(facts.suite, InvalidRequest) else ()
    problems = problems or (Problem("evalSuiteRef", "there is no such suite here"),)
    raise EvalRefused(
        problems, field="evalSuiteRef", errors=[problem.place for problem in problems if problem.place]
    )


def _check_target(request: EvalRequest, card: AgentCard, suite: AgentEvalSuite) -> None:
    """Steps 8 and 9."""
    target = suite.target_agent_id
    if target is not UNSET and target != card.agent_id and not request.allow_target_mismatch:
        message = (
            f"the suite is for agent {target}, got {card.agent_id}"
            " (configurable.allowTargetMismatch allows it)"
        )
        raise EvalRefused(Problem("agentId", message), field="agentId")
    allowed = suite.allowed_models
    if allowed is not UNSET and card.model_class not in allowed:
        message = f"the suite is for agents of the model class {' or '.join(allowed)}, got {card.model_class}"
        raise EvalRefused(Problem("agentId", message), field="agentId")


def _cover_tasks(
    request: EvalRequest, facts: EvalFacts, suite: AgentEvalSuite
) -> tuple[tuple[str, ...], Tasks]:
    """Step 10, and which tasks the modes cover (openwop-contract §6.3)."""
    place = "configurable.evalModes"
    modes = tuple(dict.fromkeys(suite.modes if request.modes is None else request.modes))
    available = available_modes(judge=facts.no_judge is None, detectors=facts.detectors)
    problems = [Problem(place, "expected at least one mode")] if not modes else []
    for mode in modes:
        if mode not in suite.modes:
            problems.append(
                Problem(place, f"the suite has no mode {mode!r}; it has {', '.join(suite.modes)}")
            )
        elif mode not in available:
            reason = _judge_reason(mode, facts)
            problems.append(
                Problem(place, f"there is no mode {mode!r} here{reason}; there are {', '.join(available)}")
            )
    if problems:
        unsupported = [mode for mode in modes if mode not in suite.modes or mode not in available]
        raise EvalRefused(problems, field=place, unsupported=unsupported, advertised=available)
    if request.skip_regression:  # a run has at least one mode
        modes = tuple(mode for mode in modes if mode != "regression") or modes
    tasks = covered_tasks(suite, modes)
    if not tasks:
        message = f"the suite has no task for {', '.join(modes)}"
        raise EvalRefused(Problem(place, message), field=place)
    return modes, tasks


def _select_tasks(
    request: EvalRequest, suite: AgentEvalSuite, modes: tuple[str, ...], covered: Tasks
) -> Tasks:
    """The tasks that the request selects, or all that the modes cover."""
    if request.tasks is None:
        return covered[: request.limit]
    there = {task.task_id for task in suite.tasks}
    by_id = {task.task_id: task for task in covered}
    problems: list[Problem] = []
    for id in dict.fromkeys(request.tasks):
        if id not in there:
            named = ", ".join(sorted(there)[:NAMED]) + (" …" if len(there) > NAMED else "")
            problems.append(Problem(SELECTED, f"the suite has no task {id[:100]!r}; it has {named}"))
        elif id not in by_id:
            message = f"{', '.join(modes)} does not run task {id!r}, which is a {_kind(suite, id)} task"
            problems.append(Problem(SELECTED, message))
    if problems:
        raise EvalRefused(problems, field=SELECTED)
    wanted = frozenset(request.tasks)
    chosen = tuple(task for task in covered if task.task_id in wanted)[: request.limit]
    if not chosen:
        raise EvalRefused(Problem(SELECTED, "expected at least one task, got none"), field=SELECTED)
    return chosen


def _kind(suite: AgentEvalSuite, id: str) -> str:
    return next(task.expected.kind for task in suite.tasks if task.task_id == id)


def _judge_reason(mode: str, facts: EvalFacts) -> str:
    """Why a mode that needs a judge is not offered; empty for another mode."""
    if mode not in MODES or not facts.no_judge:
        return ""
    if MODES[mode].detectors and wants_judge(facts.policy):
        return f" (a judge is asked for, and there is none: {facts.no_judge})"
    return f" ({facts.no_judge})" if MODES[mode].judge else ""


def _check_judge(facts: EvalFacts, tasks: Tasks) -> None:
    """Step 13: rubrics need a judge."""
    rubrics = [task.task_id for task in tasks if task.expected.kind == "rubric"]
    if rubrics and facts.no_judge is not None:
        raise EvalRefused(Problem("tasks", f"rubrics need a judge: {facts.no_judge}"), tasks=rubrics)


def _check_tools(card: AgentCard, tasks: Tasks, *, live: bool) -> None:
    """Step 13: tasks with expectations on tool calls and tasks with fixtures need an agent that can call tools."""
    expecting = [task.task_id for task in tasks if (found := extension_of(task)) and found.expects_calls]
    if expecting and not card.takes_tools:
        message = f"these tasks have expectations on tool calls, and agent {card.agent_id} takes no tools"
        reason = TAKES_NONE.get(card.kind, "").format(what="tools")
        raise EvalRefused(Problem("tasks", message + reason), tasks=expecting)
    if live:
        return
    for name, takes in (("tool_responses", card.takes_tools), ("memory_seed", card.takes_memory)):
        affected = [
            task.task_id
            for task in tasks
            if (task.fixtures is not UNSET and getattr(task.fixtures, name))
            or (name == "tool_responses" and (found := extension_of(task)) and found.fixtures)
        ]
        if affected and not takes:
            what = "tools" if name == "tool_responses" else "memory"
            message = f"these tasks have fixtures for {what}, and agent {card.agent_id} takes no {what}"
            reason = TAKES_NONE.get(card.kind, "").format(what=what)
            raise EvalRefused(Problem("tasks", message + reason), tasks=affected)


def _check_turns(card: AgentCard, tasks: Tasks) -> None:
    """A conversation needs an agent that reads it."""
    affected = [task.task_id for task in tasks if (found := extension_of(task)) and found.turns]
    if affected and not card.takes_turns:
        what = NO_TURNS.get(card.kind, f"an agent of the kind {card.kind} answers one message; {TURNS}")
        message = f"these tasks have turns, and agent {card.agent_id} does not read a conversation: {what}"
        raise EvalRefused(Problem("tasks", message), tasks=affected)


def _check_record(request: EvalRequest, card: AgentCard) -> None:
    """A recording needs an agent that may call live tools, and has one answer for each call."""
    if not request.record:
        return
    if request.trials > 1:
        raise EvalRefused(
            Problem("record", f"expected one trial of each task, got {request.trials}"), field="record"
        )
    if not card.takes_tools:
        reason = TAKES_NONE.get(card.kind, "").format(what="tools")
        raise EvalRefused(Problem("record", f"agent {card.agent_id} takes no tools{reason}"), field="record")
    if card.tools is None and card.kind in TAKES_NONE:
        message = (
            f"agent {card.agent_id} may call no live tool: list those that it may call in its settings,"
            f' [agents."{card.agent_id}"] tools = ["<scope>:<tool-id>", …]'
        )
        raise EvalRefused(Problem("record", message), field="record")


def _check_handoff(card: AgentCard, tasks: Tasks) -> None:
    """Step 13: the agent's hand-off schema for tasks."""
    wrong = {task.task_id: found for task in tasks if (found := task_problems(card, task.input, "input"))}
    if wrong:  # paths alone: an input is content
        raise EvalRefused(
            [
                Problem(
                    f"tasks[{id}].{problem.place}",
                    f"expected an input that matches the hand-off schema of {card.agent_id}",
                )
                for id, found in wrong.items()
                for problem in found
            ],
            tasks=list(wrong),
        )
