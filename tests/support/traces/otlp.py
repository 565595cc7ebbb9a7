"""Writes OTLP as senders do: requests in JSON and in protobuf, from spans with plain attributes."""

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

EPOCH = 1_780_000_000_000  # milliseconds


class Sent(Struct, kw_only=True):
    """A span to be sent. Ids are two hexadecimal digits, repeated; times are milliseconds."""

    id: str
    trace: str = "aa"
    parent: str = ""
    name: str = "span"
    start: int = 0
    end: int = 100
    attributes: dict[str, Any] = {}
    events: list[tuple[str, dict[str, Any]]] = []
    failed: str = ""
    resource: dict[str, Any] = {}  # where each span is in a request of its own
    members: dict[str, Any] = {}  # other members of the span

    @property
    def document(self) -> dict[str, Any]:
        return {
            "traceId": self.trace * 16,
            "spanId": self.id * 8,
            **({"parentSpanId": self.parent * 8} if self.parent else {}),
            "name": self.name,
            "startTimeUnixNano": str((EPOCH + self.start) * 1_000_000),
            "endTimeUnixNano": str((EPOCH + self.end) * 1_000_000),
            "attributes": pairs(self.attributes),
            "events": [{"name": name, "attributes": pairs(members)} for name, members in self.events],
            **({"status": {"code": 2, "message": self.failed}} if self.failed else {}),
            **self.members,
        }


def request_of(*spans: Sent, resource: dict[str, Any] | None = None) -> dict[str, Any]:
    group = {"scopeSpans": [{"spans": [span.document for span in spans]}]}
    return {"resourceSpans": [{"resource": {"attributes": pairs(resource or {})}, **group}]}


def logs_of(*records: tuple[str, str, str, Any]) -> dict[str, Any]:
    """A request of log records: the trace, the span, the name of the event and the body of each."""
    found = [
        {
            "traceId": trace * 16,
            "spanId": span * 8,
            "eventName": name,
            "body": value(body),
            "timeUnixNano": str(at),
        }
        for at, (trace, span, name, body) in enumerate(records)
    ]
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": found}]}]}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(one)} for key, one in attributes.items()]


def value(one: Any) -> dict[str, Any]:
    match one:
        case bool():
            return {"boolValue": one}
        case str():
            return {"stringValue": one}
        case int():
            return {"intValue": str(one)}
        case float():
            return {"doubleValue": one}
        case list():
            return {"arrayValue": {"values": [value(each) for each in one]}}
        case dict():
            return {"kvlistValue": {"values": pairs(one)}}
        case _:
            return {}


def write_lines(path: Path, *requests: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in requests))
    return path


def to_protobuf(request: dict[str, Any]) -> bytes:
    """The bytes of a request, made by the messages of OpenTelemetry."""
    import base64

    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def with_bytes(node: Any) -> Any:
        if isinstance(node, list):
            return [with_bytes(one) for one in node]
        if not isinstance(node, dict):
            return node
        ids = ("traceId", "spanId", "parentSpanId")
        return {
            key: base64.b64encode(bytes.fromhex(one)).decode() if key in ids else with_bytes(one)
            for key, one in node.items()
        }

    kind = ExportTraceServiceRequest if "resourceSpans" in request else ExportLogsServiceRequest
    return ParseDict(with_bytes(request), kind()).SerializeToString()
