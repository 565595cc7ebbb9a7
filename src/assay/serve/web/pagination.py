"""Page sizes and page tokens. A token is valid only for the list that returned it."""

import base64
import binascii
import hashlib
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from assay.errors import InvalidRequest, Problem

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
