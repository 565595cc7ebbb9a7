"""GET /v1/evaluations/{id}/events: what happens, as it happens (server-sent events)."""

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

from assay.auth.audit import audit_read
from assay.errors import Refusal
from assay.ports import CLOSED, Run
from assay.serve.fep.events_feed import Cursor, cursor_of
from assay.serve.web.request import HttpRequest, ServerState
from assay.serve.web.responses import Response, log


class Stream:
    """An answer that goes on until the run ends, the client leaves or the host stops."""

    def __init__(self, host: ServerState, run: Run, place: Cursor) -> None:
        self._host, self._run, self._place = host, run, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        serving = self._host.serving
        response = EventSourceResponse(
            self._frames(), ping=serving.ping_seconds, sep="\n", send_timeout=serving.send_seconds
        )
        del response.headers["connection"]  # it is the server's to say
        await response(scope, receive, send)

    async def _frames(self) -> AsyncIterator[bytes]:
        try:
            async for frames in self._host.feeds.follow(self._run, self._place):
                yield frames
        except Refusal as trouble:  # the client comes again, with its Last-Event-ID
            log.error("following %s: %s", self._run.id, trouble)


async def follow_evaluation(call: HttpRequest) -> Response | Stream:
    call.query()
    call.host.load.open()
    run = await call.run()
    place = cursor_of(call.header(b"last-event-id"))
    await call.host.feeds.check(run, place)
    if run.status in CLOSED and place.sequence >= run.events:
        return Response(b"", 204)  # nothing more will come: a browser need not ask again
    await audit_read(call.host.office.store, run)
    return Stream(call.host, run, place)
