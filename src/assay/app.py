"""The composition root: settings become a registry, services and a plan. The only file that sees both sides."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from assay.agenteval.kind import AgentEvalKind, EvalDependencies
from assay.agenteval.request import limits_of
from assay.agenteval.service import AgentEvalService
from assay.auth.authenticator import Authenticator, PresentedToken
from assay.auth.jwt_settings import JwtSettings
from assay.backends.engines.local import LocalEngine
from assay.backends.lazy_providers import LazyProviders
from assay.backends.provider_config import ProviderPolicy
from assay.checks import STANDARD
from assay.checks.registry import Registry, from_module, installed
from assay.errors import EnvironmentFailure, MissingExtra, UsageError
from assay.fep.execute import ExecutionOptions
from assay.fep.kind import EvaluationKind
from assay.fep.service import EvaluationService
from assay.ports import Cipher, Clock, Provider, Providers, RepeatCounter, Secret, Services, Store
from assay.ports.agents import Agent, Agents, Memory, ToolBox
from assay.ports.config import VerifierLoopConfig
from assay.ports.kinds import RunKind
from assay.ports.supervise import supervise
from assay.ports.telemetry import Tracer
from assay.protocol.agents import AgentCard
from assay.runs.executor import RunExecutor
from assay.serve.web.tls import Tls
from assay.serve.web.tls import read as read_tls
from assay.settings import Settings
from assay.workers import pool
from assay.workflow.agent_memory import AsOf, JournalMemory

Environment = Mapping[str, str] | None
TRACED = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def registry(settings: Settings, modules: Iterable[str] = ()) -> Registry:
    """The standard checks, those of installed packages, and those the operator names."""
    named = [from_module(spec) for spec in (*settings.check_modules, *modules)]
    return STANDARD.extended([*installed(), *named])


def services(settings: Settings, policy: ProviderPolicy | None = None, *, cache: bool = False) -> Services:
    """For one run. `seconds` of the policy is the time a check has; without one it is that of the settings."""
    policy = policy or ProviderPolicy(seconds=settings.limits.check_seconds)
    pool.resize(settings.worker_processes)
    return Services(
        limits=settings.limits,
        providers=LazyProviders(lambda: providers(settings, policy, cache=cache)),
        repeats=RepeatCounter() if cache else None,
        recorded=not policy.trusted,
    )


def providers(
    settings: Settings, policy: ProviderPolicy, *, cache: bool = False, environment: Environment = None
) -> Providers:
    """Those of the settings; a key of OpenAI's in the environment is one more."""
    from assay.backends.models.cached import DiskCache  # a lazy door
    from assay.backends.providers import ConfiguredProviders  # a lazy door: most runs ask nobody

    environment = os.environ if environment is None else environment
    known = dict(settings.providers)
    key, url = environment.get("OPENAI_API_KEY"), environment.get("OPENAI_BASE_URL")
    if key or url:
        told = Provider(name="openai", base_url=url or None, api_key=Secret(key) if key else None)
        known.setdefault("openai", told)
    kept = DiskCache(Path(settings.home) / "cache") if cache else None
    return ConfiguredProviders(known, settings.models, environment=environment, policy=policy, cache=kept)


@asynccontextmanager
async def store(settings: Settings, *, sealing: bool = True) -> AsyncGenerator[Store]:
    """The record of this host, brought up to date, and closed; without `sealing` what is sealed is only opened."""
    from assay.backends.stores.open import open_store  # a lazy door: most runs keep no record

    address = settings.database_url or _embedded(Path(settings.home))
    opened = await open_store(address, cipher=cipher(settings), sealing=sealing)
    try:
        yield opened
    finally:
        await opened.close()


def cipher(settings: Settings) -> Cipher | None:
    """What seals the record at rest, if there is a key."""
    if settings.evidence_key is None:
        return None
    try:
        from assay.backends.ciphers.keyring import KeyRing, read_keys  # a lazy door: the extra `guard`
    except ModuleNotFoundError as error:
        raise UsageError(f"evidence_key needs {error.name}: pip install 'assay[guard]'") from error
    return KeyRing(read_keys(settings.evidence_key))


