"""
From the wire to JSON (decision 2): Struct, Value and ListValue as dicts and lists.

Only what every writer of protocol buffers writes is read here: keys before values, nothing unknown, nothing twice. Anything else
is Unusual, and then protobuf itself is asked to write it anew.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

EXACT = 2**53  # up to here every whole number is a double
STRING, OBJECT, OTHER = 0x0A, 0x12, 0x1A  # of InputValue and OutputValue
NULL, NUMBER, TEXT, BOOL, STRUCT, LIST = 0x08, 0x11, 0x1A, 0x20, 0x2A, 0x32  # of Value
Span = tuple[int, int]  # where a message lies among the bytes of another
Head = tuple[
    str, int, int, int
]  # the key of a member, the kind of its value, and how far to it and to its end
Inner = Callable[[bytes, int, int], dict[str, Any]]  # what reads the Structs inside
_KEPT = 2_048  # heads that are remembered
_EXACT = float(EXACT)  # which is quicker to compare a float with
_double = Struct("<d").unpack_from


class NotJSON(ValueError):
    """NaN or infinity."""


class NonCanonical(Exception):
    """Perhaps no protocol buffer, perhaps one that nobody writes like this."""


def field(data: bytes, at: int) -> Span:
    """Of a field that is a text or a message: where it begins and where it ends."""
    size = data[at + 1]
    if size < 128:
        return at + 2, at + 2 + size
    if data[at + 2] < 128:
        return at + 3, at + 3 + (size & 127 | data[at + 2] << 7)
    size, at = _varint(data, at + 1)
    return at, at + size


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message that has only texts and messages in it: a tag, where it begins and where it ends."""
    while at < end:
        start, stop = field(data, at)
        yield data[at], start, stop
        at = stop
    if at != end:
        raise NonCanonical


def structs() -> Inner:
    """What reads the Structs of one request. What stands before a value comes again in other cases, and is then known."""
    heads: dict[bytes, Head] = {}

    def struct(data: bytes, at: int, end: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while at < end:
            before = data[at : at + (data[at + 3] + 8 if data[at + 1] < 128 else data[at + 4] + 11)]
            head = heads.get(before)
            if head is None:
                head = _head(data, at)
                if head[2] <= len(before) and len(heads) < _KEPT:
                    heads[before] = head
            key, kind, skip, size = head
            stop = at + size
            if kind == TEXT:
                found[key] = data[at + skip : stop].decode()
            elif kind == NUMBER:
                found[key] = number(_double(data, at + skip)[0])
            elif kind == STRUCT:
                found[key] = struct(data, at + skip, stop)
            else:
                found[key] = value(data, at + skip, stop, struct)
            at = stop
        if at != end:
            raise NonCanonical
        return found

    return struct


def _head(data: bytes, at: int) -> Head:
    """All of a member but its value, which ends where the member ends. Of a text or a Struct it skips that much more."""
    start, stop = field(data, at)
    begin, middle = field(data, start)
    first, last = field(data, middle)
    if not data[at] == 0x0A == data[start] or data[middle] != 0x12 or last != stop:
        raise NonCanonical
    key = data[begin:middle].decode()
    if first < stop and data[first] in (TEXT, STRUCT):
        inside, outside = field(data, first)
        if outside != stop:
            raise NonCanonical
        return key, data[first], inside - at, stop - at
    if first + 9 == stop and data[first] == NUMBER:
        return key, NUMBER, first + 1 - at, stop - at
    return key, 0, first - at, stop - at


def value(data: bytes, at: int, end: int, inner: Inner) -> Any:
    """A google.protobuf.Value; one that says nothing is null."""
    if at == end:
        return None
    kind = data[at]
    if kind == NUMBER:
        if at + 9 != end:
            raise NonCanonical
        return number(_double(data, at + 1)[0])
    if kind == BOOL:
        if at + 2 != end or data[at + 1] > 1:
            raise NonCanonical
        return data[at + 1] == 1
    if kind == NULL:  # whatever its number: protobuf keeps those that have no name
        *more, last = data[at:end]
        if not 1 <= len(more) <= 10 or last > 127 or any(byte < 128 for byte in more[1:]):
            raise NonCanonical
        return None
    at, stop = field(data, at)
    if stop != end or kind not in (TEXT, STRUCT, LIST):
        raise NonCanonical
    if kind == TEXT:
        return data[at:end].decode()
    return inner(data, at, end) if kind == STRUCT else _list(data, at, end, inner)


def number(said: float) -> float:
    """Without a fraction it is an int, as far as doubles know all of them."""
    if -_EXACT <= said <= _EXACT:
        return int(said) if said.is_integer() else said
    return check_finite(said)


def check_finite(said: float) -> float:
    """A number that is too large for its whole ones to be told apart; or none."""
    if said - said != 0:
        raise NotJSON("NaN and infinity are no JSON numbers")
    return said


def _list(data: bytes, at: int, end: int, inner: Inner) -> list[Any]:
    found: list[Any] = []
    while at < end:
        tag, start, stop = data[at], at + 2, at + 2 + data[at + 1]
        if data[at + 1] > 127:
            start, stop = field(data, at)
        if tag != 0x0A:
            raise NonCanonical
        found.append(value(data, start, stop, inner))
        at = stop
    if at != end:
        raise NonCanonical
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    size, shift = data[at] & 127, 7
    while data[at] > 127:
        at += 1
        size |= (data[at] & 127) << shift
        shift += 7
        if shift > 35:
            raise NonCanonical
    return size, at + 1
