"""
Verdicts as log events `gen_ai.evaluation.result` over OTLP/HTTP, to any backend.

OpenTelemetry's own variables configure it: OTEL_EXPORTER_OTLP_ENDPOINT, …_HEADERS, …_PROTOCOL, …_COMPRESSION,
…_TIMEOUT, …_CERTIFICATE, …_CLIENT_CERTIFICATE and …_CLIENT_KEY, each also as OTEL_EXPORTER_OTLP_LOGS_….
"""

import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from assay.backends.verdicts.requests import SECONDS, Poster, Reply, headers_of
from assay.errors import EnvironmentFailure
from assay.extras import require
from assay.ports.verdicts import Rejected, Verdict
from assay.version import __version__

EVENT = "gen_ai.evaluation.result"
USUAL = "http://localhost:4318"
PATH = "/v1/logs"
LONGEST = 600.0  # seconds of a request
PROTOBUF, JSON_FORM = "http/protobuf", "http/json"
PROTOBUF_TYPE, JSON_TYPE = "application/x-protobuf", "application/json"
TOO_LARGE = 413
Value = str | float


class OtlpReceiver:
    """A collector, or a backend that takes OTLP logs. `url` is as OTEL_EXPORTER_OTLP_ENDPOINT; "": the variable."""

    def __init__(
        self, url: str, environment: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> None:
        variables = _Variables(environment)
        protocol = variables.get("PROTOCOL") or PROTOBUF
        if protocol not in (PROTOBUF, JSON_FORM):
            raise ValueError(
                f"OTEL_EXPORTER_OTLP_PROTOCOL: expected {PROTOBUF} or {JSON_FORM}, got {protocol!r}"
            )
        self._json = protocol == JSON_FORM
        if not self._json:
            require("OTLP as protobuf", "telemetry", package="opentelemetry-exporter-otlp-proto-http")
        compression = variables.get("COMPRESSION") or "gzip"
        if compression not in ("gzip", "none"):
            raise ValueError(f"OTEL_EXPORTER_OTLP_COMPRESSION: expected gzip or none, got {compression!r}")
        kind = JSON_TYPE if self._json else PROTOBUF_TYPE
        if headers is None:
            headers = headers_of(variables.get("HEADERS"), "OTEL_EXPORTER_OTLP_HEADERS")
        self._poster = Poster(
            _endpoint(url, variables, environment),
            {**headers, "Content-Type": kind},
            seconds=_seconds(variables.get("TIMEOUT")),
            compressed=compression == "gzip",
            tls=_tls(variables),
        )
        self._resource = _resource(environment)

    @property
    def address(self) -> str:
        return self._poster.address

    async def send(self, verdicts: Sequence[Verdict]) -> Rejected | None:
        document = _document(verdicts, self._resource)
        body = msgspec.json.encode(document) if self._json else _protobuf(document)
        reply = await self._poster.post(body)
        if reply.status == TOO_LARGE and len(verdicts) > 1:
            middle = len(verdicts) // 2
            parts = [await self.send(verdicts[:middle]), await self.send(verdicts[middle:])]
            lost = [part for part in parts if part is not None]
            return Rejected(sum(part.verdicts for part in lost), lost[0].reason) if lost else None
        if not 200 <= reply.status < 300:
            raise self._poster.refusal(reply)
        return self._rejected(reply)

    def _rejected(self, reply: Reply) -> Rejected | None:
        """The partial success of an answer. Such records must not be sent again."""
        read = _ANSWERS.get(reply.content_type)
        if not reply.body or read is None:
            return None
        try:
            number, reason = read(reply.body)
        except (ValueError, TypeError, AttributeError):  # of a proxy, or of a server that is no receiver
            wanted = "expected the answer of an OTLP receiver"
            raise EnvironmentFailure(f"{self.address}: {wanted}, got {reply.text!r}") from None
        return Rejected(number, reason or "without a reason") if number else None


class _Variables:
    """The variables of OpenTelemetry for logs, else for all signals."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def get(self, name: str) -> str:
        for prefix in ("OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_"):
            if text := self._environment.get(prefix + name, "").strip():
                return text
        return ""


def _endpoint(url: str, variables: _Variables, environment: Mapping[str, str]) -> str:
    """The URL of the logs: the one for logs as it is, any other with /v1/logs behind its path."""
    whole = environment.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "").strip()
    if not url and whole:
        return whole
    parts = urlsplit(url or variables.get("ENDPOINT") or USUAL)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(PATH) else path + PATH))


def _seconds(text: str) -> float:
    """As the SDK of Python reads it: in seconds."""
    try:
        seconds = float(text) if text else SECONDS
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"OTEL_EXPORTER_OTLP_TIMEOUT: expected a number of seconds above 0, got {text!r}")
    return min(seconds, LONGEST)


def _tls(variables: _Variables) -> ssl.SSLContext | None:
    authority = variables.get("CERTIFICATE")
    certificate, key = variables.get("CLIENT_CERTIFICATE"), variables.get("CLIENT_KEY")
    if not (authority or certificate):
        return None
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as wrong:
        raise ValueError(
            f"OTEL_EXPORTER_OTLP_CERTIFICATE: expected files of certificates, got {wrong}"
        ) from None
    return context


def _resource(environment: Mapping[str, str]) -> dict[str, Value]:
    attributes: dict[str, Value] = {"service.name": "assay", "service.version": __version__}
    place = "OTEL_RESOURCE_ATTRIBUTES"
    attributes |= headers_of(environment.get(place, ""), place)
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        attributes["service.name"] = name
    return attributes


def _attributes(verdict: Verdict) -> dict[str, Value]:
    members: dict[str, Value | None] = {
        "gen_ai.evaluation.name": verdict.name,
        "gen_ai.evaluation.score.value": verdict.score,
        "gen_ai.evaluation.score.label": verdict.label,
        "gen_ai.evaluation.explanation": verdict.explanation,
        "gen_ai.response.id": verdict.response_id,
        "error.type": verdict.error_type,
        "log.record.uid": verdict.uid,
        "assay.run.id": verdict.run,
    }
    return {name: value for name, value in members.items() if value is not None}


def _document(verdicts: Sequence[Verdict], resource: Mapping[str, Value]) -> dict[str, Any]:
    """An export request in OTLP/JSON."""
    records = [
        {
            "timeUnixNano": str(one.time),
            "observedTimeUnixNano": str(one.time),
            "eventName": EVENT,
            "traceId": one.trace_id,
            "spanId": one.span_id,
            "attributes": _pairs(_attributes(one)),
        }
        for one in verdicts
    ]
    scope = {"name": "assay", "version": __version__}
    group = {
        "resource": {"attributes": _pairs(resource)},
        "scopeLogs": [{"scope": scope, "logRecords": records}],
    }
    return {"resourceLogs": [group]}


def _pairs(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}}
        for key, value in attributes.items()
    ]


def _protobuf(document: dict[str, Any]) -> bytes:
    """The bytes of an export request. Its ids are bytes there, and protobuf reads bytes from base64."""
    import base64  # deferred imports: the extra `telemetry`

    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    for group in document["resourceLogs"]:
        for scope in group["scopeLogs"]:
            for record in scope["logRecords"]:
                for name in ("traceId", "spanId"):
                    record[name] = base64.b64encode(bytes.fromhex(record[name])).decode()
    return ParseDict(document, ExportLogsServiceRequest()).SerializeToString()


class _PartialSuccess(Struct, frozen=True, rename="camel"):
    rejected_log_records: int | str = 0
    error_message: str = ""


class _Answer(Struct, frozen=True, rename="camel"):
    partial_success: _PartialSuccess = _PartialSuccess()


def _partial_json(body: bytes) -> tuple[int, str]:
    partial = msgspec.json.decode(body, type=_Answer).partial_success
    return int(partial.rejected_log_records), partial.error_message


def _partial_protobuf(body: bytes) -> tuple[int, str]:
    from google.protobuf.message import DecodeError  # deferred imports: the extra `telemetry`
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    try:
        partial = ExportLogsServiceResponse.FromString(body).partial_success
    except DecodeError as wrong:
        raise ValueError(str(wrong)) from None
    return partial.rejected_log_records, partial.error_message


def _no_receiver(body: bytes) -> tuple[int, str]:
    raise ValueError("a page")


_ANSWERS = {JSON_TYPE: _partial_json, PROTOBUF_TYPE: _partial_protobuf, "text/html": _no_receiver}
