"""
Export requests of OTLP as spans and log records, from JSON and from protobuf.

Ids are hexadecimal in OTLP/JSON and bytes in protobuf. Numbers of 64 bits are texts in JSON. What a sender wrote is not
trusted: a value of another type than OTLP's is a problem with its place, and values may nest MAX_DEPTH deep.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar, TypeVarTuple

from assay.concurrency.loop_budget import spend
from assay.errors import InvalidRequest, Problem
from assay.protocol.json_types import JSON, is_list, is_object, kind_of
from assay.traces.otlp_protobuf import document_of_protobuf
from assay.traces.sampling import probability_of
from assay.traces.spans import LogRecord, Span, SpanEvent

MAX_DEPTH = 64  # of the value of an attribute
MAX_TIME = 1 << 63
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUSES = ("UNSET", "OK", "ERROR")
Item = Span | LogRecord
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def items_of_json(document: Any, rejected: list[Problem] | None = None) -> Iterator[Item]:
    """
    The spans and log records of a request in OTLP/JSON. Raises InvalidRequest.

    With `rejected`, a span or record that is wrong is left out, and its problem is added there.
    """
    known = ("resourceSpans", "resourceLogs")
    if not is_object(document) or not any(name in document for name in known):
        got = (
            f"an object with {', '.join(map(repr, list(document)[:5])) or 'no members'}"
            if is_object(document)
            else kind_of(document)
        )
        raise InvalidRequest(
            Problem("", f"expected an OTLP export request with resourceSpans or resourceLogs, got {got}")
        )
    for at, group in _objects(document, "resourceSpans", ""):
        resource = _attributes(_object(group, "resource", at), f"{at}.resource")
        for inner, scope in _objects(group, "scopeSpans", at):
            for place, span in _objects(scope, "spans", inner):
                if (one := _kept(rejected, _span, span, resource, place)) is not None:
                    yield one
    for at, group in _objects(document, "resourceLogs", ""):
        service = _attributes(_object(group, "resource", at), f"{at}.resource").get("service.name")
        for inner, scope in _objects(group, "scopeLogs", at):
            for place, record in _objects(scope, "logRecords", inner):
                if (log := _kept(rejected, _log, record, place, service)) is not None:
                    yield log


def _kept(rejected: list[Problem] | None, read: Callable[[*Ts], T], *args: *Ts) -> T | None:
    """What is read. With `rejected`, None for an item that is wrong."""
    spend()
    if rejected is None:
        return read(*args)
    try:
        return read(*args)
    except InvalidRequest as refusal:
        rejected.extend(refusal.problems)
        return None


def _span(span: JSON, resource: JSON, place: str) -> Span:
    status, attributes = _object(span, "status", place), _attributes(span, place)
    return Span(
        trace_id=_id(span, "traceId", 32, place),
        span_id=_id(span, "spanId", 16, place),
        parent=_id(span, "parentSpanId", 16, place, required=False),
        name=_text(span, "name", place),
        kind=_enum(span, "kind", "SPAN_KIND_", _KINDS, place),
        flags=_integer(span, "flags", place),
        start=_integer(span, "startTimeUnixNano", place),
        end=_integer(span, "endTimeUnixNano", place),
        attributes=attributes,
        resource=resource,
        events=tuple(_event(event, at) for at, event in _objects(span, "events", place)),
        status=_enum(status, "code", "STATUS_CODE_", _STATUSES, f"{place}.status"),
        message=_text(status, "message", f"{place}.status"),
        dropped_attributes=_integer(span, "droppedAttributesCount", place),
        dropped_events=_integer(span, "droppedEventsCount", place),
        probability=probability_of(_text(span, "traceState", place), attributes),
    )


def _event(event: JSON, place: str) -> SpanEvent:
    return SpanEvent(
        name=_text(event, "name", place),
        attributes=_attributes(event, place),
        time=_integer(event, "timeUnixNano", place),
    )


def _log(record: JSON, place: str, service: Any) -> LogRecord | None:
    """None for a record without a span or without the name of an event: it says nothing about a trace."""
    attributes = _attributes(record, place)
    name = _text(record, "eventName", place) or attributes.get("event.name")
    trace = _id(record, "traceId", 32, place, required=False)
    span = _id(record, "spanId", 16, place, required=False)
    if not (trace and span and isinstance(name, str)):
        return None
    body = _value(record["body"], f"{place}.body") if record.get("body") is not None else None
    moment = _integer(record, "timeUnixNano", place) or _integer(record, "observedTimeUnixNano", place)
    return LogRecord(
        trace_id=trace,
        span_id=span,
        event=SpanEvent(name=name, attributes=attributes, body=body, time=moment),
        service=service if isinstance(service, str) else "",
    )


def _objects(parent: JSON, name: str, place: str) -> Iterator[tuple[str, JSON]]:
    path = f"{place}.{name}" if place else name
    found = parent.get(name)
    if found is None:
        return
    if not is_list(found):
        raise InvalidRequest(Problem(path, f"expected a list, got {kind_of(found)}"))
    for at, one in enumerate(found):
        if not is_object(one):
            raise InvalidRequest(Problem(f"{path}[{at}]", f"expected an object, got {kind_of(one)}"))
        yield f"{path}[{at}]", one


def _object(parent: JSON, name: str, place: str) -> JSON:
    found = parent.get(name)
    if found is None:
        return {}
    if not is_object(found):
        raise InvalidRequest(Problem(f"{place}.{name}", f"expected an object, got {kind_of(found)}"))
    return found


def _text(parent: JSON, name: str, place: str) -> str:
    found = parent.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise InvalidRequest(Problem(f"{place}.{name}", f"expected a string, got {kind_of(found)}"))
    return found


def _id(parent: JSON, name: str, digits: int, place: str, *, required: bool = True) -> str:
    text = _text(parent, name, place).lower()
    if not text.strip("0") and not required:
        return ""
    if len(text) != digits or text.strip("0123456789abcdef") or not text.strip("0"):
        got = repr(text[:40]) if text else "nothing"
        wanted = f"expected {digits} hexadecimal digits that are not all 0, got {got}"
        raise InvalidRequest(Problem(f"{place}.{name}", wanted))
    return text


def _integer(parent: JSON, name: str, place: str) -> int:
    found = parent.get(name, 0)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= 20:
        found = int(found)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < MAX_TIME:
        wanted = "expected a number from 0 on, or its digits in a string"
        raise InvalidRequest(Problem(f"{place}.{name}", f"{wanted}, got {str(found)[:40]!r}"))
    return found


def _enum(parent: JSON, name: str, prefix: str, names: Sequence[str], place: str) -> int:
    found = parent.get(name, 0)
    if isinstance(found, str) and found.removeprefix(prefix) in names:
        return names.index(found.removeprefix(prefix))
    return _integer(parent, name, place)


def _attributes(parent: JSON, place: str) -> JSON:
    found: JSON = {}
    for at, pair in _objects(parent, "attributes", place):
        key = _text(pair, "key", at)
        if key and pair.get("value") is not None:
            found[key] = _value(pair["value"], f"{at}.value")
    return found


def _value(value: Any, place: str, depth: int = 0) -> Any:
    """The JSON of an AnyValue. Bytes stay base64."""
    if not is_object(value):
        raise InvalidRequest(Problem(place, f"expected an object such as stringValue, got {kind_of(value)}"))
    if depth > MAX_DEPTH:
        raise InvalidRequest(Problem(place, f"nested more than {MAX_DEPTH} deep"))
    name, one = next(iter(value.items()), ("", None))
    number = isinstance(one, int | float) and not isinstance(one, bool)
    match name, one:
        case ("", _):
            return None
        case ("stringValue" | "bytesValue", str()) | ("boolValue", bool()):
            return one
        case ("doubleValue", "NaN" | "Infinity" | "-Infinity"):
            return one
        case ("doubleValue", _) if number:
            return one
        case ("intValue", int() | str()) if not isinstance(one, bool):
            return _signed(one, place)
        case ("arrayValue", _) if is_object(one):
            return [_value(each, at, depth + 1) for at, each in _objects(one, "values", place)]
        case ("kvlistValue", _) if is_object(one):
            pairs = _objects(one, "values", place)
            return {
                _text(pair, "key", at): _value(pair.get("value") or {}, at, depth + 1) for at, pair in pairs
            }
        case _:
            raise InvalidRequest(
                Problem(f"{place}.{name[:40]}", f"expected a value of OTLP, got {kind_of(one)}")
            )


def _signed(value: int | str, place: str) -> int:
    text = str(value)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise InvalidRequest(Problem(place, f"expected a whole number of 64 bits, got {text[:40]!r}"))
    return int(text)


def items_of_protobuf(
    data: bytes, rejected: list[Problem] | None = None, message: Literal["traces", "logs", ""] = ""
) -> Iterator[Item]:
    """The spans and log records of a request in protobuf, as `items_of_json`. `message`: which request it is."""
    document = document_of_protobuf(data, message) if message else _unknown_request(data)
    yield from items_of_json(document or {"resourceSpans": []}, rejected)


def _unknown_request(data: bytes) -> JSON:
    """Both requests have the same outline. One without ids of spans is one of log records."""
    with suppress(InvalidRequest):
        document = document_of_protobuf(data, "traces")
        if not document or _has_ids(document):
            return document
    return document_of_protobuf(data, "logs")


def _has_ids(document: JSON) -> bool:
    spans = (
        span
        for group in document.get("resourceSpans", ())
        for scope in group.get("scopeSpans", ())
        for span in scope.get("spans", ())
    )
    return any("traceId" in span or "spanId" in span for span in spans)
