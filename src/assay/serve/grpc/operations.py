"""AsyncEvaluationService (FEP 5.2): start evaluations, see how far they are, list and cancel them."""

from msgspec import UNSET

from assay.ports import CLOSED
from assay.serve.fep.evaluations import cancelled_once
from assay.serve.fep.operations import listed
from assay.serve.fep.state import fep_of, find_evaluation
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.filters import read_filter
from assay.serve.grpc.responses import AnswerTooLarge, kept_result, operation_of
from assay.serve.grpc.submit import begin_wanted, digest_of
from assay.serve.web.idempotency import IdempotentRequest


async def start_evaluation(call: RpcContext, data: bytes) -> bytes:
    _, begun = await begin_wanted(call, data, "StartEvaluation", at_once=False)
    run = await call.server.executor.get(begun.run, call.tenant)
    return operation_of(fep_of(call).evaluations.operation(run)).SerializeToString()


async def get_operation(call: RpcContext, request: fep.GetOperationRequest) -> bytes:
    """With the result, once there is one that one message can hold."""
    run = await find_evaluation(call, request.operation_id)
    shown = operation_of(fep_of(call).evaluations.operation(run)).SerializeToString()
    if run.status not in CLOSED or run.status == "failed":
        return shown
    try:
        await call.audit_read(run)
        return shown + length_delimited(b"\x3a", await kept_result(call, run))
    except AnswerTooLarge:
        return shown


async def list_operations(call: RpcContext, request: fep.ListOperationsRequest) -> bytes:
    asked = read_filter(request.filter)
    if request.HasField("page_size") and request.page_size != 0:  # 0: as many as the host likes
        asked["page_size"] = str(request.page_size)
    if request.page_token:
        asked["page_token"] = request.page_token
    found = await listed(call, asked)
    response = fep.ListOperationsResponse(operations=[operation_of(one) for one in found.operations])
    if found.next_page_token is not UNSET:
        response.next_page_token = found.next_page_token
    return response.SerializeToString()


async def cancel_operation(call: RpcContext, request: fep.CancelOperationRequest) -> bytes:
    """What is done stays, the rest is skipped."""
    once = IdempotentRequest(call, "CancelOperation", lambda: digest_of(request))
    said, replayed = await cancelled_once(call, request.operation_id, once)
    if replayed:
        call.tell(("openwop-idempotent-replay", "true"))
    return fep.CancelOperationResponse(cancelled=said.cancelled).SerializeToString()
