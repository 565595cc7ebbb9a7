"""RunBatch: many evaluations in one request; a bad one does not sink the others (decisions 3, 42)."""

import asyncio
from functools import partial

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET

from assay.protocol.operations import BatchOptions
from assay.serve.fep.batch import BatchItem, StoredBatch, conduct
from assay.serve.fep.request import ParsedRequest
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.errors import fep_error
from assay.serve.grpc.request import DecodedRequest
from assay.serve.grpc.responses import MARGIN, AnswerTooLarge, kept_result, made_result
from assay.serve.grpc.submit import arguments_of, converted_from, digest_of
from assay.serve.web.idempotency import IdempotentRequest


async def run_batch(call: RpcContext, request: fep.BatchEvaluationRequest) -> bytes:
    call.server.admission.check_open()
    converted: dict[int, DecodedRequest] = {}

    async def read(index: int, one: fep.EvaluationRequest) -> ParsedRequest:
        converted[index] = await converted_from(call, one.SerializeToString())
        return converted[index].whole

    arguments = arguments_of(call)
    once = IdempotentRequest(call, "RunBatch", lambda: digest_of(request, arguments=arguments))
    parts = [BatchItem(index, partial(read, index, one)) for index, one in enumerate(request.evaluations)]
    try:
        kept, replayed = await conduct(call, parts, _options(request), once)
    except asyncio.CancelledError:
        for part in parts:
            if part.begun is not None and not part.done:
                call.give_up(part.begun)
        raise
    if replayed:
        call.tell(("openwop-idempotent-replay", "true"))
    return await _response(call, kept, parts, converted)


async def _response(
    call: RpcContext, kept: StoredBatch, parts: list[BatchItem], converted: dict[int, DecodedRequest]
) -> bytes:
    """The results in the order of their requests, the errors, and the counts."""
    limit = call.server.serving.max_message_bytes
    pieces: list[bytes] = []
    size = 0
    for index, run in enumerate(kept.runs):
        if run is None:
            continue
        begun = parts[index].begun
        if begun is not None and begun.made is not None:
            result = made_result(begun.made, converted[index], limit)
        else:
            result = await kept_result(call, await call.server.executor.get(run, call.tenant))
        size += len(result) + 8
        if size > limit - MARGIN:
            raise AnswerTooLarge(limit, f"read the results one by one: {', '.join(filter(None, kept.runs))}")
        pieces.append(length_delimited(b"\x0a", result))
    rest = fep.BatchEvaluationResponse(errors=[fep_error(error) for error in kept.errors])
    said, shown = kept.summary, rest.summary
    shown.total_evaluations = said.total_evaluations
    shown.successful_evaluations = said.successful_evaluations
    shown.failed_evaluations = said.failed_evaluations
    for field, moment in ((shown.started_at, said.started_at), (shown.completed_at, said.completed_at)):
        assert isinstance(field, Timestamp)
        field.FromDatetime(moment)
    return b"".join((*pieces, rest.SerializeToString()))


def _options(request: fep.BatchEvaluationRequest) -> BatchOptions:
    said = request.options
    return BatchOptions(
        max_concurrent=said.max_concurrent if said.HasField("max_concurrent") else UNSET,
        timeout_ms=said.timeout_ms if said.HasField("timeout_ms") else UNSET,
        fail_fast=said.fail_fast if said.HasField("fail_fast") else UNSET,
    )
