"""The REST application: every route behind its door, on one host."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from assay.errors import Refusal
from assay.fep.service import EvaluationService
from assay.ports.supervise import supervise
from assay.runs.executor import RunExecutor
from assay.serve.fep.routes import ROUTES, RouteSpec
from assay.serve.openwop.host import OpenWopHost
from assay.serve.web import openapi
from assay.serve.web.handler import VERSION, MethodSpec, NotFoundHandler, RouteHandler, resource_of
from assay.serve.web.idempotency import sweep
from assay.serve.web.instrumentation import Instrumented, enable_metrics
from assay.serve.web.limits import ServerLimits
from assay.serve.web.request import Authenticate, ServerState
from assay.serve.web.responses import encode, log

SWEEPING = 3_600.0  # seconds between two looks for keys that may be forgotten


class PathSegment(Convertor[str]):
    """A part of a path without its verb: `a:cancel` is not the id `a:cancel` (openwop-contract §0.7)."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def create_app(
    desk: RunExecutor,
    office: EvaluationService,
    authenticate: Authenticate,
    serving: ServerLimits | None = None,
    routes: Sequence[RouteSpec] = ROUTES,
    surface: OpenWopHost | None = None,
) -> Starlette:
    """An ASGI application. Its host, `app.state.host`, is told to `stop` before the server waits for its connections."""
    register_url_convertor("part", PathSegment())
    host = ServerState(desk, office, authenticate, serving or ServerLimits())
    host.surface = surface
    host.openapi = encode(openapi.document(routes))
    paths: dict[str, dict[str, MethodSpec]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = MethodSpec(route.endpoint, route.scope)
    doors = {path: Instrumented(path, RouteHandler(host, methods)) for path, methods in paths.items()}
    resources = {resource_of(path[len(VERSION) - 1 :]) for path in paths if path.startswith(VERSION)}
    fixed = {path: door for path, door in doors.items() if "{" not in path}
    ways = [Route(re.sub(r"\{(\w+)\}", r"{\1:part}", path), door) for path, door in doors.items()]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        sweeping = supervise("key sweep", lambda: _sweeping(host))
        try:
            yield
        finally:
            sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await sweeping

    async def straight(scope: Scope, receive: Receive, send: Send) -> None:
        """A path that names nothing is found at once; the others are tried one after the other."""
        door = fixed.get(scope.get("path", ""))
        if door is None:
            await app.router(scope, receive, send)
        else:
            scope["path_params"] = {}
            await door(scope, receive, send)

    enable_metrics(host)
    app = Starlette(lifespan=lifespan)
    app.router = Router(
        ways,
        redirect_slashes=False,
        default=Instrumented("", NotFoundHandler(host, resources)),
        lifespan=lifespan,
    )
    app.middleware_stack = straight  # a door lets nothing out that Starlette would have to catch
    app.state.host = host
    return app


async def _sweeping(host: ServerState) -> None:
    while True:
        try:
            await sweep(host)
        except Refusal as trouble:  # the database is away: the next look will do
            log.warning("old Idempotency-Keys could not be forgotten: %s", trouble)
        await asyncio.sleep(SWEEPING)
