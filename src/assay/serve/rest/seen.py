"""Every answer counted, timed, and told of in the log, by the template of its path: what the path holds is not told."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.ports.watch import watch
from assay.serve.rest.call import Host

log = logging.getLogger("assay.request")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Seen:
    """An application behind glass."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        self._path, self._app = path, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), 0
        method = scope["method"] if scope["method"] in METHODS else "OTHER"

        async def outer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        route = f"{method} {self._path}"
        if watch.tracer is None:
            await self._app(scope, receive, outer)
        else:
            parent = {"traceparent": _header(scope, b"traceparent")}
            about = {"http.request.method": method, "http.route": self._path}
            with watch.span(route, about, parent) as span:
                await self._app(scope, receive, outer)
                span.set_attribute("http.response.status_code", status)
        told("rest", route, str(status), time.perf_counter() - began)


def told(transport: str, route: str, status: str, seconds: float) -> None:
    watch.add("assay_requests", 1, transport, route, status)
    watch.took("assay_request_seconds", seconds, transport, route)
    if log.isEnabledFor(logging.INFO):
        more = {"transport": transport, "route": route, "status": status, "ms": round(seconds * 1000, 3)}
        log.info("answered", extra=more)


def watched(host: Host) -> None:
    """This process serves: it counts, and these can be looked at."""
    watch.on = True
    watch.gauges |= {
        "assay_requests_under_way": lambda: host.load.requests,
        "assay_followers": lambda: host.load.followers,
        "assay_held_bytes": lambda: host.load.held,
        "assay_runs_under_way": lambda: host.desk.busy,
    }


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")
