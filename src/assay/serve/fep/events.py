"""GET /v1/evaluations/{id}/events: progress and results as server-sent events."""

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

from assay.errors import Refusal
from assay.ports import CLOSED, Run
from assay.serve.fep.events_feed import Cursor, cursor_of
from assay.serve.fep.server_state import evaluation_of, fep_of
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, log


class Stream:
    """A response that goes on until the run ends, the client disconnects or the server stops."""

    def __init__(self, call: HttpRequest, run: Run, cursor: Cursor) -> None:
        self._call, self._run, self._cursor = call, run, cursor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serving = self._call.server.serving
        response = EventSourceResponse(
            self._frames(), ping=serving.ping_seconds, sep="\n", send_timeout=serving.send_seconds
        )
        del response.headers["connection"]  # the server sets it
        await response(scope, receive, send)

    async def _frames(self) -> AsyncIterator[bytes]:
        try:
            async for frames in fep_of(self._call).feeds.follow(self._run, self._cursor):
                yield frames
        except Refusal as trouble:  # the client reconnects with its Last-Event-ID
            log.error("event stream of %s ended: %s", self._run.id, trouble)


async def follow_evaluation(call: HttpRequest) -> Response | Stream:
    call.query()
    call.server.admission.check_open()
    run = await evaluation_of(call)
    cursor = cursor_of(call.header(b"last-event-id"))
    await fep_of(call).feeds.check(run, cursor)
    if run.status in CLOSED and cursor.sequence >= run.events and not run.erased:
        return Response(b"", 204)  # no more events will come: 204 stops a browser from reconnecting
    await call.audit_read(run)
    return Stream(call, run, cursor)
