"""
The composition root: it builds the parts of a host from settings and joins ports with backends.

The library, the command and the server share it. A part is imported when it is built, as most runs need few.
`open_workflows` opens the part that one run needs; `host.open_runtime` opens a whole host.
"""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.backends.provider_config import LazyProviders, ProviderPolicy
from assay.checks import STANDARD
from assay.checks.registry import Registry, from_module, installed_checkers
from assay.concurrency.workers import pool
from assay.extras import missing_extra, require
from assay.ports import Cipher, Provider, Providers, RepeatCounter, Secret, Services, Store
from assay.ports.agents import Agent, Agents, PackAgents, ToolBox
from assay.ports.batches import BatchOptions
from assay.ports.config import SafetyPolicy, VerifierLoopConfig
from assay.ports.kinds import RunKind
from assay.ports.telemetry import Tracer
from assay.protocol.agents import AgentCard
from assay.settings import Settings, fixtures_enabled

if TYPE_CHECKING:
    from assay.agenteval.service import AgentEvalService
    from assay.agents.registered import TenantAgents
    from assay.backends.agents.from_settings import ConfiguredAgents
    from assay.fep.planning.plan import Plan
    from assay.ports.verdicts import VerdictReceiver
    from assay.promotion.records import AgentRecords
    from assay.promotion.service import PromotionService
    from assay.runs.executor import RunExecutor
    from assay.traces.span_receiver import SpanReceiver
    from assay.workflow.interpreter import ExecutionEnvironment

Environment = Mapping[str, str] | None
TRACED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def registry(settings: Settings, modules: Iterable[str] = ()) -> Registry:
    """The standard checks, those of installed packages, and those that the operator names."""
    named = [from_module(spec) for spec in (*settings.check_modules, *modules)]
    return STANDARD.with_checks([*installed_checkers(), *named])


def verdict_receivers(settings: Settings) -> "dict[str, dict[str, VerdictReceiver]]":
    """Where the verdicts of projects of traces go, by project and by what `to` says."""
    if not any(one.targets or one.headers for one in settings.traces.values()):
        return {}
    from assay.backends.verdicts import from_settings  # deferred import: most hosts send none

    return from_settings.verdict_receivers(settings.traces, os.environ)


def services(
    settings: Settings,
    policy: ProviderPolicy | None = None,
    *,
    cache: bool = False,
    batch: BatchOptions | None = None,
) -> Services:
    """The services of one run. `policy.seconds` bounds a check; without a policy the settings do."""
    policy = policy or ProviderPolicy(seconds=settings.limits.check_seconds)
    pool.resize(settings.worker_processes)
    return Services(
        limits=settings.limits,
        providers=LazyProviders(lambda: providers(settings, policy, cache=cache, batch=batch)),
        repeats=RepeatCounter() if cache else None,
        allow_python_code=settings.allow_python_code,
        persists_requests=not policy.trusted,
        batch_budget=None if batch is None else batch.budget,
    )


def providers(
    settings: Settings,
    policy: ProviderPolicy,
    *,
    cache: bool = False,
    environment: Environment = None,
    batch: BatchOptions | None = None,
) -> Providers:
    """The providers of the settings; keys in the environment add `openai` and `anthropic`."""
    from assay.backends.models.cached import DiskCache  # deferred import
    from assay.backends.providers import ConfiguredProviders  # deferred import: most runs call no model

    environment = os.environ if environment is None else environment
    configured = dict(settings.providers)
    key, url = environment.get("OPENAI_API_KEY"), environment.get("OPENAI_BASE_URL")
    if key or url:
        openai = Provider(name="openai", base_url=url or None, api_key=Secret(key) if key else None)
        configured.setdefault("openai", openai)
    if key := environment.get("ANTHROPIC_API_KEY"):
        url = environment.get("ANTHROPIC_BASE_URL")
        anthropic = Provider(name="anthropic", kind="anthropic", base_url=url or None, api_key=Secret(key))
        configured.setdefault("anthropic", anthropic)
    disk = DiskCache(Path(settings.home) / "cache") if cache else None
    return ConfiguredProviders(
        configured, settings.models, environment=environment, policy=policy, cache=disk, batch=batch
    )


@asynccontextmanager
async def store(settings: Settings, *, sealing: bool = True, light: bool = False) -> AsyncGenerator[Store]:
    """
    Open the store of this host, migrate it, and close it at the end.

    Without `sealing` it decrypts, and encrypts nothing.

    `light`: for commands that read or run little, and start faster with a light store.
    """
    from assay.auth.local_key import default_database_url  # deferred import
    from assay.backends.stores.open import open_light_store, open_store  # deferred import

    address = settings.database_url or default_database_url(Path(settings.home))
    if light:
        opened = await open_light_store(address, cipher=cipher(settings))
    else:
        opened = await open_store(address, cipher=cipher(settings), sealing=sealing)
    try:
        yield opened
    finally:
        await opened.close()


