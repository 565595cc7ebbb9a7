"""The versions of agents that a tenant can run: those of the host, else those of the tenant's packs."""

from assay.ports.agents import Agent, Agents, PackAgents, VersionedAgent, agent_at


class InstalledVersions:
    """An agent of the host has the version of its card, unless it has several."""

    def __init__(self, agents: Agents, packs: PackAgents | None) -> None:
        self._agents, self._packs = agents, packs

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        """The installed versions; none: there is no such agent."""
        agent = self._agents.get(agent_id)
        if isinstance(agent, VersionedAgent):
            return list(agent.versions)
        if agent is not None:
            return [agent.card.version]
        return [] if self._packs is None else await self._packs.versions(tenant, agent_id)

    async def get(self, tenant: str, agent_id: str, version: str) -> Agent | None:
        agent = self._agents.get(agent_id)
        if agent is not None:
            return agent_at(agent, version)
        return None if self._packs is None else await self._packs.get(tenant, agent_id, version)
