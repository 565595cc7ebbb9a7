"""The servers of `assay serve`: FEP and OpenWOP over HTTP, FEP over gRPC, both with one TLS certificate."""

from importlib import import_module
from socket import socket
from typing import Any, Protocol

from assay.auth.authenticator import Authenticator
from assay.extras import missing_extra
from assay.host.host import Runtime, tokens
from assay.ports import Clock
from assay.runs.executor import RunExecutor
from assay.serve.web.tls import Tls
from assay.serve.web.tls import read as read_tls
from assay.serve.web.worker_group import WorkerMember
from assay.settings import Settings, routes_enabled

PRELOADED = (  # of the extras `serve` and `store`; none starts a thread when it is loaded
    "assay.serve.application",
    "assay.serve.openwop.build_host",
    "assay.serve.web.server",
    "assay.backends.stores.sql.store",
)


class HttpServer(Protocol):
    """A server that runs until `should_exit` is set."""

    should_exit: bool
    started: bool

    @property
    def state(self) -> Any:
        """The `ServerState` that a second transport shares with this one."""
        ...

    async def serve(self, sockets: list[socket] | None = None) -> None: ...


class GrpcServer(Protocol):
    """A gRPC server that runs until its host stops."""

    port: int

    async def serve(self) -> None: ...


def tls(settings: Settings) -> Tls | None:
    """The TLS material for both ports, if the settings name a certificate."""
    return read_tls(settings.tls_cert, settings.tls_key, settings.tls_client_ca)


def http_server(
    runtime: Runtime,
    settings: Settings,
    *,
    host: str,
    port: int,
    tls: Tls | None = None,
    member: WorkerMember | None = None,
) -> HttpServer:
    """The HTTP server with the routes of FEP and OpenWOP. `member`: this process is one of several workers."""
    try:
        from assay.seams.routes import SEAMS  # deferred import
        from assay.serve.application import ROUTES, http_app  # deferred import: the extra `serve`
        from assay.serve.openwop.build_host import build_host  # deferred import
        from assay.serve.web.server import server  # deferred import
        from assay.workflow.supported_phases import HostInfo  # deferred import
    except ModuleNotFoundError as error:
        raise missing_extra("a server", "serve", "store", error=error) from error
    openwop = build_host(
        runtime.store,
        runtime.evals,
        settings.openwop,
        settings.serving,
        settings.limits,
        runtime.workflows,
        HostInfo(host_id=settings.host_id),
        settings.pack_keys,
        runtime.promotions,
    )
    routes = [*ROUTES, *SEAMS] if routes_enabled() else ROUTES
    authenticate = runtime.authenticator.authenticate
    app = http_app(
        runtime.executor,
        runtime.evaluations,
        openwop,
        authenticate,
        settings.serving,
        routes,
        member,
        runtime.traces,
        runtime.sign_in,
    )
    return server(app, settings.serving, host=host, port=port, tls=tls)


async def probe_server(
    executor: RunExecutor, settings: Settings, clock: Clock, *, host: str, port: int, tls: Tls | None = None
) -> HttpServer:
    """The HTTP server of a worker: its probes, and its metrics for keys that may read them."""
    try:
        from assay.serve.application import probe_app  # deferred import: the extra `serve`
        from assay.serve.web.server import server  # deferred import
    except ModuleNotFoundError as error:
        raise missing_extra("the port of a worker", "serve", error=error) from error
    authenticator = Authenticator(executor.store, tokens=await tokens(settings.jwt), clock=clock)
    app = probe_app(
        executor, authenticator.authenticate, settings.serving, limits=settings.limits, clock=clock
    )
    return server(app, settings.serving, host=host, port=port, tls=tls)


def grpc_server(companion: HttpServer, *, host: str, port: int, tls: Tls | None = None) -> GrpcServer:
    """FEP over gRPC, with the executor, limits and keys of the HTTP server. It answers once `serve` runs."""
    try:
        from assay.serve.grpc.server import RpcServer  # deferred import: the extra `grpc`
    except ModuleNotFoundError as error:
        raise missing_extra("gRPC", "grpc", error=error) from error
    return RpcServer(companion.state, address=host, port=port, tls=tls)


def preload() -> None:
    """Load what every worker needs, before they are forked: they start sooner and share the memory."""
    for name in PRELOADED:
        import_module(name)
    import_module("assay.serve.application").http_schemas()
