"""One gRPC call: its metadata, its trailers, and the run that is cancelled if its client goes away."""

import asyncio
import math
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import ServicerContext
from msgspec import UNSET

from assay import errors
from assay.concurrency.event_loop import run_guarded
from assay.errors import Refusal
from assay.errors.evaluations import EvaluationFailed
from assay.protocol.operations import ErrorResponse
from assay.serve.fep.submit import SubmittedRun
from assay.serve.grpc.codec import encode as packed
from assay.serve.grpc.fep_pb2 import FepError
from assay.serve.web.request import RequestContext, ServerState, headers_by_name
from assay.serve.web.responses import DEFAULT_RETRY_AFTER, log

Context = ServicerContext[Any, Any]


class RpcContext(RequestContext):
    """gRPC cancels the task of a call when its client goes away: code that waits in it gets CancelledError."""

    __slots__ = ("context", "trailers")

    def __init__(self, server: ServerState, context: Context) -> None:
        metadata = context.invocation_metadata() or ()
        super().__init__(
            server, headers_by_name([(name.encode(), _bytes(value)) for name, value in metadata])
        )
        self.context = context
        self.trailers: Metadata = (("x-request-id", self.id),)

    def add_trailers(self, *metadata: tuple[str, str | bytes]) -> None:
        """Send metadata at the end of the response, also if it is an error."""
        self.trailers += metadata
        self.context.set_trailing_metadata(self.trailers)

    def abandon(self, run: SubmittedRun) -> None:
        """
        The client went away: cancel the run, unless another request may need it.

        A client that sent an idempotency-key may retry and ask for the same run.
        """
        if not run.replayed and run.result is None and self.header(b"idempotency-key") is None:
            task = asyncio.create_task(_stop(self, run.run))
            _STOPPING.add(task)
            task.add_done_callback(_STOPPING.discard)


_STOPPING: set[asyncio.Task[None]] = set()


async def _stop(call: RpcContext, run: str) -> None:
    trouble = await run_guarded("stop", call.server.executor.cancel(run, call.tenant), Refusal)
    if isinstance(trouble, Refusal):  # it has ended meanwhile, or the database is unavailable
        log.info("request %s: run %s was not cancelled: %s", call.id, run, trouble)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")


# The table that gives every refusal its gRPC status (FEP-42). The status details carry the error body of REST.

STATUS: dict[type[Exception], StatusCode] = {
    Refusal: StatusCode.INVALID_ARGUMENT,
    errors.UsageError: StatusCode.INTERNAL,
    EvaluationFailed: StatusCode.INTERNAL,
    errors.Unauthenticated: StatusCode.UNAUTHENTICATED,
    errors.Forbidden: StatusCode.PERMISSION_DENIED,
    errors.NotFound: StatusCode.NOT_FOUND,
    errors.MethodNotAllowed: StatusCode.UNIMPLEMENTED,
    errors.NotRepresentable: StatusCode.OUT_OF_RANGE,
    errors.Conflict: StatusCode.FAILED_PRECONDITION,
    errors.RunNotFinished: StatusCode.FAILED_PRECONDITION,
    errors.RunAlreadyEnded: StatusCode.FAILED_PRECONDITION,
    errors.IdempotencyKeyReused: StatusCode.ALREADY_EXISTS,
    errors.IdempotencyInFlight: StatusCode.ABORTED,
    errors.TooLarge: StatusCode.RESOURCE_EXHAUSTED,
    errors.UnsupportedMediaType: StatusCode.INVALID_ARGUMENT,
    errors.RateLimited: StatusCode.RESOURCE_EXHAUSTED,
    errors.EnvironmentFailure: StatusCode.UNAVAILABLE,
    errors.Unavailable: StatusCode.UNAVAILABLE,
}
LONGEST = 4 * 1024  # bytes of details; all metadata together must fit into 8 kB
SENTENCE = 1_000
Metadata = tuple[tuple[str, str | bytes], ...]


def status_of(refusal: Refusal) -> StatusCode:
    """The status of the nearest class in the refusal's ancestry that has one."""
    return next(STATUS[kind] for kind in type(refusal).__mro__ if kind in STATUS)


def trailing(code: StatusCode, body: ErrorResponse, refusal: Refusal | None = None) -> Metadata:
    """`grpc-status-details-bin`, a google.rpc.Status with a FepError; and `retry-after`, if a retry may help."""
    number: int = code.value[0]
    detail = Packed(type_url="type.googleapis.com/fep.v1.FepError", value=_fitting(body).SerializeToString())
    status = Status(code=number, message=status_message(body), details=[detail])
    metadata: Metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    if code is StatusCode.UNAVAILABLE or isinstance(refusal, errors.RateLimited | errors.IdempotencyInFlight):
        seconds: float = getattr(refusal, "retry_after", DEFAULT_RETRY_AFTER)
        metadata += (("retry-after", str(max(1, math.ceil(seconds)))),)
    return metadata


def status_message(body: ErrorResponse) -> str:
    return body.message if len(body.message) <= SENTENCE else body.message[:SENTENCE] + "…"


def fep_error(body: ErrorResponse) -> FepError:
    """The error body as FEP's message for gRPC."""
    error = FepError(code=body.error, message=body.message)
    if body.details is not UNSET:
        error.details.MergeFromString(packed.struct(body.details))
    return error


def _fitting(body: ErrorResponse) -> FepError:
    """The error with as count of its problems as fit into the metadata."""
    error = fep_error(ErrorResponse(error=body.error, message=status_message(body), details=body.details))
    problems: list[Any] = [] if body.details is UNSET else list(body.details.get("problems", []))
    more: int = 0 if body.details is UNSET else body.details.get("more", 0)
    count = len(problems)
    while error.ByteSize() > LONGEST and body.details is not UNSET:
        count //= 2
        details = {**body.details, "problems": problems[:count], "more": len(problems) - count + more}
        if not count:
            details = {"more": len(problems) + more}
        error = fep_error(ErrorResponse(error=body.error, message=status_message(body), details=details))
        if not count:
            break
    return error


_NAMES: dict[object, str] = {code.value[0]: code.name for code in StatusCode}


def code_of(context: Any) -> str:
    """The name of the status that a call ended with."""
    code = context.code()
    return code.name if isinstance(code, StatusCode) else _NAMES.get(code, "OK")
