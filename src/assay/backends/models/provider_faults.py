"""Turns provider failures into faults with advice (FEP-26). Messages contain no secrets."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import msgspec

from assay.backends.models.key_scrubbing import scrub
from assay.backends.models.transport import (
    ConnectionLost,
    HttpAnswer,
    Outcome,
    TimedOut,
    TooLargeReply,
    base_url,
)
from assay.errors import Fault, ForeignFault, TimeFault
from assay.ports import Provider

SAID = 300  # characters of a provider's own message that are repeated
TOLD = 4000  # bytes of it that are looked at
STRUCTURE = (b"response_format", b"json_schema")  # a refusal that names one is a refusal of structured output

ADVICE = {
    401: "check its api_key",
    403: "its api_key may not do this",
    404: "check its base_url and the model's name",
    413: "the prompt is too long for it",
    429: "lower its max_concurrency or requests_per_minute, or wait",
}


class Rejected(ForeignFault):
    """The provider refused the request; a retry would not help. `schema`: it refuses structured output."""

    def __init__(self, message: str, *, status: int, schema: bool, attempts: int, seconds: float) -> None:
        self.status, self.schema, self.attempts, self.seconds = status, schema, attempts, seconds
        super().__init__(message)


def fault(provider: Provider, key: str, outcome: Outcome, *, attempts: int, seconds: float) -> Fault:
    """The fault that ends a call: provider, number of attempts, the provider's message, and advice."""
    who = f"provider {provider.name!r}"
    often = "" if attempts == 1 else f" {attempts} times"
    match outcome:
        case TimedOut(last):
            took = f"in {last:.3g} s" if attempts == 1 else f"{attempts} times, {seconds:.3g} s in all"
            return TimeFault(f"{who} gave no answer {took}; raise its timeout or deadline")
        case ConnectionLost(why):
            message = f"{who} at {address(provider)} could not be reached{often}: {scrub(why, key)[:SAID]}"
            return ForeignFault(message, recoverable=True)
        case TooLargeReply(limit):
            return ForeignFault(f"{who} sent more than {limit} bytes in one answer")
        case HttpAnswer(status):
            message = f"{who} answered {status}{_phrase(status)}{often}"
            if advice := ADVICE.get(429 if status in BUSY else status):
                message += f"; {advice}"
            if reason := _error_text(outcome, key):
                message += f": {reason}"
            if may_pass(outcome):
                return ForeignFault(message, recoverable=True)
            schema = status in (400, 422) and any(word in outcome.body[:TOLD] for word in STRUCTURE)
            return Rejected(message, status=status, schema=schema, attempts=attempts, seconds=seconds)


def queue_timeout_fault(provider: Provider) -> Fault:
    """The fault of a call that got no slot in time."""
    return TimeFault(
        f"provider {provider.name!r}: the call waited {provider.queue_timeout:.3g} s in the queue; raise "
        "its queue_timeout,"
        " max_concurrency or requests_per_minute"
    )


def address(provider: Provider) -> str:
    """Its base URL without user, password or query."""
    parts = urlsplit(base_url(provider))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def unwrap_error(answer: HttpAnswer) -> HttpAnswer:
    """Some gateways send an error with status 200: then the error's code counts, or 502 without one."""
    if not (answer.ok and b'"error"' in answer.body[:1024]):
        return answer
    match _read(answer.body):
        case {"choices": _} | {"data": _} | {"content": _}:
            return answer
        case {"error": {"code": int(code)}} if 400 <= code < 600:
            return HttpAnswer(code, answer.headers, answer.body)
        case {"error": dict() | str()}:
            return HttpAnswer(502, answer.headers, answer.body)
        case _:
            return answer


def lacks_credit(answer: HttpAnswer) -> bool:
    """A 429 that waiting does not end: the account has no credit."""
    match _read(answer.body):
        case {"error": {"code": "insufficient_quota"} | {"type": "insufficient_quota"}}:
            return True
        case _:
            return False


def _error_text(answer: HttpAnswer, key: str) -> str:
    if answer.status in (401, 403):  # where a key is most likely quoted
        return ""
    match _read(answer.body):
        case (
            {"error": {"message": str(text)}}
            | {"error": str(text)}
            | {"message": str(text)}
            | {"detail": str(text)}
        ):
            return scrub(text, key)[:SAID]
        case _:
            return ""


def _read(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""


# Decides whether and when a request is retried (FEP-26). Pure functions.

BUSY = frozenset({429, 529})  # 529 is how some say 429
PASSING = frozenset({408, 409}) | BUSY


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The first wait in seconds, doubled for each attempt up to the cap."""

    base: float = 0.5
    cap: float = 30.0


BACKOFF = Backoff()


def may_pass(outcome: Outcome) -> bool:
    """Whether a retry may succeed: after a lost connection, a timeout, 408, 409, 429 and 5xx."""
    if isinstance(outcome, HttpAnswer):
        return outcome.status in PASSING or outcome.status >= 500
    return not isinstance(outcome, TooLargeReply)


def throttles(outcome: Outcome) -> bool:
    """Whether the provider throttles all requests, not only this one."""
    if not isinstance(outcome, HttpAnswer):
        return False
    return outcome.status in BUSY or (outcome.status == 503 and "retry-after" in outcome.headers)


def pause(attempt: int, *, retry_after: float | None, backoff: Backoff, random_fraction: float) -> float:
    """Seconds before the next attempt: at least what the provider asks, else between half and all of the backoff."""
    whole = min(backoff.cap, backoff.base * 2 ** (attempt - 1))
    return max(retry_after or 0.0, whole * (0.5 + random_fraction / 2))


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds from `Retry-After` (seconds or an HTTP date, RFC 9110) or `retry-after-ms`; None if neither is valid."""
    if (millis := _seconds(headers.get("retry-after-ms"))) is not None:
        return millis / 1000
    text = headers.get("retry-after", "")
    if (seconds := _seconds(text)) is not None:
        return seconds
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(seconds) else max(0.0, seconds)