def agents(settings: Settings, asked: Providers | None = None) -> Agents:
    """Those of `[agents]`. Their models are asked through `asked`, so that a provider has one line for judges and agents."""
    from assay.backends.agents.from_settings import ConfiguredAgents  # a lazy door

    return ConfiguredAgents(settings.agents, models=settings.models, providers=asked or _asked(settings))


def resolve_agent(what: str, settings: Settings, asked: Providers | None = None) -> Agent:
    """Who `--agent WHAT` means: an agent of the settings by its id, else what the text describes. Never for a request's text."""
    from assay.backends.agents.from_settings import ConfiguredAgents  # a lazy door

    known = ConfiguredAgents(settings.agents, models=settings.models, providers=asked or _asked(settings))
    return known.given(what)


def agent_from_callable(function: Callable[..., Any], *, free: bool = False) -> Agent:
    """A function as an agent, called after its module and name."""
    from assay.backends.agents.callable import CallableAgent  # a lazy door
    from assay.backends.agents.functions import local_id, takes_context  # a lazy door

    module, name = getattr(function, "__module__", "python"), getattr(function, "__qualname__", "function")
    agent_id = local_id(str(module), str(name))
    takes = takes_context(function, agent_id)
    card = AgentCard(agent_id=agent_id, free=free, takes_tools=takes, takes_memory=takes)
    return CallableAgent(card, function)


def _asked(settings: Settings) -> Providers:
    return LazyProviders(lambda: providers(settings, ProviderPolicy(seconds=settings.limits.run_seconds)))


def toolbox(settings: Settings) -> ToolBox:
    """The live tools of `[tools]` and `[mcp]`."""
    from assay.backends.tools.from_settings import ConfiguredTools  # a lazy door

    return ConfiguredTools(settings.tools, settings.mcp)


def build_workflows(
    settings: Settings,
    record: Store,
    known: Registry,
    means: Services,
    cast: Agents,
    loops: Mapping[str, VerifierLoopConfig] | None = None,
) -> tuple[RunKind, Callable[[RunExecutor], Any]]:
    """
    Those of `[workflows]`, or the ones given; and a conformance suite's, where they are asked for.

    As a kind of run, and what makes their Room once there is a desk; its type is not named here, so that it loads when it is used.
    """
    from assay.backends.agents.overlay import AgentOverlay  # a lazy door
    from assay.workflow.activities import ActivityRunner  # a lazy door
    from assay.workflow.critics import Critics  # a lazy door
    from assay.workflow.execution import ExecutionLimits  # a lazy door
    from assay.workflow.kind import WorkflowKind  # a lazy door
    from assay.workflow.seams import SAMPLE_AGENTS  # a lazy door
    from assay.workflow.service import WorkflowService  # a lazy door
    from assay.workflow.verifier_loop import library  # a lazy door

    if conformance_fixtures_enabled():
        cast = AgentOverlay(SAMPLE_AGENTS, cast)
    there = library(settings.workflows if loops is None else loops, seeded=conformance_fixtures_enabled())
    critics = Critics(cast, known, means, seconds=settings.limits.check_seconds)
    far = ExecutionLimits.of(settings.limits)
    performer = ActivityRunner(record, there, cast, critics, means, toolbox(settings), bounds=far)
    kind = WorkflowKind(performer, far, means.clock)

    def room(desk: RunExecutor) -> WorkflowService:
        performer.hands = desk
        return WorkflowService(record, desk, kind, there, critics, means.clock)

    return kind, room


def conformance_fixtures_enabled(environment: Mapping[str, str] | None = None) -> bool:
    """Whether a conformance suite may start its own workflows here (contract §11)."""
    return (os.environ if environment is None else environment).get("OPENWOP_CONFORMANCE_SEED") == "true"


