"""Annotations of a run or an evaluation, and the diff of two runs (openwop-contract §9.1, §9.2)."""

from collections.abc import Awaitable, Callable

import msgspec
from msgspec import UNSET

from assay.auth.keys import authorize
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, Problem
from assay.errors.storage import Erased
from assay.fep.records.corrections import has_case, require_check
from assay.ports import CLOSED, PutDocument, Run
from assay.protocol.annotations import Anchor, Annotation, AnnotationCreate
from assay.protocol.redaction import redact, redact_text
from assay.runs.annotations import annotate, annotations, parse_correction
from assay.runs.diff import diff
from assay.runs.log_reader import all_events as whole_log
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.server_state import evaluation_of
from assay.serve.fep.submit import digest_for
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import OpenWopHost, host_of, run_of, snapshot
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.handler import ONCE, ResponseSpec, RouteSpec
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
    """POST /v1/runs/{runId}/annotations."""
    host, body, annotation = await _create_request(call)
    return await _annotate(call, host, await run_of(call, host), body, annotation)


async def annotate_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluations/{id}/annotations: the target names a case as its node."""
    host, body, annotation = await _create_request(call)
    run = await evaluation_of(call)
    if run.erased:
        raise Erased(run.id, run.erased, run.erased_by)
    await _require_case(host, run, annotation)
    return await _annotate(call, host, run, body, annotation)


async def _create_request(call: HttpRequest) -> tuple[OpenWopHost, bytes, AnnotationCreate]:
    call.query()
    host = host_of(call)
    _require_feedback(host)
    body_format(call)
    body = await read_document(call)
    return host, body, await read_json(call, _create, body)


async def _require_case(host: OpenWopHost, run: Run, annotation: AnnotationCreate) -> None:
    """Refuse a case that the evaluation does not have, and a correction that names none."""
    anchor = Anchor() if annotation.target is UNSET else annotation.target
    if anchor.event_id is not UNSET:
        message = "an evaluation has no events: expected nodeId, the id of a case"
        raise InvalidRequest(Problem("target.eventId", message))
    if annotation.signal.kind == "correction":
        if anchor.node_id is UNSET:
            raise InvalidRequest(Problem("target.nodeId", "expected the id of the case that is corrected"))
        if annotation.signal.correction is not UNSET:
            require_check(run, parse_correction(annotation.signal.correction))
    if anchor.node_id is not UNSET and not await has_case(host.store, run, anchor.node_id):
        message = f"evaluation {run.id} has no case {anchor.node_id!r}"
        raise InvalidRequest(Problem("target.nodeId", message))


async def _annotate(
    call: HttpRequest, host: OpenWopHost, run: Run, body: bytes, annotation: AnnotationCreate
) -> Response:
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
    """GET /v1/runs/{runId}/annotations."""
    return await _list(call, lambda host: run_of(call, host))


async def list_evaluation_annotations(call: HttpRequest) -> Response:
    """GET /v1/evaluations/{id}/annotations."""
    return await _list(call, lambda _: evaluation_of(call))


async def _list(call: HttpRequest, find: Callable[[OpenWopHost], Awaitable[Run]]) -> Response:
    call.query()
    host = host_of(call)
    _require_feedback(host)
    run = await find(host)
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


ANNOTATION_ROUTES = [
    RouteSpec(
        method="POST",
        path="/v1/runs/{run_id}/annotations",
        endpoint=annotate_run,
        scope="",
        id="annotateRun",
        summary="Annotate a run, an event or a node; a correction sets the effective score of a task",
        body="AnnotationCreate",
        responses={201: ResponseSpec("The stored annotation, with secrets redacted.", "Annotation")},
        errors=(501,),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/runs/{run_id}/annotations",
        endpoint=list_annotations,
        scope="runs:read",
        id="listAnnotations",
        summary="List the annotations of a run",
        responses={200: ResponseSpec("The annotations, oldest first.", "AnnotationList")},
        errors=(501,),
    ),
    RouteSpec(
        method="POST",
        path="/v1/evaluations/{evaluation_id}/annotations",
        endpoint=annotate_evaluation,
        scope="",
        id="annotateEvaluation",
        summary="Annotate an evaluation or a case, which `target.nodeId` names; a correction sets its effective score",
        body="AnnotationCreate",
        responses={201: ResponseSpec("The stored annotation, with secrets redacted.", "Annotation")},
        errors=(501,),
        parameters=(ONCE,),
    ),
    RouteSpec(
        method="GET",
        path="/v1/evaluations/{evaluation_id}/annotations",
        endpoint=list_evaluation_annotations,
        scope="evaluations:read",
        id="listEvaluationAnnotations",
        summary="List the annotations of an evaluation",
        responses={200: ResponseSpec("The annotations, oldest first.", "AnnotationList")},
        errors=(501,),
    ),
]
