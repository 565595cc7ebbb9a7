"""EvaluationService (FEP 5.2): run, read and stream evaluations, and whether this host is up."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import msgspec

from assay.fep.run_header import ShardCompleted
from assay.ports import CLOSED, Event, Run
from assay.serve.fep.evaluations import following_page, unfinished, window
from assay.serve.fep.state import fep_of, find_evaluation
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.responses import kept_result, made_result, progress_of, result_parts
from assay.serve.grpc.submit import begin_wanted
from assay.serve.web.health import PROTOCOL

_ENDS = ("evaluation.completed", "evaluation.failed", "evaluation.cancelled", "run.failed")
_END = Event("", b"", datetime.min.replace(tzinfo=UTC))
_shard = msgspec.json.Decoder(ShardCompleted).decode


async def run_evaluation(call: RpcContext, data: bytes) -> bytes:
    converted, begun = await begin_wanted(call, data, "RunEvaluation", at_once=True)
    if begun.made is not None:
        return made_result(begun.made, converted, call.server.serving.max_message_bytes)
    try:
        run = await call.until_disconnect(call.server.executor.wait(begun.run))
    except asyncio.CancelledError:
        call.give_up(begun)
        raise
    if begun.replayed:
        await call.audit_read(run)
    return await kept_result(call, run)


async def get_evaluation(call: RpcContext, request: fep.GetEvaluationRequest) -> bytes:
    """Whole, or a page of it: the metadata `page-size` and `page-token` are what REST has in its query."""
    run = await find_evaluation(call, request.evaluation_id)
    if run.status not in CLOSED:
        raise unfinished(fep_of(call).evaluations, run)
    said = {"page_size": call.header(b"page-size"), "page_token": call.header(b"page-token")}
    asked = {name: value for name, value in said.items() if value is not None}
    start, size = window(asked, run, call.server.serving.max_page)
    following = following_page(run, start, size)
    more = {"next_page_token": following} if following else None
    await call.audit_read(run)
    return await kept_result(call, run, start, None if size is None else start + size, more)


async def stream_evaluation(call: RpcContext, data: bytes) -> AsyncGenerator[bytes]:
    """Progress as it comes, then the result: in one message, or in as many as it takes."""
    _, begun = await begin_wanted(call, data, "StreamEvaluation", at_once=False)
    run = await call.server.executor.get(begun.run, call.tenant)
    call.reservation.reserve_stream()
    try:
        async for progress in _progress(call, run):
            yield progress
    except (asyncio.CancelledError, GeneratorExit):
        call.give_up(begun)
        raise
    run = await call.server.executor.get(begun.run, call.tenant)
    last = progress_of(fep_of(call).evaluations.progress(run)).SerializeToString()
    if run.status == "failed":
        yield last
        return
    async for part in result_parts(call, run):
        yield last + length_delimited(b"\x2a", part)


async def _progress(call: RpcContext, run: Run) -> AsyncGenerator[bytes]:
    """One message an event of the record, until the last, which the result goes with."""
    shown = progress_of(fep_of(call).evaluations.progress(run))
    shown.status = "running"
    shown.completed_test_cases = 0
    events = call.server.executor.follow(run.id, call.tenant)
    while True:
        event = await call.until_disconnect(anext(events, _END))
        if event is _END or (event is not None and event.type in _ENDS):
            return
        if event is None:
            continue
        if event.type == "evaluation.shard":
            shown.completed_test_cases += _shard(event.data).summary.total_test_cases
        yield shown.SerializeToString()


async def health_check(call: RpcContext, request: fep.HealthCheckRequest) -> bytes:
    call.server.admission.check_open()
    return fep.HealthCheckResponse(status="healthy", version=PROTOCOL).SerializeToString()
