"""From a message to a run: done at once where it is small, taken in and begun where it is not."""

import asyncio
import hashlib
from collections.abc import Callable

from google.protobuf.message import Message

from assay.serve.fep.request import WITHOUT_ARGUMENTS, shows_arguments
from assay.serve.fep.state import fep_of
from assay.serve.fep.submit import Started, Submission, begin, read_checks
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.context import RpcContext
from assay.serve.grpc.receive import LARGE
from assay.serve.grpc.request import DecodedRequest, convert
from assay.serve.web.idempotency import IdempotentRequest


async def begin_wanted(
    call: RpcContext, data: bytes, operation: str, *, at_once: bool
) -> tuple[DecodedRequest, Started]:
    """Start it, or find what its idempotency-key has started before."""
    call.server.admission.check_open()
    converted = await converted_from(call, data)
    once = IdempotentRequest(call, operation, await _digest_for(call, data))
    want = Submission(converted.whole, once)
    if at_once and converted.whole.asked.at_once:
        begun = await begin(call, want, at_once=True)
    else:
        begun = await _begun(call, want)
    if begun.replayed:
        call.tell(("openwop-idempotent-replay", "true"))
    return converted, begun


async def converted_from(call: RpcContext, data: bytes) -> DecodedRequest:
    plans, limits, arguments = fep_of(call).plans, call.server.limits, arguments_of(call)
    return await read_checks(call, lambda: convert(data, plans, limits, arguments=arguments), len(data))


async def _digest_for(call: RpcContext, data: bytes) -> Callable[[], str]:
    """What makes the digest of a message, if it is wanted; that of a large one has been made in a thread."""
    arguments = arguments_of(call)

    def make() -> str:
        return digest_of(fep.EvaluationRequest.FromString(data), arguments=arguments)

    if len(data) <= LARGE or call.header(b"idempotency-key") is None:
        return make
    digest = await call.in_thread(make)
    return lambda: digest


def arguments_of(call: RpcContext) -> bool:
    """The metadata `resolved-arguments` is what REST has in its query."""
    return shows_arguments(call.header(b"resolved-arguments"), "resolved-arguments")


def digest_of(request: Message, *, arguments: bool = True) -> str:
    """Of what it says, not of how it was written."""
    digest = hashlib.sha256(request.SerializeToString(deterministic=True))
    if not arguments:
        digest.update(WITHOUT_ARGUMENTS)
    return digest.hexdigest()


async def _begun(call: RpcContext, want: Submission) -> Started:
    """What is being taken in is taken in whole, and then stopped if nobody waits for it any longer."""
    beginning = asyncio.ensure_future(begin(call, want, at_once=False))
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        beginning.add_done_callback(lambda done: _give_up(call, done))
        raise


def _give_up(call: RpcContext, done: asyncio.Future[Started]) -> None:
    if not done.cancelled() and done.exception() is None:
        call.give_up(done.result())
