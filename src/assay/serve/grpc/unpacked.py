"""
From the wire to JSON (decision 2): Struct, Value and ListValue as dicts and lists.

Only what every writer of protocol buffers writes is read here: keys before values, nothing unknown, nothing twice. Anything else
is Unusual, and then protobuf itself is asked to write it anew. Asking protobuf for every value takes three times as long as reading
its bytes, and what is commonest is read where it stands: a call for each value would cost as much as all the rest.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any

EXACT = 2**53  # up to here every whole number is a double
STRING, OBJECT, OTHER = 0x0A, 0x12, 0x1A  # of InputValue and OutputValue
_NULL, _NUMBER, _STRING, _BOOL, _STRUCT, _LIST = 0x08, 0x11, 0x1A, 0x20, 0x2A, 0x32  # of Value
_double = Struct("<d").unpack_from


class NotJSON(ValueError):
    """NaN or infinity."""


class Unusual(Exception):
    """Perhaps no protocol buffer, perhaps one that nobody writes like this."""


def parts(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message that has only texts and messages in it: a tag, where it begins and where it ends."""
    while at < end:
        tag, size = data[at], data[at + 1]
        if size < 128:
            at += 2
        else:
            size, at = _varint(data, at + 1)
        yield tag, at, at + size
        at += size
    if at != end:
        raise Unusual


def struct(data: bytes, at: int, end: int) -> dict[str, Any]:
    """A google.protobuf.Struct."""
    found: dict[str, Any] = {}
    while at < end:
        size = data[at + 1]
        if size > 127:
            at = _long(data, at, found)
            continue
        stop = at + 2 + size  # an entry: its key, and its value, which ends where the entry ends
        start = at + 4 + data[at + 3]
        if not data[at] == 0x0A == data[at + 2] or data[start] != 0x12 or start + 2 + data[start + 1] != stop:
            raise Unusual
        key = data[at + 4 : start].decode()
        kind = data[start + 2] if stop > start + 2 else 0
        if kind == _STRING and start + 4 + data[start + 3] == stop:
            found[key] = data[start + 4 : stop].decode()
        elif kind == _STRUCT and start + 4 + data[start + 3] == stop:
            found[key] = struct(data, start + 4, stop)
        else:
            found[key] = value(data, start + 2, stop)
        at = stop
    if at != end:
        raise Unusual
    return found


def _long(data: bytes, at: int, found: dict[str, Any]) -> int:
    """An entry of more than 127 bytes; where it ends."""
    if data[at] != 0x0A:
        raise Unusual
    size, at = _varint(data, at + 1)
    stop = at + size
    if data[at] != 0x0A:
        raise Unusual
    size, at = _varint(data, at + 1)
    key = data[at : at + size].decode()
    at += size
    if data[at] != 0x12:
        raise Unusual
    size, at = _varint(data, at + 1)
    if at + size != stop:
        raise Unusual
    found[key] = value(data, at, stop)
    return stop


def value(data: bytes, at: int, end: int) -> Any:  # noqa: C901  # a table of six, where they are quickest
    """A google.protobuf.Value; one that says nothing is null."""
    if at == end:
        return None
    kind = data[at]
    if kind == _NUMBER:
        if at + 9 != end:
            raise Unusual
        said: float = _double(data, at + 1)[0]
        if (
            -EXACT <= said <= EXACT
        ):  # a double without a fraction is an int, as far as doubles know all of them
            whole = int(said)
            return whole if whole == said else said
        if said - said != 0:
            raise NotJSON("NaN and infinity are no JSON numbers")
        return said
    size = data[at + 1]
    if size < 128:
        at += 2
    else:
        size, at = _varint(data, at + 1)
    if kind == _STRUCT and at + size == end:
        return struct(data, at, end)
    if kind == _STRING and at + size == end:
        return data[at:end].decode()
    if kind == _LIST and at + size == end:
        return _list(data, at, end)
    if at != end or size > 1 or kind not in (_BOOL, _NULL):
        raise Unusual
    return size == 1 if kind == _BOOL else None


def _list(data: bytes, at: int, end: int) -> list[Any]:
    found: list[Any] = []
    while at < end:
        if data[at] != 0x0A:
            raise Unusual
        size = data[at + 1]
        if size < 128:
            at += 2
        else:
            size, at = _varint(data, at + 1)
        stop = at + size
        if size > 1 and data[at] == _STRING and data[at + 1] == size - 2:
            found.append(data[at + 2 : stop].decode())
        else:
            found.append(value(data, at, stop))
        at = stop
    if at != end:
        raise Unusual
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    size, shift = data[at] & 127, 7
    while data[at] > 127:
        at += 1
        size |= (data[at] & 127) << shift
        shift += 7
        if shift > 35:
            raise Unusual
    return size, at + 1
