"""Agents passed by the caller, in front of the configured ones."""

from collections.abc import Iterable

from assay.ports.agents import Agent, Agents
from assay.protocol.agents import AgentCard


class AgentOverlay:
    """Looks up the passed agents first, then `behind`. It closes only `behind`."""

    def __init__(self, agents: Iterable[Agent], behind: Agents) -> None:
        self._agents = {agent.card.agent_id: agent for agent in agents}
        self._behind = behind

    def cards(self) -> list[AgentCard]:
        others = [card for card in self._behind.cards() if card.agent_id not in self._agents]
        return [*(agent.card for agent in self._agents.values()), *others]

    def get(self, agent_id: str) -> Agent | None:
        return self._agents.get(agent_id) or self._behind.get(agent_id)

    async def close(self) -> None:
        await self._behind.close()
