"""The agents of a tenant: those it registered by their address, and those of its packs."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, NotFound, Problem
from assay.ports import DeleteDocument, Document, PutDocument, RequireCount, Store, Transaction
from assay.ports.agents import Agent, PackAgents
from assay.ports.audit import audit_entry
from assay.protocol.agents import AgentCard, AgentRegistration, RegisteredAgent
from assay.protocol.manifest import AgentDefinition
from assay.runs.log_reader import read_documents

KIND = "registered-agent"
MOST = 200  # agents that a tenant may register
_read = msgspec.json.Decoder(AgentRegistration).decode
_encode = msgspec.json.Encoder().encode


class Endpoints(Protocol):
    """Makes agents of addresses."""

    def check(self, registration: AgentRegistration) -> None:
        """Refuse an address that this host does not ask."""
        ...

    def make(self, agent_id: str, registration: AgentRegistration) -> Agent: ...

    async def close(self) -> None: ...


class TenantAgents:
    """
    As the port `PackAgents`, with the registered agents. A registered agent comes before one of a pack with its id.

    The registrations are read from the store each time, so that every server and worker knows them at once.
    """

    def __init__(self, store: Store, packs: PackAgents, endpoints: Callable[[], Endpoints]) -> None:
        self._store, self._packs, self._open = store, packs, endpoints
        self._opened: Endpoints | None = None

    @property
    def _endpoints(self) -> Endpoints:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    async def cards(self, tenant: str) -> list[AgentCard]:
        own = [self._made(document).card async for document in read_documents(self._store, tenant, KIND)]
        return await merge_cards(own, await self._packs.cards(tenant))

    async def get(self, tenant: str, agent_id: str, version: str | None = None) -> Agent | None:
        document = await self._store.document(tenant, KIND, agent_id)
        if document is not None:
            agent = self._made(document)
            if version is None or agent.card.version == version:
                return agent
        return await self._packs.get(tenant, agent_id, version)

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        document = await self._store.document(tenant, KIND, agent_id)
        versions = await self._packs.versions(tenant, agent_id)
        return versions if document is None else [_read(document.data).version, *versions]

    def restore(self, definition: AgentDefinition) -> Agent:
        return self._packs.restore(definition)

    async def close(self) -> None:
        await self._packs.close()
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def register(
        self, tenant: str, agent_id: str, registration: AgentRegistration
    ) -> tuple[RegisteredAgent, bool]:
        """Store the agent, or replace it. Also: whether it is new. InvalidRequest: its address is not allowed."""
        self._endpoints.check(registration)
        known = await self._store.document(tenant, KIND, agent_id)
        counted: list[RequireCount] = []
        if known is None:
            many = len([key async for key in read_documents(self._store, tenant, KIND)])
            if many >= MOST:
                raise InvalidRequest(
                    Problem(
                        "agentId", f"expected at most {MOST} agents of a tenant: remove one that is not used"
                    )
                )
            counted = [RequireCount(tenant=tenant, kind=KIND, count=many)]
        version = 0 if known is None else known.version
        put = PutDocument(tenant=tenant, kind=KIND, key=agent_id, data=_encode(registration), version=version)
        line = audit_entry(tenant, "agent.register", agent_id)
        await self._store.commit(Transaction(documents=[put], lines=[line], requires=counted))
        return await self.registered(tenant, agent_id), known is None

    async def remove(self, tenant: str, agent_id: str) -> RegisteredAgent:
        """Remove an agent. Runs that are in flight cannot ask it any more."""
        document = await self._document(tenant, agent_id)
        gone = DeleteDocument(tenant=tenant, kind=KIND, key=agent_id, version=document.version)
        line = audit_entry(tenant, "agent.remove", agent_id)
        await self._store.commit(Transaction(documents=[gone], lines=[line]))
        return _shown(document)

    async def registered(self, tenant: str, agent_id: str) -> RegisteredAgent:
        return _shown(await self._document(tenant, agent_id))

    async def list(self, tenant: str) -> list[RegisteredAgent]:
        return [_shown(one) async for one in read_documents(self._store, tenant, KIND)]

    async def _document(self, tenant: str, agent_id: str) -> Document:
        document = await self._store.document(tenant, KIND, agent_id)
        if document is None:
            raise NotFound(f"there is no registered agent {agent_id[:256]!r}")
        return document

    def _made(self, document: Document) -> Agent:
        return self._endpoints.make(document.key, _read(document.data))


def _shown(document: Document) -> RegisteredAgent:
    found = _read(document.data)
    members = {
        name: getattr(found, name) for name in AgentRegistration.__struct_fields__ if name != "headers"
    }
    names = tuple(sorted(found.headers))
    return RegisteredAgent(
        agent_id=document.key, registered_at=document.updated, header_names=names, **members
    )


async def merge_cards(first: Sequence[AgentCard], others: list[AgentCard]) -> list[AgentCard]:
    """These cards, and the others whose ids they do not have; by id, as the others are. There may be 100,000."""

    def merge() -> list[AgentCard]:
        merged = {card.agent_id: card for cards in (others, first) for card in cards}
        return [merged[id] for id in sorted(merged)]

    return await in_thread(merge) if first else others