def conformance_routes_enabled(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the test-only routes of a conformance suite are here (contract §0.6)."""
    return (os.environ if environment is None else environment).get("OPENWOP_TEST_SEAM_ENABLED") == "true"


@asynccontextmanager
async def open_workflows(
    settings: Settings,
    record: Store,
    cast: Agents,
    loops: Mapping[str, VerifierLoopConfig] | None = None,
    modules: Iterable[str] = (),
) -> AsyncGenerator[tuple[Any, RunExecutor]]:
    """A desk for workflows alone: the library's and the command's."""
    means = services(settings)
    kind, room = build_workflows(settings, record, registry(settings, modules), means, cast, loops)
    desk = RunExecutor(record, LocalEngine(lambda _, unit: kind.perform(unit), 1), {kind.name: kind})
    shown = room(desk)
    await desk.open(adopting=False)
    try:
        yield shown, desk
    finally:
        await desk.close(1.0)
        await means.close()


class Runtime(NamedTuple):
    """A host that runs: what transports are put on."""

    store: Store
    executor: RunExecutor
    evaluations: EvaluationService
    evals: AgentEvalService
    authenticator: Authenticator
    workflows: Any  # a `workflow.service.WorkflowService`, which loads when it is used


@asynccontextmanager
async def open_runtime(
    settings: Settings, modules: Iterable[str] = (), *, stop: float = 10.0
) -> AsyncGenerator[Runtime]:
    """
    The record, and the desk that conducts runs in it: it takes up what a crashed process left.

    A request may name a provider that is configured here, and nothing else of the world (decision 39).
    """
    policy = ProviderPolicy(seconds=settings.limits.check_seconds, trusted=False)
    known, means = registry(settings, modules), services(settings, policy)
    how = ExecutionOptions(
        concurrency=settings.concurrency,
        seconds=settings.limits.check_seconds,
        run_seconds=settings.limits.run_seconds,
    )
    async with store(settings) as record:
        gate = Authenticator(record, tokens=await tokens(settings.jwt), clock=means.clock)
        cast = _with_conformance_agents(agents(settings, means.providers))
        flowing, meet = build_workflows(settings, record, known, means, cast)
        evals = AgentEvalService(record, _eval_dependencies(settings, record, known, means, cast))
        some = (EvaluationKind(record, known, means, how), AgentEvalKind(record, evals.means), flowing)
        kinds: dict[str, RunKind] = {one.name: one for one in some}
        engine = LocalEngine(lambda work, unit: kinds[work].perform(unit), settings.concurrency)
        desk = RunExecutor(record, engine, kinds, attempts=settings.limits.max_run_attempts)
        room = meet(desk)
        await desk.open()
        watching = supervise("expiry", room.watch)
        try:
            yield Runtime(record, desk, EvaluationService(record, known, means), evals, gate, room)
        finally:
            watching.cancel()
            await desk.close(stop)
            await evals.means.agents.close()
            if evals.means.tools is not None:
                await evals.means.tools.close()
            await means.close()


def _with_conformance_agents(cast: Agents) -> Agents:
    """And a conformance suite's, where its seams are on."""
    if not conformance_routes_enabled():
        return cast
    from assay.agenteval.samples import SAMPLES  # a lazy door
    from assay.backends.agents.overlay import AgentOverlay  # a lazy door

    return AgentOverlay(SAMPLES, cast)


def _eval_dependencies(
    settings: Settings, record: Store, known: Registry, means: Services, cast: Agents
) -> EvalDependencies:
    """What evals are made with: the agents and tools of the settings, and the providers that judges have."""
    return EvalDependencies(
        agents=cast,
        registry=known,
        services=means,
        tools=toolbox(settings),
        memory=lambda tenant, agent: live_memory(record, means.clock, tenant, agent),
        host=limits_of(settings.limits),
    )


def live_memory(store: Store, clock: Clock, tenant: str, agent_id: str) -> Memory:
    """What an agent remembers of earlier runs, as of now; what it writes there is recorded, and kept nowhere else."""
    view = AsOf(run=f"shadow-{uuid4().hex}", step=0, at=clock.now())
    return JournalMemory(store, tenant, ("default", f"agent:{agent_id}"), view, clock)


async def tokens(trust: JwtSettings) -> Callable[[str], Awaitable[PresentedToken]] | None:
    """
    What reads tokens of the issuer that is trusted, if one is. A file without keys is refused now, in one line.

    An address that is down may be back soon, and keys go on without it.
    """
    if not trust.issuer:
        return None
    try:
        from assay.auth.jwks import KeySet, log  # a lazy door: the extra `guard`
        from assay.auth.tokens import Tokens  # a lazy door
        from assay.backends.jwks import source  # a lazy door
    except ModuleNotFoundError as error:
        raise UsageError(f"[jwt] needs {error.name}: pip install 'assay[guard]'") from error
    keys = KeySet(source(trust.jwks), trust)
    try:
        await keys.open()
    except EnvironmentFailure as trouble:
        if "://" not in trust.jwks:
            raise UsageError(f"settings: jwt.jwks: {trouble}") from None
        log.warning("the issuer's keys: %s; tokens wait for them, keys do not", trouble)
    return Tokens(trust, keys).read


def tracer(environment: Mapping[str, str] | None = None) -> Tracer | None:
    """Where spans go, if OpenTelemetry's own variables say where."""
    environment = os.environ if environment is None else environment
    if not any(environment.get(name) for name in TRACED):
        return None
    try:
        from assay.backends.telemetry.otel import OtelTracer  # a lazy door: the extra `telemetry`
    except ModuleNotFoundError as error:
        raise UsageError(f"traces need {error.name}: pip install 'assay[telemetry]'") from error
    return OtelTracer()


class HttpServer(Protocol):
    """Something that serves until it should exit."""

    should_exit: bool
    started: bool

    @property
    def host(self) -> Any:
        """What another transport is put on beside this one."""
        ...

    async def serve(self, sockets: list[socket] | None = None) -> None: ...


def tls(settings: Settings) -> Tls | None:
    """For both ports, if the settings name a certificate."""
    return read_tls(settings.tls_cert, settings.tls_key, settings.tls_client_ca)


def rest(
    runtime: Runtime,
    settings: Settings,
    *,
    host: str,
    port: int,
    tls: Tls | None = None,
) -> HttpServer:
    """FEP and the run surface of OpenWOP over HTTP."""
    try:
        from assay.serve.fep.routes import ROUTES  # a lazy door
        from assay.serve.openwop.build import build_host  # a lazy door
        from assay.serve.openwop.seams import SEAMS  # a lazy door
        from assay.serve.web.app import create_app  # a lazy door: the extra `serve`
        from assay.serve.web.server import server  # a lazy door
        from assay.workflow.execution_model import HostInfo  # a lazy door
    except ModuleNotFoundError as error:
        raise UsageError(f"a server needs {error.name}: pip install 'assay[serve,store]'") from error
    named = HostInfo(host_id=settings.host_id)
    offers = build_host(
        runtime.store,
        runtime.evals,
        settings.openwop,
        settings.serving,
        settings.limits,
        runtime.workflows,
        named,
    )
    routes = [*ROUTES, *SEAMS] if conformance_routes_enabled() else ROUTES
    app = create_app(
        runtime.executor,
        runtime.evaluations,
        runtime.authenticator.authenticate,
        settings.serving,
        surface=offers,
        routes=routes,
    )
    return server(app, settings.serving, host=host, port=port, tls=tls)


def grpc(beside: HttpServer, *, host: str, port: int, tls: Tls | None = None) -> "GrpcServer":
    """
    FEP over gRPC, on the same desk and with the same limits and keys. It listens at once, and answers from `serve` on.

    Who is asking is found out by the host's `authenticate`.
    """
    try:
        from assay.serve.grpc.server import RpcServer  # a lazy door: the extra `grpc`
    except ModuleNotFoundError as error:
        raise MissingExtra(f"gRPC needs {error.name}: pip install 'assay[grpc]'") from error
    return RpcServer(beside.host, address=host, port=port, tls=tls)


class GrpcServer(Protocol):
    """What serves until the host it is put on stops."""

    port: int

    async def serve(self) -> None: ...


def _embedded(home: Path) -> str:
    """In a folder for us alone: what is recorded is not for others."""
    from assay.auth.local_key import make_private  # a lazy door

    if "?" in str(home):
        raise UsageError(f"home: {str(home)!r} cannot hold a database, because of its '?'")
    make_private(home)
    return f"sqlite:///{home / 'assay.db'}"
