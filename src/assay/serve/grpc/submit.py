"""From a message to a run: a small one runs inline, another one is stored and started."""

import asyncio
import hashlib
from collections.abc import Callable

from google.protobuf.message import Message

from assay.concurrency.tenant_threads import LARGE, in_place, in_thread
from assay.serve.fep.request_parser import WITHOUT_ARGUMENTS, resolved_arguments_flag
from assay.serve.fep.server_state import fep_of
from assay.serve.fep.submit import Submission, SubmittedRun, start_run
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.call import RpcContext
from assay.serve.grpc.request import DecodedRequest, decode_message
from assay.serve.web.idempotency import IdempotentRequest


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
    """
    A function that computes the digest of a message when it is needed; that of a large one is computed now, in a
    thread.
    """
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
