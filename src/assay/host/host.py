"""A whole host: the store, every kind of run, and an executor for them. A server and a worker open it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.agenteval.kind import AgentEvalKind
from assay.agenteval.service import AgentEvalService
from assay.auth.authenticator import Authenticator, PresentedToken
from assay.auth.jwt_settings import JwtSettings
from assay.auth.oidc_settings import OidcSettings
from assay.backends.engines.local import InlineEngine
from assay.backends.models.prices import published_cost
from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry
from assay.concurrency.event_loop import supervise
from assay.errors import EnvironmentFailure, UsageError
from assay.extras import missing_extra
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.records.service import EvaluationService
from assay.fep.trace_windows.kind import TraceWindowKind
from assay.fep.trace_windows.projects import trace_projects
from assay.fep.trace_windows.supervisor import TraceIntake
from assay.fep.trace_windows.verdict_sender import VerdictSender
from assay.host import parts
from assay.ports import Clock, Secret, Services, Store
from assay.ports.agents import Agents
from assay.ports.kinds import RunKind
from assay.promotion.kind import ManagementKind
from assay.runs.executor import RunExecutor
from assay.runs.expiry import expire_loop
from assay.runs.work_queue import DelegatingExecutor
from assay.settings import Settings, fixtures_enabled, routes_enabled

if TYPE_CHECKING:
    from assay.auth.sign_in import SignIn

FILE_PREFIX = "file:"  # before the path of a file with a secret


class Runtime(NamedTuple):
    """The parts of a whole host, which the transports serve."""

    store: Store
    executor: RunExecutor
    evaluations: EvaluationService
    evals: AgentEvalService
    authenticator: Authenticator
    workflows: Any  # a `workflow.service.WorkflowService`
    promotions: Any  # a `promotion.service.PromotionService`
    traces: TraceIntake | None = None  # None: no project is configured
    sign_in: "SignIn | None" = None  # None: the page asks for a key


@asynccontextmanager
async def open_runtime(
    settings: Settings, modules: Iterable[str] = (), *, stop: float = 10.0
) -> AsyncGenerator[Runtime]:
    """Open the store and an executor for every kind of run; it adopts the runs that a crashed process left."""
    checks, deps = parts.registry(settings, modules), host_services(settings, settings.server_processes)
    projects = trace_projects(settings.traces, checks, deps)
    receivers = parts.verdict_receivers(settings)
    async with parts.store(settings) as opened:
        authenticator = Authenticator(opened, tokens=await tokens(settings.jwt), clock=deps.clock)
        kinds = build_kinds(settings, opened, checks, deps)
        executor = host_executor(settings, opened, kinds.all)
        workflows = kinds.connect(executor)
        await executor.open()
        loops = [
            supervise("expiry", partial(expire_loop, one.expire_waits))
            for one in (workflows, kinds.promotions)
        ]
        traces: TraceIntake | None = None
        if projects:
            traces = TraceIntake(projects, opened, executor, deps.clock, settings.serving.max_trace_bytes)
            loops.append(supervise("trace windows", traces.run))
            if receivers:
                sender = VerdictSender(receivers, opened, deps.clock, explanations=settings.send_explanations)
                loops.append(supervise("verdicts", sender.run))
        try:
            evaluations = EvaluationService(opened, checks, deps)
            yield Runtime(
                opened,
                executor,
                evaluations,
                kinds.evals,
                authenticator,
                workflows,
                kinds.promotions,
                traces,
                await open_sign_in(settings.oidc, opened, deps.clock),
            )
        finally:
            _ = [loop.cancel() for loop in loops]
            await executor.close(stop)
            await asyncio.wait(loops, timeout=stop)  # they give back what they hold
            await parts.close_evals(kinds.evals)
            await deps.close()


class HostKinds(NamedTuple):
    """Every kind of run of a host, and the services behind them."""

    all: tuple[RunKind, ...]
    evals: AgentEvalService
    promotions: Any  # a `promotion.service.PromotionService`
    connect: Callable[[RunExecutor], Any]  # makes the WorkflowService


def build_kinds(settings: Settings, store: Store, checks: Registry, services: Services) -> HostKinds:
    """The kinds of run that a server and a worker execute alike."""
    limits = settings.limits
    options = ExecutionOptions(
        concurrency=settings.concurrency, seconds=limits.check_seconds, run_seconds=limits.run_seconds
    )
    agents = _with_conformance_agents(parts.agents(settings, services.providers))
    kind, connect_workflows = parts.build_workflows(settings, store, checks, services, agents)
    evals = parts.build_evals(settings, store, checks, services, agents, pack_tools=False)
    promotions = parts.promotion_service(settings, store, agents, services, evals.dependencies.packs)

    def connect(executor: RunExecutor) -> Any:
        workflows = connect_workflows(executor)
        workflows.channels = promotions if settings.openwop.offer_deployments else None
        return workflows

    kinds = (
        TraceWindowKind(store, checks, services, options, published_cost),
        AgentEvalKind(store, evals.dependencies),
        kind,
        ManagementKind(services.clock),
    )
    return HostKinds(kinds, evals, promotions, connect)


def host_services(settings: Settings, processes: int = 1) -> Services:
    """
    The services of a host. A request may name a provider that is configured here, and no other (FEP-39).

    `processes` share the limits of each provider.
    """
    seconds = settings.limits.check_seconds
    return parts.services(settings, ProviderPolicy(seconds=seconds, trusted=False, share=processes))


def host_executor(settings: Settings, store: Store, kinds: Iterable[RunKind]) -> RunExecutor:
    """The executor of a server: it conducts runs itself, or leaves them to workers (the setting `engine`)."""
    if settings.engine == "local":
        return parts.build_executor(settings, store, kinds, attempts=settings.limits.max_run_attempts)
    if not settings.database_url.startswith("postgresql"):
        raise UsageError(
            "settings: engine: expected PostgreSQL, through which workers share runs; set database_url"
            " (ASSAY_DATABASE_URL) to postgresql://…, or engine to 'local'"
        )
    by_name = {kind.name: kind for kind in kinds}
    engine = InlineEngine(lambda name, unit: by_name[name].perform(unit))
    return DelegatingExecutor(store, engine, by_name, lease=settings.workers.lease)


def _with_conformance_agents(agents: Agents) -> Agents:
    """Adds the sample agents of the conformance suite, where its routes are enabled."""
    if not (routes_enabled() or fixtures_enabled()):
        return agents
    from assay.backends.agents.spec import AgentOverlay  # deferred import
    from assay.seams.sample_agents import SAMPLES  # deferred import

    return AgentOverlay(SAMPLES, agents)


async def tokens(jwt_settings: "JwtSettings") -> Callable[[str], Awaitable[PresentedToken]] | None:
    """
    The verifier for JWTs of the trusted issuer, if the settings name one.

    A key file that cannot be read is refused at once. An address that is down may come back, so it is only logged.
    """
    if not jwt_settings.issuer:
        return None
    try:
        from assay.auth.refreshed import log  # deferred import
        from assay.auth.tokens import KeySet, Tokens  # deferred import: the extra `guard`
        from assay.backends.jwks import source  # deferred import
    except ModuleNotFoundError as error:
        raise missing_extra("the setting jwt", "guard", error=error) from error
    keys = KeySet(source(jwt_settings.jwks), jwt_settings)
    try:
        await keys.cached.open()
    except EnvironmentFailure as trouble:
        if "://" not in jwt_settings.jwks:
            raise UsageError(f"settings: jwt.jwks: {trouble}") from None
        log.warning("the issuer's keys: %s; JWTs are refused until they load, API keys work", trouble)
    return Tokens(jwt_settings, keys).read


async def open_sign_in(settings: OidcSettings, store: Store, clock: Clock) -> "SignIn | None":
    """
    The sign-in, if the settings name a provider.

    A provider that is away may come back, so it is only logged: the page asks for a key until then.
    """
    if not settings.issuer:
        return None
    try:
        from assay.auth.oidc_provider import OidcProvider  # deferred import: the extra `guard`
        from assay.auth.sign_in import SignIn  # deferred import
    except ModuleNotFoundError as error:
        raise missing_extra("the setting oidc", "guard", error=error) from error
    from assay.auth.refreshed import log  # deferred import
    from assay.backends.issuer_http import ask  # deferred import

    provider = OidcProvider(settings, read_secret(settings.client_secret), ask, clock)
    try:
        await provider.open()
    except EnvironmentFailure as trouble:
        log.warning("sign-in: %s; nobody can sign in at the provider until it answers, keys work", trouble)
    return SignIn(settings, provider, store, clock)


def read_secret(secret: Secret | None) -> Secret | None:
    """The secret of the setting, or of the file that it names."""
    if secret is None or not secret.reveal().startswith(FILE_PREFIX):
        return secret
    path = secret.reveal().removeprefix(FILE_PREFIX).strip()
    try:
        text = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else "it is not UTF-8"
        place = "settings: oidc.client_secret"
        raise UsageError(f"{place}: {path}: expected a file that can be read, got {why}") from None
    return Secret(text) if text else None
