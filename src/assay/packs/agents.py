"""The agents of installed packs. How one is made of its definition is the host's business: it has the models."""

from collections.abc import Callable

from assay.concurrency.tenant_threads import in_thread
from assay.packs.store import PackStore
from assay.ports.agents import Agent
from assay.protocol.agents import AgentCard
from assay.protocol.manifest import AgentDefinition
from assay.protocol.versions import precedence


class InstalledAgents:
    """The agents of each tenant's packs."""

    def __init__(self, packs: PackStore, make: Callable[[AgentDefinition], Agent]) -> None:
        self._packs, self._make = packs, make

    async def cards(self, tenant: str) -> list[AgentCard]:
        """The cards of all agents, each of the highest version of its pack, by id."""
        best: dict[str, AgentCard] = {}
        async for page in self._packs.agent_pages(tenant):
            for card in await in_thread(lambda page=page: [self._make(one).card for one in page]):
                known = best.get(card.agent_id)
                if known is None or precedence(card.version) > precedence(known.version):
                    best[card.agent_id] = card
        return await in_thread(lambda: [best[id] for id in sorted(best)])

    async def get(self, tenant: str, agent_id: str, version: str | None = None) -> Agent | None:
        definition = await self._packs.agent(tenant, agent_id, version)
        return None if definition is None else self._make(definition)

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        return await self._packs.agent_versions(tenant, agent_id)

    def restore(self, definition: AgentDefinition) -> Agent:
        """The agent of a run, from the definition that the run stores."""
        return self._make(definition)
