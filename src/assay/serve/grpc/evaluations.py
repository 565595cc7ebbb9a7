"""EvaluationService (FEP 5.2): run, read and stream evaluations, and report health."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import msgspec

from assay.fep.records.run_header import ShardCompleted
from assay.fep.records.service import require_success
from assay.ports import CLOSED, Event, Run
from assay.serve.fep.evaluations import next_page_token, not_finished, window
from assay.serve.fep.state import fep_of, find_evaluation
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.responses import inline_result, progress_of, read_result, result_parts
from assay.serve.grpc.submit import submit_message
from assay.serve.web.health import PROTOCOL, check_ready
from assay.version import __version__

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
