"""The agents of installed packs. How one is made of its definition is the host's business: it has the models."""

from collections.abc import Callable

from assay.packs.store import PackStore
from assay.ports.agents import Agent
from assay.protocol.agents import AgentCard
from assay.protocol.manifest import AgentDefinition


class InstalledAgents:
    """The agents of each tenant's packs."""

    def __init__(self, packs: PackStore, make: Callable[[AgentDefinition], Agent]) -> None:
        self._packs, self._make = packs, make

    async def cards(self, tenant: str) -> list[AgentCard]:
        return [self._make(one).card for one in await self._packs.agents(tenant)]

    async def get(self, tenant: str, agent_id: str, version: str | None = None) -> Agent | None:
        definition = await self._packs.agent(tenant, agent_id, version)
        return None if definition is None else self._make(definition)

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        return await self._packs.agent_versions(tenant, agent_id)

    def restore(self, definition: AgentDefinition) -> Agent:
        """The agent of a run, from the definition that the run stores."""
        return self._make(definition)
