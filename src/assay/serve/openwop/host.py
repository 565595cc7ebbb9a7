"""The OpenWOP host: the kinds of run it offers, their feeds, and the snapshot of a run (openwop-contract §3.3)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET, Struct

from assay.agenteval.suites.suite_store import SuiteStore
from assay.agents.registered import TenantAgents, merge_cards
from assay.errors import InvalidRequest, NotFound, Problem
from assay.packs.store import PackService
from assay.ports import Principal, PutDocument, Run, Store
from assay.promotion.service import PromotionService
from assay.protocol.agents import AgentCard
from assay.protocol.runs import ForkRequest, RunRequest
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.events_feed import RunFeeds
from assay.serve.web.request import NAME, HttpRequest

# The capabilities that a host advertises over OpenWOP (openwop-contract §1.1).


class EvalCapability(Struct, frozen=True, kw_only=True):
    modes: tuple[str, ...]
    max_tasks: int
    max_cost_usd: float | None = None


class Capabilities(Struct, frozen=True, kw_only=True):
    """The capabilities that are enabled and work; None and false are left out of the document."""

    version: str
    max_body_bytes: int
    max_run_ms: int
    evals: EvalCapability | None = None
    agents: bool = False  # the inventory, which is that of the tenant (openwop-contract §7.7)
    live: tuple[str, ...] = ()  # how agents can be invoked (RFC 0077)
    deployment: dict[str, Any] | None = None  # states, channels
    feedback: bool = False
    replay: tuple[str, ...] = ()
    usage: bool = False
    fixtures: tuple[str, ...] = ()
    agents_more: dict[str, Any] = {}  # orchestrator, dispatch, dispatchMapping, subRunAttestation
    execution_model: dict[str, Any] | None = None
    limits: dict[str, int] = {}  # maxNodeExecutions, maxLoopIterations
    memory: bool = False
    envelopes: tuple[str, ...] = ()
    seeded: bool = False


class NewRun(NamedTuple):
    """What a run gets from the request that creates it. `documents` are written when it is complete."""

    id: str
    principal: Principal
    holder: str
    documents: Sequence[PutDocument] = ()


class RunResource(Protocol):
    """A kind of run that can be started, forked and read over OpenWOP."""

    async def open(self, request: RunRequest, new: NewRun) -> Run:
        """Plan and store a run. It is pending, and leased by the holder. A refused request has no effect."""
        ...

    async def fork(self, source: Run, request: ForkRequest, new: NewRun) -> Run:
        """The copy: ended like its source, or leased by the holder to continue."""
        ...

    async def snapshot(self, run: Run) -> dict[str, Any]:
        """The members of the RunSnapshot that belong to this kind."""
        ...


class OpenWopHost:
    """
    The state of OpenWOP's routes in one process.

    `evals` and `workflows` are the names of these kinds, if they are offered; `capabilities` makes the discovery
    document.
    """

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, RunResource],
        capabilities: Callable[[], Capabilities],
        *,
        suites: SuiteStore,
        evals: str | None = None,
        workflows: str | None = None,
        feedback: bool = True,
        replay: bool = True,
        cards: Callable[[], list[AgentCard]] = list,
        tenant_agents: TenantAgents | None = None,
        packs: PackService | None = None,
        agents: bool = True,
        promotions: PromotionService | None = None,
    ) -> None:
        self.store, self.kinds, self.capabilities = store, kinds, capabilities
        self.evals, self.workflows, self.suites, self.cards = evals, workflows, suites, cards
        self.feedback, self.replay = feedback, replay
        self.promotions = promotions  # None: deployments are not offered
        self.packs, self.offers_agents, self.tenant_agents = packs, agents, tenant_agents
        self.feeds = RunFeeds(store, annotations=feedback)

    async def tenant_cards(self, tenant: str) -> list[AgentCard]:
        """The agents of the host, and those of the tenant whose ids the host does not have; by id."""
        others = (
            await self.tenant_agents.cards(tenant)
            if self.tenant_agents is not None and self.offers_agents
            else []
        )
        return await merge_cards(self.cards(), others)

    async def tenant_card(self, tenant: str, agent_id: str) -> AgentCard | None:
        """One of `tenant_cards`."""
        found = next((card for card in self.cards() if card.agent_id == agent_id), None)
        if found is None and self.tenant_agents is not None and self.offers_agents:
            agent = await self.tenant_agents.get(tenant, agent_id)
            found = None if agent is None else agent.card
        return found

    def stop(self) -> None:
        self.feeds.close()

    def kind_for(self, request: RunRequest) -> RunResource:
        """The kind that `mode` asks for: an eval or a workflow (openwop-contract §3.2, steps 3 and 4)."""
        if request.mode is not UNSET:
            if request.mode != "eval":
                raise InvalidRequest(
                    Problem("mode", f"expected 'eval' or nothing, got {request.mode[:40]!r}")
                )
            if self.evals is None:
                raise NotProvided("agents.evalSuite")
            return self.kinds[self.evals]
        if request.workflow_id is UNSET:
            raise InvalidRequest(Problem("workflowId", "expected the id of a workflow, or mode 'eval'"))
        if self.workflows is None:
            raise InvalidRequest(Problem("workflowId", f"there is no workflow {request.workflow_id[:128]!r}"))
        return self.kinds[self.workflows]


def host_of(call: HttpRequest) -> OpenWopHost:
    return call.server.resource(OpenWopHost)


async def run_of(call: HttpRequest, host: OpenWopHost, id: str | None = None) -> Run:
    """The run that the path names, of the caller's tenant and of a kind that OpenWOP has."""
    call.target = id = call.run_id if id is None else id
    if NAME.fullmatch(id):
        run = await call.server.executor.get(id, call.tenant)
        if run.kind in host.kinds:
            return run
    raise NotFound(f"there is no run {id[:128]!r}")


async def snapshot(host: OpenWopHost, run: Run) -> dict[str, Any]:
    """A RunSnapshot."""
    document: dict[str, Any] = {"runId": run.id, "workflowId": run.name, "status": run.status}
    for name, moment in (("startedAt", run.started), ("completedAt", run.ended)):
        if moment is not None:
            document[name] = moment.isoformat().replace("+00:00", "Z")
    if run.erased:
        return document  # the other members are content, or were stored with it
    return document | await host.kinds[run.kind].snapshot(run)
