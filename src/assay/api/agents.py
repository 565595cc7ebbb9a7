"""Agents as the library takes them: a function, an Agent, or the text that `assay run --agent` takes."""

from collections.abc import Callable, Sequence
from typing import Any

from assay import app
from assay.errors import InvalidRequest, Problem
from assay.ports.agents import Agent
from assay.settings import Settings

AgentLike = Agent | Callable[..., Any] | str


def agent_from(agent: Any, settings: Settings, *, place: str = "agent", free: bool = False) -> Agent:
    """An Agent stays one, a function becomes one, a text is resolved as `--agent` is. `place` is the argument that a refusal names."""
    if isinstance(agent, str):
        return app.resolve_agent(agent, settings)
    if hasattr(agent, "invoke") and hasattr(agent, "card"):
        return agent
    if callable(agent) and not hasattr(agent, "invoke"):
        from assay.backends.agents.callable import agent_from_callable  # deferred import

        return agent_from_callable(agent, free=free)
    message = (
        f"expected a function, an Agent, or its id or specification as a text, got {type(agent).__name__}"
    )
    raise InvalidRequest(Problem(place, message))


def repeated_id(agents: Sequence[Agent], sources: Sequence[Any]) -> str | None:
    """An id that two different sources share, such as two lambdas. A text may be given twice: it means the same agent."""
    by_id: dict[str, Any] = {}
    for agent, source in zip(agents, sources, strict=True):
        if by_id.setdefault(agent.card.agent_id, source) is not source and not isinstance(source, str):
            return agent.card.agent_id
    return None
