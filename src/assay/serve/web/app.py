"""The ASGI application: a table of routes, each behind its handler, on the state of one server."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from assay.concurrency.event_loop import supervise
from assay.errors import Refusal
from assay.serve.web import openapi
from assay.serve.web.handler import VERSION, MethodSpec, NotFoundHandler, RouteHandler, RouteSpec, resource_of
from assay.serve.web.idempotency import sweep
from assay.serve.web.instrumentation import InstrumentedRoute, enable_metrics
from assay.serve.web.request import ServerState
from assay.serve.web.responses import encode, log

SWEEP_SECONDS = 3_600.0  # between two deletions of old Idempotency-Keys


class PathSegment(Convertor[str]):
    """A segment of a path without its verb: `a:cancel` is not the id `a:cancel` (openwop-contract §0.7)."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def create_app(routes: Sequence[RouteSpec], state: ServerState, schemas: Mapping[str, Any]) -> Starlette:
    """
    An ASGI application that serves these routes and describes them, with `schemas`, in its OpenAPI document.

    The server calls `app.state.server.stop()` before it waits for the connections to close.
    """
    register_url_convertor("part", PathSegment())
    state.openapi = encode(openapi.document(routes, schemas))
    paths: dict[str, dict[str, MethodSpec]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = MethodSpec(route.endpoint, route.scope)
    handlers = {
        path: InstrumentedRoute(path, RouteHandler(state, methods)) for path, methods in paths.items()
    }
    resources = {resource_of(path[len(VERSION) - 1 :]) for path in paths if path.startswith(VERSION)}
    fixed = {path: handler for path, handler in handlers.items() if "{" not in path}
    patterns = [
        Route(re.sub(r"\{(\w+)\}", r"{\1:part}", path), handler) for path, handler in handlers.items()
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        sweeper = supervise("key sweep", lambda: _sweep_loop(state))
        try:
            yield
        finally:
            sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await sweeper

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        """Look a path without parameters up in a dict; try the patterns of the others in turn."""
        handler = fixed.get(scope.get("path", ""))
        if handler is None:
            await app.router(scope, receive, send)
        else:
            scope["path_params"] = {}
            await handler(scope, receive, send)

    enable_metrics(state)
    app = Starlette(lifespan=lifespan)
    app.router = Router(
        patterns,
        redirect_slashes=False,
        default=InstrumentedRoute("", NotFoundHandler(state, resources)),
        lifespan=lifespan,
    )
    app.middleware_stack = dispatch  # a handler lets no exception out that Starlette would have to catch
    app.state.server = state
    return app


async def _sweep_loop(state: ServerState) -> None:
    while True:
        try:
            await sweep(state)
        except Refusal as trouble:  # the database is unavailable: the next sweep will do
            log.warning("old Idempotency-Keys could not be deleted: %s", trouble)
        await asyncio.sleep(SWEEP_SECONDS)
