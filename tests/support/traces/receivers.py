"""Backends of traces on loopback: a receiver of OTLP logs that reads protobuf and JSON, and the REST of Phoenix."""

import gzip
import json
import ssl
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from support.servers.thread_server import Handler, HandlerServer


class Answer:
    """An answer of a script. `status` 0 cuts the connection; `keeps` says whether the request counts as received."""

    def __init__(self, status: int, body: bytes = b"", *, keeps: bool = False, **headers: str) -> None:
        self.status, self.body, self.keeps = status, body, keeps
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Receiver(HandlerServer):
    """
    Answers requests by its script, one after another, and then as a receiver does. `requests` has the path, the headers
    and the body of each that counts, `events` what they hold.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.script: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.asked = 0
        self.before: Callable[[], None] | None = None  # called before each answer
        self.events: list[dict[str, Any]] = []
        outer = self

        class Script(Handler):
            def do_POST(self) -> None:
                body = self.body()
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                outer.asked += 1
                answer = outer.script.pop(0) if outer.script else None
                if answer is None or answer.keeps:
                    outer.requests.append((self.path, dict(self.headers.items()), body))
                    usual = outer.receive(self.path, self.headers["content-type"], body)
                    answer = answer or usual
                if outer.before is not None:
                    outer.before()
                if not answer.status:
                    self.close_connection = True
                    return
                self.send(answer.status, answer.body, answer.headers)

        super().__init__(Script, tls)

    def receive(self, path: str, kind: str, body: bytes) -> Answer:
        """Keep the log records of an export request."""
        assert path == "/v1/logs"
        if kind == "application/json":
            self.events += records_of_json(json.loads(body))
            return Answer(200, b"{}", Content_Type=kind)
        assert kind == "application/x-protobuf"
        self.events += records_of_protobuf(body)
        return Answer(200, ExportLogsServiceResponse().SerializeToString(), Content_Type=kind)


class Phoenix(Receiver):
    """
    `POST /v1/span_annotations?sync=true` as Phoenix answers it: an annotation is known by its span, name and
    identifier, and a request with a span that is not there is refused whole.
    """

    def __init__(self, *spans: str) -> None:
        super().__init__()
        self.spans = set(spans)
        self.annotations: dict[tuple[str, str, str], dict[str, Any]] = {}

    def receive(self, path: str, kind: str, body: bytes) -> Answer:
        assert path == "/v1/span_annotations?sync=true"
        data = json.loads(body)["data"]
        if missing := {one["span_id"] for one in data} - self.spans:
            detail = f"Spans with IDs {', '.join(sorted(missing))} do not exist."
            return Answer(404, json.dumps({"detail": detail}).encode(), Content_Type="application/json")
        for one in data:
            self.annotations[one["span_id"], one["name"], one["identifier"]] = one
        done = {"data": [{"id": str(at)} for at in range(len(data))]}
        return Answer(200, json.dumps(done).encode(), Content_Type="application/json")


def records_of_protobuf(body: bytes) -> list[dict[str, Any]]:
    return [
        {
            "event": record.event_name,
            "trace": record.trace_id.hex(),
            "span": record.span_id.hex(),
            "time": record.time_unix_nano,
            "scope": scope.scope.name,
            "service": {one.key: one.value.string_value for one in group.resource.attributes}["service.name"],
            **{one.key: getattr(one.value, one.value.WhichOneof("value")) for one in record.attributes},
        }
        for group in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in group.scope_logs
        for record in scope.log_records
    ]


def records_of_json(document: dict[str, Any]) -> list[dict[str, Any]]:
    def attributes(parent: dict[str, Any]) -> dict[str, Any]:
        return {one["key"]: next(iter(one["value"].values())) for one in parent["attributes"]}

    return [
        {
            "event": record["eventName"],
            "trace": record["traceId"],
            "span": record["spanId"],
            "time": int(record["timeUnixNano"]),
            "scope": scope["scope"]["name"],
            "service": attributes(group["resource"])["service.name"],
            **attributes(record),
        }
        for group in document["resourceLogs"]
        for scope in group["scopeLogs"]
        for record in scope["logRecords"]
    ]
