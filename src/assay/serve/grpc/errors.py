"""What is said no with: the one table that gives every refusal its status (decision 42), and REST's body in the details."""

import math
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from msgspec import UNSET

from assay import errors
from assay.errors import Refusal
from assay.protocol.operations import ErrorResponse
from assay.serve.grpc.codec import encode as packed
from assay.serve.grpc.fep_pb2 import FepError
from assay.serve.web.responses import DEFAULT_RETRY_AFTER

STATUS: dict[type[Exception], StatusCode] = {
    Refusal: StatusCode.INVALID_ARGUMENT,
    errors.UsageError: StatusCode.INTERNAL,
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
LONGEST = 4 * 1024  # bytes of details: with all the rest they must fit into 8 kB of metadata
SENTENCE = 1_000
Metadata = tuple[tuple[str, str | bytes], ...]


def status_of(refusal: Refusal) -> StatusCode:
    """By ancestry: that of the nearest class that has one."""
    return next(STATUS[kind] for kind in type(refusal).__mro__ if kind in STATUS)


def trailing(code: StatusCode, said: ErrorResponse, refusal: Refusal | None = None) -> Metadata:
    """`grpc-status-details-bin`, a google.rpc.Status with a FepError in it; and when to come again."""
    number: int = code.value[0]
    detail = Packed(type_url="type.googleapis.com/fep.v1.FepError", value=_fitting(said).SerializeToString())
    status = Status(code=number, message=sentence(said), details=[detail])
    metadata: Metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    if code is StatusCode.UNAVAILABLE or isinstance(refusal, errors.RateLimited | errors.IdempotencyInFlight):
        seconds: float = getattr(refusal, "retry_after", DEFAULT_RETRY_AFTER)
        metadata += (("retry-after", str(max(1, math.ceil(seconds)))),)
    return metadata


def sentence(said: ErrorResponse) -> str:
    return said.message if len(said.message) <= SENTENCE else said.message[:SENTENCE] + "…"


def fep_error(said: ErrorResponse) -> FepError:
    """The error body as the text has it for gRPC."""
    error = FepError(code=said.error, message=said.message)
    if said.details is not UNSET:
        error.details.MergeFromString(packed.struct(said.details))
    return error


def _fitting(said: ErrorResponse) -> FepError:
    """With as many of its problems as metadata can hold."""
    error = fep_error(ErrorResponse(error=said.error, message=sentence(said), details=said.details))
    problems: list[Any] = [] if said.details is UNSET else list(said.details.get("problems", []))
    more: int = 0 if said.details is UNSET else said.details.get("more", 0)
    many = len(problems)
    while error.ByteSize() > LONGEST and said.details is not UNSET:
        many //= 2
        details = {**said.details, "problems": problems[:many], "more": len(problems) - many + more}
        if not many:
            details = {"more": len(problems) + more}
        error = fep_error(ErrorResponse(error=said.error, message=sentence(said), details=details))
        if not many:
            break
    return error


_NAMES: dict[object, str] = {code.value[0]: code.name for code in StatusCode}


def code_of(context: Any) -> str:
    """The name of the status an answer ended with."""
    code = context.code()
    return code.name if isinstance(code, StatusCode) else _NAMES.get(code, "OK")