def cipher(settings: Settings) -> Cipher | None:
    """The cipher that encrypts the store at rest, if the settings have a key."""
    if settings.evidence_key is None:
        return None
    try:
        from assay.backends.keyring import KeyRing, read_keys  # deferred import: the extra `guard`
    except ModuleNotFoundError as error:
        raise missing_extra("the setting evidence_key", "guard", error=error) from error
    return KeyRing(read_keys(settings.evidence_key))


def agents(settings: Settings, providers: Providers | None = None) -> Agents:
    """The agents of `[agents]`. They share `providers` with judges, and so the limits of a provider."""
    return _configured_agents(settings, providers)


def resolve_agent(spec: str, settings: Settings, providers: Providers | None = None) -> Agent:
    """The agent that `--agent SPEC` means: one of the settings by its id, else as described. Not for requests."""
    return _configured_agents(settings, providers).resolve(spec)


def agent_card(spec: str, settings: Settings) -> AgentCard:
    """The card of the agent that `--agent SPEC` means. The agent need not have a model."""
    return _configured_agents(settings, None).card_of(spec)


def _configured_agents(settings: Settings, models: Providers | None) -> "ConfiguredAgents":
    from assay.backends.agents.from_settings import ConfiguredAgents  # deferred import

    if models is None:
        policy = ProviderPolicy(seconds=settings.limits.run_seconds)
        models = LazyProviders(lambda: providers(settings, policy))
    return ConfiguredAgents(settings.agents, models=settings.models, providers=models)


def tenant_agents(settings: Settings, store: Store, providers: Providers | None = None) -> "TenantAgents":
    """The registered agents and those of packs in a store. `[models]` has the models of their classes."""
    from assay.agents.registered import Endpoints, TenantAgents  # deferred import
    from assay.packs.store import InstalledAgents, PackStore  # deferred import

    def endpoints() -> Endpoints:
        require("an agent behind a URL", "agents", package="aiohttp")
        from assay.backends.agents.endpoints import AllowedEndpoints  # deferred import: an extra

        return AllowedEndpoints(settings.agent_hosts)

    packs = InstalledAgents(PackStore(store), _configured_agents(settings, providers).from_definition)
    return TenantAgents(store, packs, endpoints)


def toolbox(settings: Settings) -> ToolBox:
    """The live tools of `[tools]` and `[mcp]`."""
    from assay.backends.tools.from_settings import ConfiguredTools  # deferred import

    return ConfiguredTools(settings.tools, settings.mcp)


def build_workflows(
    settings: Settings,
    store: Store,
    registry: Registry,
    services: Services,
    agents: Agents,
    loops: Mapping[str, VerifierLoopConfig] | None = None,
) -> "tuple[RunKind, Callable[[RunExecutor], Any]]":
    """
    Workflows as a kind of run, and a function that makes their WorkflowService for an executor.

    They are those of `[workflows]`, or `loops`, and the fixtures of the conformance suite where those are enabled. The
    type of the service is not named here, so that the package loads only when it is used.
    """
    from assay.backends.agents.spec import AgentOverlay  # deferred import
    from assay.seams.actions import SAMPLE_AGENTS  # deferred import
    from assay.seams.sample_workflows import samples  # deferred import
    from assay.workflow.activities import ActivityRunner  # deferred import
    from assay.workflow.critics import Critics  # deferred import
    from assay.workflow.kind import WorkflowKind  # deferred import
    from assay.workflow.loop_settings import library  # deferred import
    from assay.workflow.service import WorkflowService  # deferred import

    if fixtures_enabled():
        agents = AgentOverlay(SAMPLE_AGENTS, agents)
    environment = execution_environment(settings)
    fixtures = samples().values() if fixtures_enabled() else ()
    workflows = library(settings.workflows if loops is None else loops, fixtures, environment.nodes)
    critics = Critics(agents, registry, services, seconds=settings.limits.check_seconds)
    activities = ActivityRunner(
        store, workflows, agents, critics, services, toolbox(settings), environment=environment
    )
    kind = WorkflowKind(activities, environment, services.clock)

    def connect(executor: "RunExecutor") -> WorkflowService:
        activities.executor = executor
        return WorkflowService(store, executor, kind, workflows, critics, services.clock)

    return kind, connect


def execution_environment(settings: Settings) -> "ExecutionEnvironment":
    """The limits of the settings and all node types, test-only ones too: recorded runs stay readable."""
    from assay.seams.sample_workflows import SEAM_NODES  # deferred import
    from assay.workflow.interpreter import ExecutionEnvironment  # deferred import
    from assay.workflow.nodes import NODES  # deferred import
    from assay.workflow.state.execution_state import ExecutionLimits  # deferred import

    return ExecutionEnvironment(ExecutionLimits.of(settings.limits), NODES | SEAM_NODES)


