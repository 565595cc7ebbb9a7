"""Evaluations: run one, start one, read one, cancel one (FEP 5.1; FEP-3, FEP-41)."""

import hashlib
from collections.abc import AsyncGenerator, Sequence

import msgspec

from assay.errors import Conflict, InvalidRequest, Problem, RunAlreadyEnded, RunNotFinished
from assay.fep.outputs.run_result import result_json as whole_result
from assay.fep.records.erase import erase
from assay.fep.records.service import EvaluationService, require_success
from assay.ports import CLOSED, PutDocument, Run
from assay.protocol.operations import CancelOperationResponse, EraseEvaluationResponse
from assay.protocol.runs import CancelRequest
from assay.serve.fep.events_feed import cursor_of
from assay.serve.fep.request_parser import ARGUMENTS, read_json
from assay.serve.fep.server_state import evaluation_of, fep_of, find_evaluation
from assay.serve.fep.submit import STORE, digest_for, run_unstored, submit_body
from assay.serve.web import responses as pages
from assay.serve.web.body_reader import read_document
from assay.serve.web.event_stream import EventStream
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest, RequestContext, matches
from assay.serve.web.responses import LINES, Headers, Response, answer

REVALIDATE = (b"cache-control", b"private, no-cache")  # clients may cache it, and revalidate it by its ETag


_cancel = msgspec.json.Decoder(CancelRequest).decode
CANCEL_SECONDS = 2.8  # to wait for a run to stop


async def run_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluate: run an evaluation and return its result."""
    if b"store=" in call.scope["query_string"]:
        return await _run_for_result(call)
    started = await submit_body(call, "POST /v1/evaluate", inline=True)
    headers: Headers = ((b"content-location", f"/v1/evaluations/{started.run}".encode()),)
    if started.replayed:
        headers += REPLAYED
    if started.result is not None and not call.accepts_ndjson:
        return Response(whole_result(*started.result), headers=headers)
    run = await call.until_disconnect(call.server.executor.wait(started.run))
    require_success(run)
    if started.replayed:
        await call.audit_read(run)
    return _results(call, run, headers)


async def _run_for_result(call: HttpRequest) -> Response:
    """POST /v1/evaluate?store=false: the result alone."""
    store = call.query(ARGUMENTS, STORE).get(STORE)
    if store != "false":
        raise InvalidRequest(Problem(STORE, f"expected false, or no `store`, got {str(store)[:40]!r}"))
    return Response(whole_result(*await run_unstored(call)))


async def start_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluations: start an evaluation and return its operation."""
    started = await submit_body(call, "POST /v1/evaluations", inline=False)
    run = await call.server.executor.get(started.run, call.tenant)
    headers: Headers = ((b"location", f"/v1/operations/{run.id}".encode()),)
    return answer(
        fep_of(call).evaluations.operation(run), 202, headers + REPLAYED if started.replayed else headers
    )


async def get_evaluation(call: HttpRequest) -> Response:
    """GET /v1/evaluations/{id}: the result, as one document, as NDJSON, or one page of it."""
    params = call.query("page_size", "page_token")
    run = await evaluation_of(call)
    if run.status not in CLOSED:
        raise not_finished(fep_of(call).evaluations, run)
    start, size = window(params, run, call.server.serving.max_page)
    tag = _tag(run, call, start, size)
    headers = (b"etag", tag), REVALIDATE
    if matches(call, tag) and not run.erased:
        return Response(b"", 304, headers=headers)
    await call.audit_read(run)
    return _results(call, run, headers, start, size)


def window(params: dict[str, str], run: Run, limit: int) -> tuple[int, int | None]:
    """The first index and the size of the page that the parameters ask for; without them, 0 and None for everything."""
    start, size = 0, None
    if params:
        size = pages.size(params.get("page_size"), limit)
    if token := params.get("page_token"):
        cursor = pages.decode(token, pages.OffsetCursor)
        start = cursor.at
        if cursor.run != run.id or not 0 <= start < max(1, run.metadata.get("total", 0)):
            raise pages.invalid_token()
    elif "page_token" in params:
        raise pages.invalid_token()
    return start, size


def next_page_token(run: Run, start: int, size: int | None) -> str | None:
    """The token of the next page; None after the last one."""
    if size is None or start + size >= run.metadata.get("total", 0):
        return None
    return pages.token(pages.OffsetCursor(run.id, start + size))


