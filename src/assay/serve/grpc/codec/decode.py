"""
Decodes protobuf to JSON (FEP-2): Struct, Value and ListValue become dicts and lists.

This reads only the usual encoding: keys before values, no unknown fields, no field twice. Anything else is
`NonCanonical`, and the caller lets protobuf re-encode it first.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

EXACT = 2**53  # every integer up to here is a double
STRING, OBJECT, OTHER = 0x0A, 0x12, 0x1A  # tags of InputValue and OutputValue
NULL, NUMBER, TEXT, BOOL, STRUCT, LIST = 0x08, 0x11, 0x1A, 0x20, 0x2A, 0x32  # tags of Value
Span = tuple[int, int]  # where a message begins and ends in the bytes of another
FieldTag = tuple[
    str, int, int, int
]  # the key of a member, the tag of its value, and the offsets of the value and of its end
Inner = Callable[[bytes, int, int], dict[str, Any]]  # reads the Structs inside
_CACHED = 2_048  # heads, and lists
_SHORT = 64  # bytes of a list of texts that is cached
_EXACT = float(EXACT)  # comparing a float with a float is faster
_double = Struct("<d").unpack_from


class NotJSON(ValueError):
    """The number is NaN or infinity."""


class NonCanonical(Exception):
    """Not the usual encoding of a message, or not a message at all."""


def field(data: bytes, start: int) -> Span:
    """The begin and end of a length-delimited field."""
    size = data[start + 1]
    if size < 128:
        return start + 2, start + 2 + size
    if data[start + 2] < 128:
        return start + 3, start + 3 + (size & 127 | data[start + 2] << 7)
    size, start = _varint(data, start + 1)
    return start, start + size


def fields(data: bytes, offset: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The tag, begin and end of each field of a message that has only length-delimited fields."""
    while offset < end:
        start = offset + 2
        size = data[offset + 1]
        if size > 127:
            start, stop = field(data, offset)
        else:
            stop = start + size
        yield data[offset], start, stop
        offset = stop
    if offset != end:
        raise NonCanonical


def structs() -> Inner:
    """A reader for the Structs of one request. The bytes before a value repeat from case to case and are cached."""
    heads: dict[bytes, FieldTag] = {}
    find = heads.get

    def struct(data: bytes, start: int, end: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while start < end:
            before = data[
                start : start + (data[start + 3] + 8 if data[start + 1] < 128 else data[start + 4] + 11)
            ]
            head = find(before)
            if head is None:
                head = _read_tag(data, start)
                if head[2] <= len(before) and len(heads) < _CACHED:
                    heads[before] = head
            key, kind, skip, size = head
            stop = start + size
            if kind == TEXT:
                members[key] = data[start + skip : stop].decode()
            elif kind == NUMBER:
                members[key] = number(_double(data, start + skip)[0])
            elif kind:
                members[key] = readers[kind](data, start + skip, stop)
            else:
                members[key] = value(data, start + skip, stop, struct)
            start = stop
        if start != end:
            raise NonCanonical
        return members

    readers: dict[int, Callable[[bytes, int, int], Any]] = {STRUCT: struct, LIST: _lists(struct)}
    return struct


def _lists(inner: Inner) -> Callable[[bytes, int, int], list[Any]]:
    """A reader for the lists of one request. Short lists of texts repeat and are cached; each case has its copy."""
    texts: dict[bytes, list[str]] = {}

    def read(data: bytes, start: int, end: int) -> list[Any]:
        if end - start > _SHORT:
            return _list(data, start, end, inner)
        found = texts.get(data[start:end])
        if found is None:
            found = _list(data, start, end, inner)
            if len(texts) < _CACHED and all(type(item) is str for item in found):
                texts[data[start:end]] = found.copy()
            return found
        return found.copy()

    return read


def _read_tag(data: bytes, offset: int) -> FieldTag:
    """Decode all of a member but its value. The offset also skips an inner tag and length."""
    start, stop = field(data, offset)
    begin, middle = field(data, start)
    first, last = field(data, middle)
    if not data[offset] == 0x0A == data[start] or data[middle] != 0x12 or last != stop:
        raise NonCanonical
    key = data[begin:middle].decode()
    if first < stop and data[first] in (TEXT, STRUCT, LIST):
        inside, outside = field(data, first)
        if outside != stop:
            raise NonCanonical
        return key, data[first], inside - offset, stop - offset
    if first + 9 == stop and data[first] == NUMBER:
        return key, NUMBER, first + 1 - offset, stop - offset
    return key, 0, first - offset, stop - offset


def value(data: bytes, start: int, end: int, inner: Inner) -> Any:
    """A google.protobuf.Value; an empty one is null."""
    if start == end:
        return None
    kind = data[start]
    if kind == NUMBER:
        if start + 9 != end:
            raise NonCanonical
        return number(_double(data, start + 1)[0])
    if kind == BOOL:
        if start + 2 != end or data[start + 1] > 1:
            raise NonCanonical
        return data[start + 1] == 1
    if kind == NULL:  # any enum number: protobuf keeps unknown ones
        *more, last = data[start:end]
        if not 1 <= len(more) <= 10 or last > 127 or any(byte < 128 for byte in more[1:]):
            raise NonCanonical
        return None
    start, stop = field(data, start)
    if stop != end or kind not in (TEXT, STRUCT, LIST):
        raise NonCanonical
    if kind == TEXT:
        return data[start:end].decode()
    return inner(data, start, end) if kind == STRUCT else _list(data, start, end, inner)


def number(value: float) -> float:
    """A number without a fraction becomes an int, up to 2**53."""
    if -_EXACT <= value <= _EXACT:
        return int(value) if value.is_integer() else value
    if value - value != 0:
        raise NotJSON("NaN and infinity are not JSON numbers")
    return value


def _list(data: bytes, offset: int, end: int, inner: Inner) -> list[Any]:
    """A ListValue. A short text or Struct is read here: a call for each item takes longer than to read it."""
    items: list[Any] = []
    while offset < end:
        tag, size = data[offset], data[offset + 1]
        if size > 127:
            start, stop = field(data, offset)
        else:
            start, stop = offset + 2, offset + 2 + size
        if tag != 0x0A:
            raise NonCanonical
        kind = data[start] if start < stop else NULL
        if size < 128 and kind in (TEXT, STRUCT) and data[start + 1] + 2 == size:
            if kind == TEXT:
                items.append(data[start + 2 : stop].decode())
            else:
                items.append(inner(data, start + 2, stop))
        else:
            items.append(value(data, start, stop, inner))
        offset = stop
    if offset != end:
        raise NonCanonical
    return items


def _varint(data: bytes, start: int) -> tuple[int, int]:
    size, shift = data[start] & 127, 7
    while data[start] > 127:
        start += 1
        size |= (data[start] & 127) << shift
        shift += 7
        if shift > 35:
            raise NonCanonical
    return size, start + 1
