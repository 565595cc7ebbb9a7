"""Annotations and diffs: what is said of a run, and of two (contract §9.1, §9.2)."""

import asyncio
from collections.abc import Callable

import msgspec

from assay.auth.keys import authorize
from assay.errors import InvalidRequest, Problem
from assay.ports import CLOSED, PutDocument
from assay.protocol.annotations import Annotation, AnnotationCreate
from assay.protocol.redaction import redact, redact_text
from assay.runs.annotations import annotate, annotations
from assay.runs.diff import diff
from assay.runs.event_docs import all_events as whole_log
from assay.serve.fep.request import decoded, digest_of
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import OpenWopHost, host_of, run_of, snapshot
from assay.serve.web.body import body_format, read_body
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

LONGEST = 100_000  # events of one run that are compared
_create = msgspec.json.Decoder(AnnotationCreate).decode
COMPARED = ("status", "variables", "channels", "outputs", "error")


def _offered(surface: OpenWopHost) -> None:
    if not surface.feedback:
        raise NotProvided("feedback")


async def annotate_run(call: HttpRequest) -> Response:
    call.query()
    surface = host_of(call)
    _offered(surface)
    body_format(call)
    body = await read_body(call)
    said = decoded(_create, body, call.server.limits)
    run = await run_of(call, surface)
    once = IdempotentRequest(call, "POST /v1/runs/{runId}/annotations", lambda: f"{run.id} {digest_of(body)}")

    async def make(along: Callable[[Annotation], list[PutDocument]]) -> Annotation:
        now = call.server.clock.now()
        return await annotate(surface.store, run, said, call.principal.id, now, redact_text, along)

    made, replayed = await once.create(make, Annotation)
    if not replayed:
        surface.feeds.hear(run.id)
    return answer(made, 201, REPLAYED if replayed else ())


async def list_annotations(call: HttpRequest) -> Response:
    call.query()
    surface = host_of(call)
    _offered(surface)
    run = await run_of(call, surface)
    await call.audit_read(run)
    return answer({"annotations": await annotations(surface.store, run)})


async def diff_runs(call: HttpRequest) -> Response:
    """The run of the path beside another; both must be ours."""
    asked = call.query("against")
    surface = host_of(call)
    if not asked.get("against"):
        raise InvalidRequest(Problem("against", "expected the id of the run to compare with"))
    authorize(call.principal, "runs:read")
    a = await run_of(call, surface)
    b = await run_of(call, surface, asked["against"])
    for run in (a, b):
        if run.events > LONGEST:
            raise InvalidRequest(
                Problem("against", f"run {run.id} has {run.events} events; at most {LONGEST} are compared")
            )
    for run in (a, b):
        await call.audit_read(run)
    logs = [[] if a.id == b.id else [one async for one in whole_log(surface.store, run.id)] for run in (a, b)]
    states = [
        redact({name: value for name, value in (await snapshot(surface, run)).items() if name in COMPARED})
        for run in (a, b)
    ]
    open_end = a.status not in CLOSED or b.status not in CLOSED
    both = states[0], states[1]
    found = await asyncio.to_thread(diff, a.id, b.id, logs[0], logs[1], both, in_flight=open_end)
    return answer(found)
