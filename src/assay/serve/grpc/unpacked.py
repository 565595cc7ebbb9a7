"""
From the wire to JSON (decision 2): Struct, Value and ListValue as dicts and lists.

What is read here was parsed and written again by protobuf itself: keys before values, nothing unknown, every text UTF-8.
Reading its bytes takes half the time of asking its messages, value by value.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any

EXACT = 2**53  # up to here every whole number is a double
STRING, OBJECT, OTHER = 0x0A, 0x12, 0x1A  # of InputValue and OutputValue
_NUMBER, _STRING, _BOOL, _STRUCT, _LIST = 0x11, 0x1A, 0x20, 0x2A, 0x32  # of Value
_double = Struct("<d").unpack_from


class NotJSON(ValueError):
    """NaN or infinity."""


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


def struct(data: bytes, at: int, end: int) -> dict[str, Any]:
    """A google.protobuf.Struct."""
    found: dict[str, Any] = {}
    while at < end:
        size = data[at + 1]
        if size < 128:
            at += 2
        else:
            size, at = _varint(data, at + 1)
        stop = at + size
        size = data[at + 1]
        if size < 128:
            at += 2
        else:
            size, at = _varint(data, at + 1)
        key = data[at : at + size].decode()
        at += size + 1
        while data[at] > 127:  # the size of the value: it ends where its entry ends
            at += 1
        found[key] = value(data, at + 1, stop)
        at = stop
    return found


def value(data: bytes, at: int, end: int) -> Any:
    """A google.protobuf.Value; one that says nothing is null."""
    if at == end:
        return None
    kind = data[at]
    if kind == _NUMBER:
        return number(_double(data, at + 1)[0])
    at += 1
    while data[at] > 127:
        at += 1
    at += 1
    if kind == _STRING:
        return data[at:end].decode()
    if kind == _STRUCT:
        return struct(data, at, end)
    if kind == _LIST:
        return [value(data, start, stop) for _, start, stop in parts(data, at, end)]
    return data[at - 1] == 1 if kind == _BOOL else None


def number(said: float) -> int | float:
    """A double without a fraction is an int, as far as doubles know all of them."""
    if said - said != 0:
        raise NotJSON("NaN and infinity are no JSON numbers")
    if -EXACT <= said <= EXACT:
        whole = int(said)
        return whole if whole == said else said
    return said


def _varint(data: bytes, at: int) -> tuple[int, int]:
    size, shift = data[at] & 127, 7
    while data[at] > 127:
        at += 1
        size |= (data[at] & 127) << shift
        shift += 7
    return size, at + 1
