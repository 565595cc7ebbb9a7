"""Agents that were handed over, before those that are declared."""

from collections.abc import Iterable

from assay.ports.agents import Agent, Agents
from assay.protocol.agents import AgentCard


class AgentOverlay:
    """By their own ids. What it did not make it does not close; `behind` is asked for everybody else."""

    def __init__(self, agents: Iterable[Agent], behind: Agents) -> None:
        self._given = {agent.card.agent_id: agent for agent in agents}
        self._behind = behind

    def cards(self) -> list[AgentCard]:
        others = [card for card in self._behind.cards() if card.agent_id not in self._given]
        return [*(agent.card for agent in self._given.values()), *others]

    def get(self, agent_id: str) -> Agent | None:
        return self._given.get(agent_id) or self._behind.get(agent_id)

    async def close(self) -> None:
        await self._behind.close()
