"""
Export requests in protobuf as documents of OTLP/JSON, by tables of their fields.

Unknown fields are skipped, as protobuf does. Fields are counted: a body of a few megabytes could otherwise become
millions of empty attributes in memory.
"""

import base64
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from assay.concurrency.loop_budget import spend
from assay.errors import InvalidRequest, Problem
from assay.protocol.json_types import JSON

MAX_FIELDS = 1_000_000
MAX_DEPTH = 200  # of messages in messages; a value may nest 64 deep, in two or three messages each
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_PART = 4096  # fields between two looks at the clock


class Field(NamedTuple):
    """How a field is read: its name in JSON, its wire type, and how its value or its message is converted."""

    name: str
    wire: int
    convert: Callable[[Any], Any] | None = None
    message: str = ""
    repeated: bool = False


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(Problem("", "expected UTF-8 in a string of protobuf")) from None


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _double(number: int) -> float | str:
    (value,) = struct.unpack("<d", number.to_bytes(8, "little"))
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _messages(name: str, message: str) -> Field:
    return Field(name, BYTES, message=message, repeated=True)


_ATTRIBUTES = _messages("attributes", "pair")
MESSAGES: dict[str, dict[int, Field]] = {
    "traces": {1: _messages("resourceSpans", "resource spans")},
    "resource spans": {
        1: Field("resource", BYTES, message="resource"),
        2: _messages("scopeSpans", "scope spans"),
    },
    "scope spans": {2: _messages("spans", "span")},
    "logs": {1: _messages("resourceLogs", "resource logs")},
    "resource logs": {
        1: Field("resource", BYTES, message="resource"),
        2: _messages("scopeLogs", "scope logs"),
    },
    "scope logs": {2: _messages("logRecords", "log")},
    "resource": {1: _ATTRIBUTES},
    "span": {
        1: Field("traceId", BYTES, bytes.hex),
        2: Field("spanId", BYTES, bytes.hex),
        3: Field("traceState", BYTES, _text),
        4: Field("parentSpanId", BYTES, bytes.hex),
        5: Field("name", BYTES, _text),
        6: Field("kind", VARINT),
        7: Field("startTimeUnixNano", FIXED64),
        8: Field("endTimeUnixNano", FIXED64),
        9: _ATTRIBUTES,
        10: Field("droppedAttributesCount", VARINT),
        11: _messages("events", "event"),
        12: Field("droppedEventsCount", VARINT),
        15: Field("status", BYTES, message="status"),
        16: Field("flags", FIXED32),
    },
    "event": {1: Field("timeUnixNano", FIXED64), 2: Field("name", BYTES, _text), 3: _ATTRIBUTES},
    "status": {2: Field("message", BYTES, _text), 3: Field("code", VARINT)},
    "log": {
        1: Field("timeUnixNano", FIXED64),
        5: Field("body", BYTES, message="value"),
        6: _ATTRIBUTES,
        9: Field("traceId", BYTES, bytes.hex),
        10: Field("spanId", BYTES, bytes.hex),
        11: Field("observedTimeUnixNano", FIXED64),
        12: Field("eventName", BYTES, _text),
    },
    "pair": {1: Field("key", BYTES, _text), 2: Field("value", BYTES, message="value")},
    "value": {
        1: Field("stringValue", BYTES, _text),
        2: Field("boolValue", VARINT, bool),
        3: Field("intValue", VARINT, _signed),
        4: Field("doubleValue", FIXED64, _double),
        5: Field("arrayValue", BYTES, message="array"),
        6: Field("kvlistValue", BYTES, message="pairs"),
        7: Field("bytesValue", BYTES, _base64),
    },
    "array": {1: _messages("values", "value")},
    "pairs": {1: _messages("values", "pair")},
}


def document_of_protobuf(data: bytes, message: str) -> JSON:
    """The document of a request: `traces` or `logs`. Raises InvalidRequest."""
    try:
        return _Reader(data).read(0, len(data), MESSAGES[message], 0)
    except (IndexError, _CutShort):
        raise InvalidRequest(Problem("", "expected an OTLP export request in protobuf")) from None


class _CutShort(Exception):
    """A field reaches beyond its message, or has a wire type that protobuf does not have."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._fields = data, 0

    def read(self, at: int, end: int, fields: dict[int, Field], depth: int) -> JSON:
        if depth > MAX_DEPTH:
            raise InvalidRequest(Problem("", f"expected messages that nest up to {MAX_DEPTH} deep"))
        found: JSON = {}
        while at < end:
            self._count()
            number, wire, start, at, value = self._field(at)
            if at > end:
                raise _CutShort
            field = fields.get(number)
            if field is None or field.wire != wire:
                continue
            if field.message:
                value = self.read(start, at, MESSAGES[field.message], depth + 1)
            elif wire == BYTES:
                value = self._data[start:at]
            if field.convert is not None:
                value = field.convert(value)
            if field.repeated:
                found.setdefault(field.name, []).append(value)
            else:
                found[field.name] = value
        return found

    def _field(self, at: int) -> tuple[int, int, int, int, Any]:
        """The number and the wire type of a field, where its content starts and ends, and its number if it is one."""
        tag, at = self._varint(at)
        wire = tag & 7
        if wire == BYTES:
            size, at = self._varint(at)
            return tag >> 3, wire, at, at + size, None
        if wire == VARINT:
            value, after = self._varint(at)
            return tag >> 3, wire, at, after, value
        if wire not in (FIXED64, FIXED32):
            raise _CutShort
        after = at + (8 if wire == FIXED64 else 4)
        return tag >> 3, wire, at, after, int.from_bytes(self._data[at:after], "little")

    def _varint(self, at: int) -> tuple[int, int]:
        number = self._data[at]
        at += 1
        if number < 0x80:
            return number, at
        number &= 0x7F
        shift = 7
        while True:
            part = self._data[at]
            at += 1
            number |= (part & 0x7F) << shift
            if part < 0x80:
                return number & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift > 63:
                raise _CutShort

    def _count(self) -> None:
        self._fields += 1
        if self._fields % _PART == 0:
            spend()
            if self._fields > MAX_FIELDS:
                raise InvalidRequest(Problem("", f"expected at most {MAX_FIELDS} fields in a request"))
