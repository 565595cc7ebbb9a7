"""Agents passed by the caller, in front of the configured ones."""

from collections.abc import Iterable

from assay.ports.agents import Agent, Agents
from assay.protocol.agents import AgentCard


class AgentOverlay:
    """Looks up the passed agents first, then `fallback`. It closes only `fallback`."""

    def __init__(self, agents: Iterable[Agent], fallback: Agents) -> None:
        self._agents = {agent.card.agent_id: agent for agent in agents}
        self._fallback = fallback

    def cards(self) -> list[AgentCard]:
        others = [card for card in self._fallback.cards() if card.agent_id not in self._agents]
        return [*(agent.card for agent in self._agents.values()), *others]

    def get(self, agent_id: str) -> Agent | None:
        return self._agents.get(agent_id) or self._fallback.get(agent_id)

    async def close(self) -> None:
        await self._fallback.close()
