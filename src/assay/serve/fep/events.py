"""GET /v1/evaluations/{id}/events: progress and results as server-sent events."""

from assay.ports import CLOSED
from assay.serve.fep.events_feed import cursor_of
from assay.serve.fep.server_state import evaluation_of, fep_of
from assay.serve.web.event_stream import EventStream
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response


async def follow_evaluation(call: HttpRequest) -> Response | EventStream:
    call.query()
    call.server.admission.check_open()
    run = await evaluation_of(call)
    cursor = cursor_of(call.header(b"last-event-id"))
    await fep_of(call).feeds.check(run, cursor)
    if run.status in CLOSED and cursor.sequence >= run.events and not run.erased:
        return Response(b"", 204)  # no more events will come: 204 stops a browser from reconnecting
    await call.audit_read(run)
    return EventStream(call, run, fep_of(call).feeds.follow(run, cursor))