def build_evals(
    settings: Settings,
    store: Store,
    registry: Registry,
    services: Services,
    agents: Agents,
    checks: "Plan | None" = None,
    *,
    pack_tools: bool = True,
    policy: SafetyPolicy | None = None,
    spans: "SpanReceiver | None" = None,
) -> "AgentEvalService":
    """The service for agent evals, with the live tools of the settings and the providers that judges use."""
    from assay.agenteval.kind import EvalDependencies  # deferred import
    from assay.agenteval.planning.request import limits_of  # deferred import
    from assay.agenteval.service import AgentEvalService  # deferred import
    from assay.checks.safety.tool_policy import policy_document  # deferred import
    from assay.workflow.agent_memory import live_memory  # deferred import

    price = None
    if spans is not None:
        from assay.backends.models.prices import published_cost  # deferred import

        price = published_cost
    dependencies = EvalDependencies(
        agents=agents,
        packs=tenant_agents(settings, store, services.providers),
        registry=registry,
        services=services,
        tools=toolbox(settings),
        memory=lambda tenant, agent: live_memory(store, services.clock, tenant, agent),
        limits=limits_of(settings.limits),
        checks=checks,
        spans=spans,
        price=price,
        pack_tools=pack_tools,
        policy=policy_document(settings.safety if policy is None else policy, "settings: safety."),
    )
    return AgentEvalService(store, dependencies)


def build_executor(
    settings: Settings, store: Store, kinds: Iterable[RunKind], *, attempts: int | None = None
) -> "RunExecutor":
    """An executor in this process for these kinds of run; it is not open yet."""
    from assay.backends.engines.local import LocalEngine  # deferred import
    from assay.runs.executor import RunExecutor  # deferred import

    by_name = {kind.name: kind for kind in kinds}
    engine = LocalEngine(lambda name, unit: by_name[name].perform(unit), settings.concurrency)
    return RunExecutor(store, engine, by_name, attempts=attempts)


class WorkflowRuntime(NamedTuple):
    """The parts that run workflows in this process."""

    service: Any  # a `workflow.service.WorkflowService`
    executor: "RunExecutor"


@asynccontextmanager
async def open_workflows(
    settings: Settings,
    store: Store,
    extra_agents: Iterable[Agent] = (),
    loops: Mapping[str, VerifierLoopConfig] | None = None,
) -> AsyncGenerator[WorkflowRuntime]:
    """Workflows for the library and the command, with the provided agents and those of the settings."""
    from assay.backends.agents.spec import AgentOverlay  # deferred import

    deps, overlay = services(settings), AgentOverlay(extra_agents, agents(settings))
    kind, connect = build_workflows(settings, store, registry(settings), deps, overlay, loops)
    executor = build_executor(settings, store, [kind])
    service = connect(executor)
    await executor.open(adopting=False)
    try:
        yield WorkflowRuntime(service, executor)
    finally:
        await executor.close(1.0)
        await overlay.close()
        await deps.close()


def promotion_service(
    settings: Settings, store: Store, agents: Agents, services: Services, packs: PackAgents | None = None
) -> "PromotionService":
    """The deployments in a store, under the policy of the settings."""
    from assay.promotion.service import build_promotions  # deferred import

    initial: Mapping[str, AgentRecords] = {}
    if fixtures_enabled():
        from assay.seams.deployments import INITIAL_RECORDS  # deferred import: the extra `serve`

        initial = INITIAL_RECORDS
    limits, clock = settings.limits, services.clock
    return build_promotions(store, settings.promotion_policy, limits, clock, agents, packs, initial)


async def close_evals(evals: "AgentEvalService") -> None:
    """Close the agents and the tools of a service."""
    await evals.dependencies.agents.close()
    if evals.dependencies.packs is not None:
        await evals.dependencies.packs.close()
    if evals.dependencies.tools is not None:
        await evals.dependencies.tools.close()


def tracing_enabled(environment: Mapping[str, str] | None = None) -> bool:
    """Whether OpenTelemetry's own variables name an exporter."""
    environment = os.environ if environment is None else environment
    return any(environment.get(name) for name in TRACED)


def tracer(environment: Mapping[str, str] | None = None) -> Tracer | None:
    """A tracer, if OpenTelemetry's own variables name an exporter."""
    if not tracing_enabled(environment):
        return None
    try:
        from assay.backends.otel import OtelTracer  # deferred import: the extra `telemetry`
    except ModuleNotFoundError as error:
        raise missing_extra("tracing", "telemetry", error=error) from error
    return OtelTracer()
