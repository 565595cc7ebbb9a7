"""Metrics, a span and an access-log line for every response, by the template of its path, without its values."""

import logging
import time
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from assay.ports.telemetry import telemetry
from assay.serve.web.request import ServerState

log = logging.getLogger("assay.request")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class InstrumentedRoute:
    """Wraps a route: records metrics, a span and an access-log line. Status 0: the client had disconnected."""

    def __init__(self, path: str, app: Callable[[Scope, Receive, Send], Awaitable[int]]) -> None:
        self._path, self._app = path, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        route = f"{method} {self._path}"
        if telemetry.tracer is None:
            status = await self._app(scope, receive, send)
        else:
            parent = {"traceparent": _header(scope, b"traceparent")}
            attributes = {"http.request.method": method, "http.route": self._path}
            with telemetry.span(route, attributes, parent) as span:
                status = await self._app(scope, receive, send)
                span.set_attribute("http.response.status_code", status)
        record_request("rest", route, str(status), time.perf_counter() - began)


def record_request(transport: str, route: str, status: str, seconds: float) -> None:
    telemetry.add("assay_requests", 1, transport, route, status)
    telemetry.observe("assay_request_seconds", seconds, transport, route)
    if log.isEnabledFor(logging.INFO):
        more = {"transport": transport, "route": route, "status": status, "ms": round(seconds * 1000, 3)}
        log.info("answered", extra=more)


def enable_metrics(server: ServerState) -> None:
    """Switch metrics on, and register the gauges of this server."""
    telemetry.on = True
    telemetry.gauges |= {
        "assay_requests_in_flight": lambda: server.admission.requests,
        "assay_event_streams": lambda: server.admission.streams,
        "assay_request_body_bytes": lambda: server.admission.body_bytes,
        "assay_runs_in_flight": lambda: server.executor.active_runs,
        "assay_server_processes": lambda: 1,
    }
    # the first worker counts them for all
    if server.member is not None and server.executor.counts_store and server.member.index:
        telemetry.gauges["assay_runs_in_flight"] = lambda: 0


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
