"""Expiry of a key: `90d`, `12h`, or a date."""

import re
from datetime import UTC, datetime, timedelta

from assay.errors import InvalidRequest, Problem

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")


def expiry(text: str, now: datetime) -> datetime:
    """
    Return the time, which must be in the future. Dates, and times without a zone, are in UTC.

    >>> expiry("2w", datetime(2026, 7, 1, tzinfo=UTC)).isoformat()
    '2026-07-15T00:00:00+00:00'
    """
    try:
        moment = _moment(text, now)
    except (ValueError, OverflowError):
        expected = "expected a span such as 90d, 12h, 30m or 2w, or a date such as 2027-01-31"
        raise InvalidRequest(Problem("expires", f"{expected}, got {text[:40]!r}")) from None
    if moment <= now:
        raise InvalidRequest(Problem("expires", f"expected a time in the future, got {text!r}"))
    return moment


def _moment(text: str, now: datetime) -> datetime:
    if span := _SPAN.fullmatch(text):
        return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
