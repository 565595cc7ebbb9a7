"""The methods of FEP over gRPC: evaluations, operations, batches, checks and health."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from functools import partial

import msgspec
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET

from assay.concurrency.threads import LARGE, in_place, in_thread
from assay.errors import InvalidRequest, Problem
from assay.fep.records.run_header import ShardCompleted
from assay.fep.records.service import require_success
from assay.ports import CLOSED, Event, Run
from assay.protocol.operations import BatchOptions
from assay.serve.fep.batch import BatchItem, StoredBatch, run_items
from assay.serve.fep.evaluations import cancel_once, next_page_token, not_finished, window
from assay.serve.fep.operations import FILTERS
from assay.serve.fep.operations import list_operations as list_page
from assay.serve.fep.request_parser import WITHOUT_ARGUMENTS, ParsedRequest, resolved_arguments_flag
from assay.serve.fep.server_state import fep_of, find_evaluation
from assay.serve.fep.submit import Submission, SubmittedRun, start_run
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.call import RpcContext, fep_error
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.request import DecodedRequest, decode_message
from assay.serve.grpc.responses import (
    MARGIN,
    AnswerTooLarge,
    inline_result,
    operation_of,
    progress_of,
    read_result,
    result_parts,
)
from assay.serve.web.health import PROTOCOL, check_ready
from assay.serve.web.idempotency import IdempotentRequest
from assay.version import __version__


async def submit_message(
    call: RpcContext, data: bytes, operation: str, *, inline: bool
) -> tuple[DecodedRequest, SubmittedRun]:
    """Start an evaluation, or find the one that its idempotency-key has started before."""
    call.server.admission.check_open()
    decoded = await decode_request(call, data)
    once = IdempotentRequest(call, operation, await _digest_for(call, data))
    submission = Submission(decoded.request, once)
    if inline and decoded.request.planned.runs_inline:
        started = await start_run(call, submission, inline=True)
    else:
        started = await _start_shielded(call, submission)
    if started.replayed:
        call.add_trailers(("openwop-idempotent-replay", "true"))
    return decoded, started


async def decode_request(call: RpcContext, data: bytes) -> DecodedRequest:
    plans, limits, arguments = fep_of(call).plans, call.server.limits, arguments_of(call)
    return await in_place(lambda: decode_message(data, plans, limits, arguments=arguments), len(data))


async def _digest_for(call: RpcContext, data: bytes) -> Callable[[], str]:
    """A function that computes the digest of a message when needed; for a large one now, in a thread."""
    arguments = arguments_of(call)

    def make() -> str:
        return digest_of(fep.EvaluationRequest.FromString(data), arguments=arguments)

    if len(data) <= LARGE or call.header(b"idempotency-key") is None:
        return make
    digest = await in_thread(make)
    return lambda: digest


def arguments_of(call: RpcContext) -> bool:
    """The metadata `resolved-arguments` is the query parameter of REST."""
    return resolved_arguments_flag(call.header(b"resolved-arguments"), "resolved-arguments")


def digest_of(request: Message, *, arguments: bool = True) -> str:
    """The digest of the content of a message, however it was encoded."""
    digest = hashlib.sha256(request.SerializeToString(deterministic=True))
    if not arguments:
        digest.update(WITHOUT_ARGUMENTS)
    return digest.hexdigest()


async def _start_shielded(call: RpcContext, submission: Submission) -> SubmittedRun:
    """Store the run completely even if the client goes away, and cancel it afterwards."""
    starting = asyncio.ensure_future(start_run(call, submission, inline=False))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(lambda done: _abandon(call, done))
        raise


def _abandon(call: RpcContext, future: asyncio.Future[SubmittedRun]) -> None:
    if not future.cancelled() and future.exception() is None:
        call.abandon(future.result())


async def run_batch(call: RpcContext, request: fep.BatchEvaluationRequest) -> bytes:
    call.server.admission.check_open()
    decoded: dict[int, DecodedRequest] = {}

    async def read(index: int, evaluation: fep.EvaluationRequest) -> ParsedRequest:
        decoded[index] = await decode_request(call, evaluation.SerializeToString())
        return decoded[index].request

    arguments = arguments_of(call)
    once = IdempotentRequest(call, "RunBatch", lambda: digest_of(request, arguments=arguments))
    items = [BatchItem(index, partial(read, index, raw)) for index, raw in enumerate(request.evaluations)]
    try:
        stored, replayed = await run_items(call, items, _options(request), once)
    except asyncio.CancelledError:
        for item in items:
            if item.started is not None and not item.done:
                call.abandon(item.started)
        raise
    if replayed:
        call.add_trailers(("openwop-idempotent-replay", "true"))
    return await _response(call, stored, items, decoded)


async def _response(
    call: RpcContext, batch: StoredBatch, items: list[BatchItem], decoded: dict[int, DecodedRequest]
) -> bytes:
    """The results in the order of their requests, the errors, and the counts."""
    limit = call.server.serving.max_message_bytes
    results: list[bytes] = []
    size = 0
    for index, run in enumerate(batch.runs):
        if run is None:
            continue
        started = items[index].started
        if started is not None and started.result is not None:
            result = inline_result(started.result, decoded[index], limit)
        else:
            result = await read_result(call, await call.server.executor.get(run, call.tenant))
        size += len(result) + 8
        if size > limit - MARGIN:
            raise AnswerTooLarge(limit, f"read the results one by one: {', '.join(filter(None, batch.runs))}")
        results.append(length_delimited(b"\x0a", result))
    rest = fep.BatchEvaluationResponse(errors=[fep_error(error) for error in batch.errors])
    summary, message = batch.summary, rest.summary
    message.total_evaluations = summary.total_evaluations
    message.successful_evaluations = summary.successful_evaluations
    message.failed_evaluations = summary.failed_evaluations
    for field, moment in (
        (message.started_at, summary.started_at),
        (message.completed_at, summary.completed_at),
    ):
        assert isinstance(field, Timestamp)
        field.FromDatetime(moment)
    return b"".join((*results, rest.SerializeToString()))


def _options(request: fep.BatchEvaluationRequest) -> BatchOptions:
    options = request.options
    return BatchOptions(
        max_concurrent=options.max_concurrent if options.HasField("max_concurrent") else UNSET,
        timeout_ms=options.timeout_ms if options.HasField("timeout_ms") else UNSET,
        fail_fast=options.fail_fast if options.HasField("fail_fast") else UNSET,
    )


# EvaluationService (FEP 5.2): run, read and stream evaluations, and report health.

_ENDS = ("evaluation.completed", "evaluation.failed", "evaluation.cancelled", "run.failed")
_END = Event("", b"", datetime.min.replace(tzinfo=UTC))
_shard = msgspec.json.Decoder(ShardCompleted).decode


async def run_evaluation(call: RpcContext, data: bytes) -> bytes:
    decoded, started = await submit_message(call, data, "RunEvaluation", inline=True)
    if started.result is not None:
        return inline_result(started.result, decoded, call.server.serving.max_message_bytes)
    try:
        run = await call.until_disconnect(call.server.executor.wait(started.run))
    except asyncio.CancelledError:
        call.abandon(started)
        raise
    require_success(run)
    if started.replayed:
        await call.audit_read(run)
    return await read_result(call, run)


async def get_evaluation(call: RpcContext, request: fep.GetEvaluationRequest) -> bytes:
    """A whole result or one page. The metadata `page-size` and `page-token` are the query parameters of REST."""
    run = await find_evaluation(call, request.evaluation_id)
    if run.status not in CLOSED:
        raise not_finished(fep_of(call).evaluations, run)
    metadata = {"page_size": call.header(b"page-size"), "page_token": call.header(b"page-token")}
    params = {name: value for name, value in metadata.items() if value is not None}
    start, size = window(params, run, call.server.serving.max_page)
    following = next_page_token(run, start, size)
    more = {"next_page_token": following} if following else None
    await call.audit_read(run)
    return await read_result(call, run, start, None if size is None else start + size, more)


async def stream_evaluation(call: RpcContext, data: bytes) -> AsyncGenerator[bytes]:
    """Progress as it comes, then the result, in one message or in several if it is large."""
    _, started = await submit_message(call, data, "StreamEvaluation", inline=False)
    run = await call.server.executor.get(started.run, call.tenant)
    call.reservation.reserve_stream()
    try:
        async for progress in _progress(call, run):
            yield progress
    except (asyncio.CancelledError, GeneratorExit):
        call.abandon(started)
        raise
    run = await call.server.executor.get(started.run, call.tenant)
    last = progress_of(fep_of(call).evaluations.progress(run)).SerializeToString()
    if run.status == "failed":
        yield last
        require_success(run)
    async for part in result_parts(call, run):
        yield last + length_delimited(b"\x2a", part)


async def _progress(call: RpcContext, run: Run) -> AsyncGenerator[bytes]:
    """One message per recorded event, except the last one, which is sent with the result."""
    message = progress_of(fep_of(call).evaluations.progress(run))
    message.status = "running"
    message.completed_test_cases = 0
    events = call.server.executor.follow(run.id, call.tenant)
    while True:
        event = await call.until_disconnect(anext(events, _END))
        if event is _END or (event is not None and event.type in _ENDS):
            return
        if event is None:
            continue
        if event.type == "evaluation.shard":
            message.completed_test_cases += _shard(event.data).summary.total_test_cases
        yield message.SerializeToString()


async def health_check(call: RpcContext, request: fep.HealthCheckRequest) -> bytes:
    await check_ready(call.server)
    healthy = fep.HealthCheckResponse(status="healthy", version=PROTOCOL, assay_version=__version__)
    return healthy.SerializeToString()


# The filter of ListOperations: the query parameters of REST, as `status = "running" AND since =
# 2026-07-01T12:00:00Z`.

_TERM = re.compile(r'\s*(?P<name>\w+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\["\\])*)"|(?P<plain>[\w.:+-]+))\s*')
_AND = re.compile(r"AND\b")


def read_filter(text: str) -> dict[str, str]:
    """The values by name. A name given twice is refused."""
    values: dict[str, str] = {}
    at = 0
    while text.strip() and (at == 0 or at < len(text)):
        if at and (joined := _AND.match(text, at)):
            at = joined.end()
        elif at:
            raise _invalid(text, at, "expected AND")
        term = _TERM.match(text, at)
        if term is None:
            raise _invalid(text, at, 'expected NAME = VALUE, such as status = "running"')
        name = term["name"]
        if name not in FILTERS:
            raise _invalid(text, at, f"expected one of {', '.join(FILTERS)}")
        if name in values:
            raise _invalid(text, at, f"{name} is given twice")
        quoted = term["quoted"]
        values[name] = term["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = term.end()
    return values


def _invalid(text: str, position: int, message: str) -> InvalidRequest:
    return InvalidRequest(
        Problem("filter", f"{message}, got {text[position : position + 40]!r} at {position}")
    )


# AsyncEvaluationService (FEP 5.2): start, get, list and cancel evaluations.


async def start_evaluation(call: RpcContext, data: bytes) -> bytes:
    _, started = await submit_message(call, data, "StartEvaluation", inline=False)
    run = await call.server.executor.get(started.run, call.tenant)
    return operation_of(fep_of(call).evaluations.operation(run)).SerializeToString()


async def get_operation(call: RpcContext, request: fep.GetOperationRequest) -> bytes:
    """The operation; with the result, if the evaluation has ended and the result fits into one message."""
    run = await find_evaluation(call, request.operation_id)
    operation = operation_of(fep_of(call).evaluations.operation(run)).SerializeToString()
    if run.status not in CLOSED or run.status == "failed":
        return operation
    try:
        await call.audit_read(run)
        return operation + length_delimited(b"\x3a", await read_result(call, run))
    except AnswerTooLarge:
        return operation


async def list_operations(call: RpcContext, request: fep.ListOperationsRequest) -> bytes:
    params = read_filter(request.filter)
    if request.HasField("page_size") and request.page_size != 0:  # 0: the default
        params["page_size"] = str(request.page_size)
    if request.page_token:
        params["page_token"] = request.page_token
    page = await list_page(call, params)
    response = fep.ListOperationsResponse(
        operations=[operation_of(operation) for operation in page.operations]
    )
    if page.next_page_token is not UNSET:
        response.next_page_token = page.next_page_token
    return response.SerializeToString()


async def cancel_operation(call: RpcContext, request: fep.CancelOperationRequest) -> bytes:
    """Completed cases keep their results, the rest is skipped."""
    once = IdempotentRequest(call, "CancelOperation", lambda: digest_of(request))
    response, replayed = await cancel_once(call, request.operation_id, once)
    if replayed:
        call.add_trailers(("openwop-idempotent-replay", "true"))
    return fep.CancelOperationResponse(cancelled=response.cancelled).SerializeToString()
