"""Annotations of a run, and the diff of two runs (openwop-contract §9.1, §9.2)."""

from collections.abc import Callable

import msgspec

from assay.auth.keys import authorize
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, Problem
from assay.ports import CLOSED, PutDocument
from assay.protocol.annotations import Annotation, AnnotationCreate
from assay.protocol.redaction import redact, redact_text
from assay.runs.annotations import annotate, annotations
from assay.runs.diff import diff
from assay.runs.log_reader import all_events as whole_log
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.submit import digest_for
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import OpenWopHost, host_of, run_of, snapshot
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

MAX_EVENTS = 100_000  # of one run in a diff
_create = msgspec.json.Decoder(AnnotationCreate).decode
COMPARED = ("status", "variables", "channels", "outputs", "error")


def _require_feedback(host: OpenWopHost) -> None:
    if not host.feedback:
        raise NotProvided("feedback")


async def annotate_run(call: HttpRequest) -> Response:
    call.query()
    host = host_of(call)
    _require_feedback(host)
    body_format(call)
    body = await read_document(call)
    annotation = await read_json(call, _create, body)
    run = await run_of(call, host)
    digest = await digest_for(call, body)
    once = IdempotentRequest(call, "POST /v1/runs/{runId}/annotations", lambda: f"{run.id} {digest()}")

    async def make(documents: Callable[[Annotation], list[PutDocument]]) -> Annotation:
        now = call.server.clock.now()
        return await annotate(host.store, run, annotation, call.principal.id, now, redact_text, documents)

    made, replayed = await once.create(make, Annotation)
    if not replayed:
        host.feeds.look_for_annotations(run.id)
    return answer(made, 201, REPLAYED if replayed else ())


async def list_annotations(call: HttpRequest) -> Response:
    call.query()
    host = host_of(call)
    _require_feedback(host)
    run = await run_of(call, host)
    await call.audit_read(run)
    return answer({"annotations": await annotations(host.store, run)})


async def diff_runs(call: HttpRequest) -> Response:
    """Compare the run in the path with another one; both must belong to the caller's tenant."""
    params = call.query("against")
    host = host_of(call)
    if not params.get("against"):
        raise InvalidRequest(Problem("against", "expected the id of the run to compare with"))
    authorize(call.principal, "runs:read")
    a = await run_of(call, host)
    b = await run_of(call, host, params["against"])
    for run in (a, b):
        if run.events > MAX_EVENTS:
            raise InvalidRequest(
                Problem(
                    "against",
                    f"expected a run of at most {MAX_EVENTS} events, got {run.events} in run {run.id}",
                )
            )
    for run in (a, b):
        await call.audit_read(run)
    logs = [
        [] if a.id == b.id else [event async for event in whole_log(host.store, run.id)] for run in (a, b)
    ]
    states = [
        redact({name: value for name, value in (await snapshot(host, run)).items() if name in COMPARED})
        for run in (a, b)
    ]
    in_flight = a.status not in CLOSED or b.status not in CLOSED
    both = states[0], states[1]
    difference = await in_thread(lambda: diff(a.id, b.id, logs[0], logs[1], both, in_flight=in_flight))
    return answer(difference)