def _results(
    call: HttpRequest, run: Run, headers: Headers, start: int = 0, size: int | None = None
) -> Response:
    """The body of a page is an EvaluationRunResult too; its metadata has the token of the next page."""
    evaluations, stop = fep_of(call).evaluations, None if size is None else start + size
    if following := next_page_token(run, start, size):
        link = f'</v1/evaluations/{run.id}?page_size={size}&page_token={following}>; rel="next"'
        headers += ((b"link", link.encode()),)
    if call.accepts_ndjson:
        return Response(_lines(evaluations, run, start, stop), 200, LINES, headers)
    metadata = {"next_page_token": following} if following else None
    return Response(evaluations.stream_result(run, start, stop, metadata), headers=headers)


async def _lines(
    evaluations: EvaluationService, run: Run, start: int, stop: int | None
) -> AsyncGenerator[bytes]:
    batch: list[bytes] = []
    async for line in evaluations.results(run, start, stop):
        batch.append(line + b"\n")
        if len(batch) >= 128:
            yield b"".join(batch)
            batch = []
    yield b"".join(batch)


def _tag(run: Run, call: HttpRequest, start: int, size: int | None) -> bytes:
    """A run that has ended does not change, but its representations differ."""
    variant = f"{run.id} {run.events} {call.accepts_ndjson} {start} {size}"
    return b'W/"%b"' % hashlib.sha256(variant.encode()).hexdigest()[:32].encode()


def not_finished(evaluations: EvaluationService, run: Run) -> RunNotFinished:
    """The refusal of a result that does not exist yet (FEP-41)."""
    status = evaluations.progress(run).status
    return RunNotFinished(f"evaluation {run.id} is {status}: it has no result yet", status)


async def erase_evaluation(call: HttpRequest) -> Response:
    """DELETE /v1/evaluations/{id}: erase its content."""
    call.query()
    run = await erase(fep_of(call).evaluations, await evaluation_of(call))
    status = fep_of(call).evaluations.operation(run).status
    return answer(EraseEvaluationResponse(evaluation_id=run.id, status=status, erased_at=run.erased))


async def cancel_evaluation(call: HttpRequest) -> Response:
    """POST /v1/evaluations/{id}:cancel: completed cases keep their results, the rest is skipped."""
    call.query()
    body, run = await read_document(call) or b"{}", call.run_id
    await read_json(call, _cancel, body)
    digest = await digest_for(call, body)
    once = IdempotentRequest(call, "POST /v1/evaluations/{id}:cancel", lambda: f"{run} {digest()}")

    response, replayed = await cancel_once(call, run, once)
    return answer(response, headers=REPLAYED if replayed else ())


async def cancel_once(
    call: RequestContext, id: str, idempotency: IdempotentRequest
) -> tuple[CancelOperationResponse, bool]:
    """Cancel an evaluation; and whether an earlier request with this key did."""

    async def cancel(documents: Sequence[PutDocument] = ()) -> CancelOperationResponse:
        return CancelOperationResponse(cancelled=await cancel_evaluation_run(call, id, documents))

    return await idempotency.perform(cancel, cancel)


async def cancel_evaluation_run(call: RequestContext, id: str, documents: Sequence[PutDocument] = ()) -> bool:
    """Whether the evaluation has stopped; False: it was told to stop and has not yet."""
    run = await find_evaluation(call, id)
    if run.status not in CLOSED:
        try:
            executor = call.server.executor
            run = await executor.cancel(run.id, call.tenant, documents=documents, timeout=CANCEL_SECONDS)
        except Conflict as conflict:
            if conflict.reason == "exists":
                raise  # another request has used its key
            run = await find_evaluation(call, id)
    if run.status not in CLOSED:
        return False
    if run.status == "cancelled":
        return True
    raise RunAlreadyEnded(f"evaluation {run.id} is {run.status}: it can no longer be cancelled", run.status)


async def follow_evaluation(call: HttpRequest) -> Response | EventStream:
    """GET /v1/evaluations/{id}/events: progress and results as server-sent events."""
    call.query()
    call.server.admission.check_open()
    run = await evaluation_of(call)
    cursor = cursor_of(call.header(b"last-event-id"))
    await fep_of(call).feeds.check(run, cursor)
    if run.status in CLOSED and cursor.sequence >= run.events and not run.erased:
        return Response(b"", 204)  # no more events will come: 204 stops a browser from reconnecting
    await call.audit_read(run)
    return EventStream(call, run, fep_of(call).feeds.follow(run, cursor))
