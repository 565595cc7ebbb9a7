"""AsyncEvaluationService (FEP 5.2): start, get, list and cancel evaluations."""

from msgspec import UNSET

from assay.ports import CLOSED
from assay.serve.fep.evaluations import cancel_once
from assay.serve.fep.operations import list_operations as list_page
from assay.serve.fep.state import fep_of, find_evaluation
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.filters import read_filter
from assay.serve.grpc.responses import AnswerTooLarge, operation_of, read_result
from assay.serve.grpc.submit import digest_of, submit_message
from assay.serve.web.idempotency import IdempotentRequest


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
