"""A host's run surface, from what it has: what discovery says and what is refused come from the same place."""

from importlib.metadata import version

from assay.agenteval.judging import no_judge
from assay.agenteval.modes import offered
from assay.agenteval.run_header import KIND
from assay.agenteval.service import AgentEvalService
from assay.agenteval.suite_store import SuiteStore
from assay.ports import Limits, Store
from assay.protocol.agents import AgentCard
from assay.serve.openwop.capabilities import Capabilities, EvalCapability
from assay.serve.openwop.evals import EvalRuns
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.openwop.host import OpenWopHost, RunResource
from assay.serve.openwop.workflows import WorkflowRuns
from assay.serve.web.limits import ServerLimits
from assay.workflow.execution_model import HostInfo
from assay.workflow.service import WorkflowService


def build_host(
    store: Store,
    evals: AgentEvalService,
    offering: OpenWopFeatures,
    serving: ServerLimits,
    limits: Limits,
    room: WorkflowService | None = None,
    host: HostInfo = HostInfo(),  # noqa: B008  # a value
) -> OpenWopHost:
    """The kinds stay known where their family is off: a run that is there can be read."""
    shelf = SuiteStore(store)
    kinds: dict[str, RunResource] = {KIND: EvalRuns(evals, shelf)}
    flows = None if room is None else WorkflowRuns(room, host._replace(replay=offering.offer_replay))
    if flows is not None:
        kinds[flows.name] = flows

    def cards() -> list[AgentCard]:
        return evals.dependencies.agents.cards() if offering.offer_agents else []

    def offer() -> Capabilities:
        flowing = flows is not None and offering.offer_workflows
        ways = (("run-api", offering.offer_evals), ("workflow-node", flowing))
        judged = no_judge(evals.dependencies.services.providers, {}) is None
        own = evals.dependencies.limits
        asked = EvalCapability(
            modes=tuple(offered(judge=judged)), max_tasks=own.max_tasks, max_cost_usd=own.max_cost_usd
        )
        return Capabilities(
            version=version("assay"),
            max_body_bytes=serving.max_body_bytes,
            max_run_ms=max(1000, int(limits.run_seconds * 1000)),
            evals=asked if offering.offer_evals else None,
            agents=bool(cards()),
            live=tuple(way for way, there in ways if there),
            feedback=offering.offer_feedback,
            replay=("replay", "branch") if offering.offer_replay else (),
            usage=offering.offer_evals,
            **({} if flows is None or not offering.offer_workflows else flows.offer()),
        )

    built = OpenWopHost(
        store,
        kinds,
        offer,
        shelf=shelf,
        evals=KIND if offering.offer_evals else None,
        workflows=flows.name if flows is not None and offering.offer_workflows else None,
        feedback=offering.offer_feedback,
        replay=offering.offer_replay,
        cards=cards,
    )
    evals.dependencies.progress.tell = lambda run, data: built.feeds.tell(run, "progress", data)
    return built
