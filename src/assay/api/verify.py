"""`assay.verify`: an actor works on a task until its critics pass the result (RFC 0090)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from assay.api.agents import AgentLike, agent_from, duplicate_id
from assay.errors import InvalidRequest, Problem
from assay.host import parts
from assay.ports import LOCAL_TENANT, Principal
from assay.protocol.verification import Verification
from assay.settings import load


async def verify(
    actor: AgentLike,
    critic: AgentLike | Sequence[AgentLike] | None,
    task: Any,
    *,
    criteria: Sequence[str] | Mapping[str, dict[str, Any]] = (),
    max_turns: int = 5,
    gating: bool = True,
    on_fail: Literal["escalate", "retry", "give-up"] = "escalate",
    failing: Literal["revise", "fail"] = "revise",
) -> Verification:
    """
    Let an actor work on a task until its critics pass the result. Only a result that passed is committed.

    Actor and critics are functions, Agents, or texts as `--agent` takes them. `criteria` are keys, or keys with the
    check that decides each; then those checks are a critic too, and `critic` may be None. A result that needs a
    person's decision leaves the run in a waiting status, and nothing is committed.
    """
    from assay.backends.stores.memory import MemoryStore  # deferred import
    from assay.workflow.loop_settings import read_loop  # deferred import
    from assay.workflow.verification_report import verification_of  # deferred import

    settings = load()
    sources: list[Any] = [actor] if critic is None else [actor, critic]
    if isinstance(critic, list | tuple):
        sources = [actor, *critic]  # pyright: ignore[reportUnknownArgumentType]
    agents = [
        agent_from(source, settings, path="critic" if at else "actor") for at, source in enumerate(sources)
    ]
    if (repeated := duplicate_id(agents, sources)) is not None:
        message = f"two functions have the id {repeated}; rename one of them"
        raise InvalidRequest(Problem("critic", message))
    ids = [agent.card.agent_id for agent in agents]
    table: dict[str, Any] = {
        "actor": ids[0],
        "critics": ids[1:],
        "criteria": dict(criteria) if isinstance(criteria, Mapping) else list(criteria),
        "max_turns": max_turns,
        "gating": gating,
        "on_fail": on_fail,
        "failing": failing,
    }
    loops = {"verify": read_loop("verify", table)}
    async with parts.open_workflows(settings, MemoryStore(), agents, loops) as (workflows, executor):
        run = await workflows.start(Principal(tenant=LOCAL_TENANT, id="library"), "verify", {"task": task})
        ended = await executor.wait(run.id)
        return await verification_of(workflows.store, ended, workflows.environment)
