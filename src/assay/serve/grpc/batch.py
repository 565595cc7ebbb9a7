"""RunBatch: many evaluations in one request; a failed one does not fail the others (FEP-3, FEP-42)."""

import asyncio
from functools import partial

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET

from assay.protocol.operations import BatchOptions
from assay.serve.fep.batch import BatchItem, StoredBatch, run_items
from assay.serve.fep.request_parser import ParsedRequest
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.errors import fep_error
from assay.serve.grpc.request import DecodedRequest
from assay.serve.grpc.responses import MARGIN, AnswerTooLarge, inline_result, read_result
from assay.serve.grpc.submit import arguments_of, decode_request, digest_of
from assay.serve.web.idempotency import IdempotentRequest


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
