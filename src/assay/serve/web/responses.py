"""Responses, error bodies, and the table that gives every refusal its HTTP status (openwop-contract §0.3, §2.3)."""

import base64
import binascii
import hashlib
import logging
import math
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct

from assay import errors
from assay.errors import InvalidRequest, Problem, Refusal
from assay.errors.evaluations import EvaluationFailed
from assay.ports.bugs import log_bug
from assay.protocol.operations import ErrorResponse
from assay.protocol.redaction import redact, redact_text

log = logging.getLogger("assay.rest")

Headers = tuple[tuple[bytes, bytes], ...]
JSON, LINES, HTML = b"application/json", b"application/x-ndjson", b"text/html; charset=utf-8"
TEXT = b"text/plain; charset=utf-8"
encode = msgspec.json.Encoder().encode

STATUS: dict[type[Exception], int] = {
    Refusal: 400,
    errors.UsageError: 500,
    EvaluationFailed: 500,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.RunNotFinished: 409,
    errors.RunAlreadyEnded: 409,
    errors.IdempotencyKeyReused: 409,
    errors.IdempotencyInFlight: 409,
    errors.TooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.ForkRejected: 422,
    errors.RateLimited: 429,
    errors.EnvironmentFailure: 503,
    errors.Unavailable: 503,
}
CLOSING = (
    413,
    415,
)  # answered before the body was read: the connection is closed rather than reading the rest
DEFAULT_RETRY_AFTER = 2.0  # seconds; a database may be back by then
MAX_PROBLEMS = 5  # in the message; the details have the rest


class Response(NamedTuple):
    """A status and a body: bytes, or chunks."""

    body: bytes | AsyncGenerator[bytes]
    status: int = 200
    media: bytes = JSON
    headers: Headers = ()


def answer(value: Any, status: int = 200, headers: Headers = ()) -> Response:
    return Response(encode(value), status, JSON, headers)


def status_of(refusal: Refusal) -> int:
    """The status of the nearest class in the refusal's ancestry that has one."""
    return next(STATUS[kind] for kind in type(refusal).__mro__ if kind in STATUS)


def error_response(refusal: Refusal, request: str) -> Response:
    """The error body with its status and headers."""
    status = status_of(refusal)
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(refusal, errors.UsageError):  # settings that no request has chosen
        return internal_error(refusal, request)
    if status == 503 or isinstance(refusal, errors.RateLimited | errors.IdempotencyInFlight):
        seconds: float = getattr(refusal, "retry_after", DEFAULT_RETRY_AFTER)
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(seconds))))
    if isinstance(refusal, errors.Unauthenticated):
        headers.append((b"www-authenticate", b'Bearer realm="assay"'))
    if isinstance(refusal, errors.MethodNotAllowed):
        headers.append((b"allow", ", ".join(refusal.allowed).encode()))
    if status in CLOSING:
        headers.append((b"connection", b"close"))
    return Response(encode(error_body(refusal, request)), status, JSON, tuple(headers))


def error_body(refusal: Refusal, request: str) -> ErrorResponse:
    """The error body. A failure of the environment goes to the log; the client gets only the request id."""
    if isinstance(refusal, errors.EnvironmentFailure) and not isinstance(refusal, errors.StoreLocked):
        log.error("request %s: %s", request, redact_text(str(refusal)))
        message = "storage is unavailable or full; nothing was written, retry later"
        return ErrorResponse(error="unavailable", message=message, details={"correlationId": request})
    details: dict[str, Any] = redact(dict(refusal.details))
    if status_of(refusal) in (500, 503):
        details["correlationId"] = request
    return ErrorResponse(error=refusal.code, message=redact_text(_message(refusal)), details=details or UNSET)


def internal_error(error: BaseException, request: str) -> Response:
    """The response to a bug: the request id, never a traceback."""
    return Response(encode(internal_error_body(error, request)), 500)


def internal_error_body(error: BaseException, request: str) -> ErrorResponse:
    """Logs the exception; the client gets only the request id."""
    log_bug(log.name, f"request {request}", error)
    return ErrorResponse(
        error="internal_error",
        message="internal error; see the server log for this correlationId",
        details={"correlationId": request},
    )


def _message(refusal: Refusal) -> str:
    if not isinstance(refusal, InvalidRequest):
        return str(refusal)
    sentence = "; ".join(str(problem) for problem in refusal.problems[:MAX_PROBLEMS])
    more = len(refusal.problems) - MAX_PROBLEMS
    return f"{sentence}; and {more} more" if more > 0 else sentence


# Page sizes and page tokens. A token is valid only for the list that returned it.

T = TypeVar("T")
SIZE = 50


class RunCursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last run of a page of runs, and a digest of the query."""

    created: datetime
    id: str
    query: str


class OffsetCursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The index of the next result of a run."""

    run: str
    at: int


def digest(*query: object) -> str:
    return hashlib.sha256(repr(query).encode()).hexdigest()[:16]


def token(cursor: Struct) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def decode(text: str, kind: type[T]) -> T:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise invalid_token() from None


def invalid_token() -> InvalidRequest:
    return InvalidRequest(Problem("page_token", "expected a token that this list returned"))


def size(text: str | None, limit: int) -> int:
    if text is None:
        return min(SIZE, limit)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= limit):
        raise InvalidRequest(Problem("page_size", f"expected a number from 1 to {limit}, got {text[:40]!r}"))
    return int(text)
