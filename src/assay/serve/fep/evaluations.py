"""Evaluations: run one, start one, read one, cancel one (FEP 5.1; decisions 3, 41)."""

import hashlib
from collections.abc import AsyncGenerator, Sequence

import msgspec

from assay.errors import Conflict, RunAlreadyEnded, RunNotFinished
from assay.fep.service import EvaluationService
from assay.fep.service import result_json as whole_result
from assay.ports import CLOSED, PutDocument, Run
from assay.protocol.operations import CancelOperationResponse
from assay.protocol.runs import CancelRequest
from assay.serve.fep.request import decoded, digest_of
from assay.serve.fep.state import evaluation_of, fep_of, find_evaluation
from assay.serve.fep.submit import submit_body
from assay.serve.web import pagination as pages
from assay.serve.web.body import read_body
from assay.serve.web.etag import matches
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest, RequestContext
from assay.serve.web.responses import LINES, Headers, Response, answer

AGAIN = (b"cache-control", b"private, no-cache")  # may be kept, and is asked for again by its tag


_cancel = msgspec.json.Decoder(CancelRequest).decode
PATIENCE = 2.8  # seconds to wait for a run to stop


async def run_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluate: the whole result, when it is there."""
    begun = await submit_body(call, "POST /v1/evaluate", at_once=True)
    headers: Headers = ((b"content-location", f"/v1/evaluations/{begun.run}".encode()),)
    if begun.replayed:
        headers += REPLAYED
    if begun.made is not None and not call.accepts_ndjson:
        return Response(whole_result(*begun.made), headers=headers)
    run = await call.until_disconnect(call.server.executor.wait(begun.run))
    if begun.replayed:
        await call.audit_read(run)
    return _results(call, run, headers)


async def start_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluations: an operation, at once."""
    begun = await submit_body(call, "POST /v1/evaluations", at_once=False)
    run = await call.server.executor.get(begun.run, call.tenant)
    headers: Headers = ((b"location", f"/v1/operations/{run.id}".encode()),)
    return answer(
        fep_of(call).evaluations.operation(run), 202, headers + REPLAYED if begun.replayed else headers
    )


async def get_evaluation(call: HttpRequest) -> Response:
    """GET /v1/evaluations/{id}: the result, whole, as lines, or a page of it."""
    asked = call.query("page_size", "page_token")
    run = await evaluation_of(call)
    if run.status not in CLOSED:
        raise unfinished(fep_of(call).evaluations, run)
    start, size = window(asked, run, call.server.serving.max_page)
    tag = _tag(run, call, start, size)
    headers = (b"etag", tag), AGAIN
    if matches(call, tag):
        return Response(b"", 304, headers=headers)
    await call.audit_read(run)
    return _results(call, run, headers, start, size)


def window(asked: dict[str, str], run: Run, most: int) -> tuple[int, int | None]:
    """Where a page begins, and how much it has; of no page, all of it."""
    start, size = 0, None
    if asked:
        size = pages.size(asked.get("page_size"), most)
    if said := asked.get("page_token"):
        place = pages.decode(said, pages.OffsetCursor)
        start = place.at
        if place.run != run.id or not 0 <= start < max(1, run.head.get("total", 0)):
            raise pages.invalid_token()
    elif "page_token" in asked:
        raise pages.invalid_token()
    return start, size


def following_page(run: Run, start: int, size: int | None) -> str | None:
    """The token of the page after this one."""
    if size is None or start + size >= run.head.get("total", 0):
        return None
    return pages.token(pages.OffsetCursor(run.id, start + size))


def _results(
    call: HttpRequest, run: Run, headers: Headers, start: int = 0, size: int | None = None
) -> Response:
    """The body stays a whole EvaluationRunResult; where it is a page, its metadata says where the next begins."""
    office, stop = fep_of(call).evaluations, None if size is None else start + size
    if following := following_page(run, start, size):
        link = f'</v1/evaluations/{run.id}?page_size={size}&page_token={following}>; rel="next"'
        headers += ((b"link", link.encode()),)
    if call.accepts_ndjson:
        return Response(_lines(office, run, start, stop), 200, LINES, headers)
    metadata = {"next_page_token": following} if following else None
    return Response(office.document(run, start, stop, metadata), headers=headers)


async def _lines(office: EvaluationService, run: Run, start: int, stop: int | None) -> AsyncGenerator[bytes]:
    held: list[bytes] = []
    async for line in office.results(run, start, stop):
        held.append(line + b"\n")
        if len(held) >= 128:
            yield b"".join(held)
            held = []
    yield b"".join(held)


def _tag(run: Run, call: HttpRequest, start: int, size: int | None) -> bytes:
    """A run that has ended does not change; how it is shown may."""
    shown = f"{run.id} {run.events} {call.accepts_ndjson} {start} {size}"
    return b'W/"%b"' % hashlib.sha256(shown.encode()).hexdigest()[:32].encode()


def unfinished(office: EvaluationService, run: Run) -> RunNotFinished:
    """Decision 41."""
    seen = office.progress(run).status
    return RunNotFinished(f"evaluation {run.id} is {seen}: it has no result yet", seen)


async def cancel_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluations/{id}:cancel: what is done stays, the rest is skipped."""
    call.query()
    body, run = await read_body(call) or b"{}", call.run_id
    decoded(_cancel, body, call.server.limits)
    once = IdempotentRequest(call, "POST /v1/evaluations/{id}:cancel", lambda: f"{run} {digest_of(body)}")

    said, replayed = await cancelled_once(call, run, once)
    return answer(said, headers=REPLAYED if replayed else ())


async def cancelled_once(
    call: RequestContext, id: str, once: IdempotentRequest
) -> tuple[CancelOperationResponse, bool]:
    """And whether an earlier request with this key did it."""

    async def cancel(documents: Sequence[PutDocument] = ()) -> CancelOperationResponse:
        return CancelOperationResponse(cancelled=await cancelled(call, id, documents))

    return await once.perform(cancel, cancel)


async def cancelled(call: RequestContext, id: str, documents: Sequence[PutDocument] = ()) -> bool:
    """Whether it has stopped by now; false: it was asked to."""
    run = await find_evaluation(call, id)
    if run.status not in CLOSED:
        try:
            desk = call.server.executor
            run = await desk.cancel(run.id, call.tenant, documents=documents, patience=PATIENCE)
        except Conflict as conflict:
            if conflict.what == "exists":
                raise  # its key is another request's
            run = await find_evaluation(call, id)
    if run.status not in CLOSED:
        return False  # it was asked to, and has not stopped yet
    if run.status == "cancelled":
        return True
    raise RunAlreadyEnded(f"evaluation {run.id} is {run.status}: it cannot be cancelled any more", run.status)
