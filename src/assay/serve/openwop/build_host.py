"""Builds the OpenWOP host: discovery and refusals are derived from the same features."""

from collections.abc import Mapping
from types import MappingProxyType

from assay.agenteval.planning.modes import available_modes
from assay.agenteval.planning.run_header import KIND
from assay.agenteval.scoring.safety import offers_adversarial
from assay.agenteval.scoring.scoring import no_judge
from assay.agenteval.service import AgentEvalService
from assay.agenteval.suites.suite_store import SuiteResolver, SuiteStore, pack_reader
from assay.packs.store import PackService, PackStore
from assay.ports import Limits, Store
from assay.ports.config import PackKeyConfig
from assay.promotion.service import PromotionService
from assay.protocol.agents import AgentCard
from assay.serve.openwop.deployments import DeploymentRuns, deployment_capability
from assay.serve.openwop.eval_runs import EvalRuns
from assay.serve.openwop.features import OpenWopFeatures
from assay.serve.openwop.host import Capabilities, EvalCapability, OpenWopHost, RunResource
from assay.serve.openwop.supplied import supplied
from assay.serve.openwop.workflows import WorkflowRuns
from assay.serve.web.limit_settings import ServerLimits
from assay.version import __version__
from assay.workflow.service import WorkflowService
from assay.workflow.supported_phases import HostInfo

NO_KEYS: Mapping[str, PackKeyConfig] = MappingProxyType({})


def build_host(
    store: Store,
    evals: AgentEvalService,
    features: OpenWopFeatures,
    serving: ServerLimits,
    limits: Limits,
    workflows: WorkflowService | None = None,
    host: HostInfo = HostInfo(),  # noqa: B008  # a value
    pack_keys: Mapping[str, PackKeyConfig] = NO_KEYS,
    promotions: PromotionService | None = None,
) -> OpenWopHost:
    """A kind of run stays readable when its feature is off: existing runs can still be read."""
    suites, packs = SuiteStore(store), PackStore(store, max_packs=limits.max_packs)
    kinds: dict[str, RunResource] = {KIND: EvalRuns(evals, SuiteResolver(suites, packs))}
    workflow_runs = (
        None if workflows is None else WorkflowRuns(workflows, host._replace(replay=features.offer_replay))
    )
    if workflow_runs is not None:
        kinds[workflow_runs.name] = workflow_runs

    if promotions is not None:
        kinds[DeploymentRuns.name] = DeploymentRuns(promotions)
    offered = promotions if features.offer_deployments else None

    def cards() -> list[AgentCard]:
        return evals.dependencies.agents.cards() if features.offer_agents else []

    def capabilities() -> Capabilities:
        runs_workflows = workflow_runs is not None and features.offer_workflows
        sources = (("run-api", features.offer_evals), ("workflow-node", runs_workflows))
        has_judge = no_judge(evals.dependencies.services.providers, None) is None
        limits_of_evals = evals.dependencies.limits
        eval_capability = EvalCapability(
            modes=tuple(
                available_modes(
                    judge=has_judge,
                    detectors=offers_adversarial(
                        evals.dependencies.registry, evals.dependencies.policy, judge=has_judge
                    ),
                )
            ),
            max_tasks=limits_of_evals.max_tasks,
            max_cost_usd=limits_of_evals.max_cost_usd,
        )
        return Capabilities(
            version=__version__,
            max_body_bytes=min(serving.max_body_bytes, serving.max_document_bytes),
            max_run_ms=max(1000, int(limits.run_seconds * 1000)),
            evals=eval_capability if features.offer_evals else None,
            agents=features.offer_agents,
            live=tuple(source for source, enabled in sources if enabled),
            deployment=None if offered is None else deployment_capability(),
            feedback=features.offer_feedback,
            replay=("replay", "branch") if features.offer_replay else (),
            usage=features.offer_evals,
            **({} if workflow_runs is None or not features.offer_workflows else workflow_runs.capabilities()),
        )

    openwop = OpenWopHost(
        store,
        kinds,
        capabilities,
        suites=suites,
        evals=KIND if features.offer_evals else None,
        workflows=workflow_runs.name if workflow_runs is not None and features.offer_workflows else None,
        feedback=features.offer_feedback,
        replay=features.offer_replay,
        cards=cards,
        tenant_agents=evals.dependencies.packs,
        packs=PackService(
            packs, pack_reader(pack_keys, limits, supplied(features)), offered=features.offer_packs
        ),
        agents=features.offer_agents,
        promotions=offered,
    )
    evals.dependencies.progress.tell = lambda run, data: openwop.feeds.publish(run, "progress", data)
    return openwop
