"""Agents as the library takes them: a function, an Agent, or the text that `assay run --agent` takes."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from assay.concurrency.garbage import gc_rare
from assay.errors import InvalidRequest, Problem
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.planning.plan import Plan
from assay.host import parts
from assay.inputs.context import Context
from assay.ports.agents import Agent, Limited, RunNeeds
from assay.results.tally import Tally
from assay.settings import Settings

MAX_TRIALS = 100
UNANSWERED: dict[str, Any] = {"value": None}  # the output of a case before an agent answers it

AgentLike = Agent | Callable[..., Any] | str


def agent_from(agent: Any, settings: Settings, *, path: str = "agent", free: bool = False) -> Agent:
    """
    An Agent stays one; a function and an agent of a framework become one; a text is resolved as `--agent` is. `path`
    is the argument that a refusal names.
    """
    if isinstance(agent, str):
        return parts.resolve_agent(agent, settings)
    if hasattr(agent, "invoke") and hasattr(agent, "card"):
        return agent
    from assay.backends.agents.frameworks import agent as frameworks  # deferred import

    try:
        return frameworks.agent_from_object(agent, path, free=free)
    except frameworks.NotAnAgent:
        message = f"{frameworks.EXPECTED}, got {type(agent).__name__}"
        raise InvalidRequest(Problem(path, message)) from None


def duplicate_id(agents: Sequence[Agent], sources: Sequence[Any]) -> str | None:
    """
    An id that two different sources share, such as two lambdas. A text may be given twice: it means the same agent.
    """
    by_id: dict[str, Any] = {}
    for agent, source in zip(agents, sources, strict=True):
        if by_id.setdefault(agent.card.agent_id, source) is not source and not isinstance(source, str):
            return agent.card.agent_id
    return None


def agent_for(
    agent: Any,
    outputs: Any,
    trials: Any,
    settings: Settings,
    *,
    max_cost: float | None = None,
    cases: int | None = None,
) -> Agent | None:
    """
    The agent that answers the cases of an evaluation; None if they have outputs. Refuses both, and neither, and an
    agent that cannot do what the run needs.
    """
    problems: list[Problem] = []
    if agent is None and outputs is None:
        problems.append(
            Problem("outputs", "expected one output for each case, or an agent that answers them")
        )
    if agent is not None and outputs is not None:
        problems.append(Problem("outputs", "expected outputs or an agent, got both"))
    valid = isinstance(trials, int) and not isinstance(trials, bool) and 1 <= trials <= MAX_TRIALS
    if not valid or (agent is None and trials != 1):
        expected = f"a whole number from 1 to {MAX_TRIALS}" if agent is not None else "an agent to repeat"
        problems.append(Problem("trials", f"expected {expected}, got {trials!r}"))
    if problems:
        raise InvalidRequest(problems)
    if agent is None:
        return None
    subject = agent_from(agent, settings)
    check_needs(subject, RunNeeds(conversations=None if cases is None else cases * trials, max_cost=max_cost))
    return subject


def check_needs(agent: Agent, needs: RunNeeds) -> None:
    """Refuse a run that asks for what the agent cannot do."""
    if isinstance(agent, Limited) and (problems := agent.unmet(needs)):
        raise InvalidRequest(problems)


def empty_outputs(test_cases: Any) -> list[dict[str, Any]]:
    """An empty output for each case."""
    return [UNANSWERED] * len(test_cases) if hasattr(test_cases, "__len__") else []


async def agent_results(
    agent: Agent,
    plan: Plan,
    contexts: AsyncIterator[Context],
    tally: Tally,
    options: ExecutionOptions,
    settings: Settings,
    trials: int,
    timeout: float | None,
) -> AsyncGenerator[bytes]:
    """Ask the agent for each case, with the live tools of the settings, and yield the results in order."""
    from assay.fep.agent_runs.agent_output import AgentDependencies  # deferred import
    from assay.fep.agent_runs.agent_stream import stream_agent  # deferred import
    from assay.fep.records.run_header import AgentRequest  # deferred import

    tools = parts.toolbox(settings)
    request = AgentRequest(
        agent_id=agent.card.agent_id,
        agent_version=agent.card.version,
        trials=trials,
        seconds=timeout or settings.limits.task_seconds,
        max_cost=options.max_cost,
    )
    deps = AgentDependencies(agent=agent, tools=tools, request=request, plan=plan)
    options = options._replace(max_cost=None)
    try:
        with gc_rare():
            async with aclosing(stream_agent(deps, contexts, tally, options)) as lines:
                async for line in lines:
                    yield line
    finally:
        await agent.close()
        await tools.close()
