"""Decides whether and when a request is retried (FEP-26). Pure functions."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from assay.backends.models.transport import HttpAnswer, Outcome, TooLargeReply

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
