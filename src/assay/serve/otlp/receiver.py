"""
The receiver of OTLP over HTTP: `/v1/traces` and `/v1/logs`.

A request is answered with 200 once its spans are in the store. A span that is wrong, or belongs to no project, is
rejected alone, and the answer counts it (`partial_success`).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from assay.concurrency.threads import in_place
from assay.errors import InvalidRequest, NotFound, Problem, Refusal
from assay.fep.trace_windows.projects import TraceProject
from assay.fep.trace_windows.supervisor import TraceIntake
from assay.inputs.context import not_json
from assay.ports import PutDocument
from assay.ports.telemetry import telemetry
from assay.protocol.duplicates import check_elements
from assay.protocol.operations import ErrorResponse
from assay.serve.web.body_reader import EACH, read_binary
from assay.serve.web.handler import Endpoint, Parameter, ResponseSpec, RouteSpec
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, error_response
from assay.traces.otlp import Item, items_of_json, items_of_protobuf
from assay.traces.otlp_protobuf import MAX_FIELDS
from assay.traces.span_inbox import inbox_documents
from assay.traces.spans import Span

PROTOBUF, JSON = b"application/x-protobuf", b"application/json"
INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, EXHAUSTED, INTERNAL, UNAVAILABLE = 3, 5, 7, 8, 13, 14
CODES = {
    403: PERMISSION_DENIED,
    404: NOT_FOUND,
    413: EXHAUSTED,
    429: EXHAUSTED,
    500: INTERNAL,
    503: UNAVAILABLE,
}
PROJECT = b"x-assay-project"
SERVICE = "service.name"
NAMED = 3  # problems that the message of an answer names
SMALLEST = 4  # bytes of a usual field of protobuf, at least
Signal = Literal["traces", "logs"]


class TraceReceiver:
    """Attached to the `ServerState` of one process, if projects are configured."""

    def __init__(self, intake: TraceIntake) -> None:
        self.intake = intake

    def stop(self) -> None:
        """Nothing is open between two requests."""


class Received(NamedTuple):
    """The documents of a request, by project, with the number of their items, and what was rejected."""

    documents: dict[str, tuple[int, list[PutDocument]]]
    problems: list[Problem]


async def receive(signal: Signal, call: HttpRequest) -> Response:
    """Answer as OTLP/HTTP says, in the encoding that came: errors are a Status."""
    header = (call.header(b"content-type") or "").partition(";")[0].strip().lower()
    media = PROTOBUF if header == PROTOBUF.decode() else JSON
    try:
        return await _receive(signal, call, media)
    except Refusal as refusal:
        await call.audit_refusal(refusal, f"/v1/{signal}")
        failed = error_response(refusal, call.id)
        assert isinstance(failed.body, bytes)
        message = msgspec.json.decode(failed.body, type=ErrorResponse).message
        body = status_message(media, failed.status, message)
        return Response(body, failed.status, media, failed.headers)


async def _receive(signal: Signal, call: HttpRequest, media: bytes) -> Response:
    call.server.admission.check_open()
    intake = _intake(call)
    projects = [one for one in intake.projects.values() if one.takes(call.tenant)]
    if not projects:
        raise NotFound(
            f"/v1/{signal}: no project of the settings ([traces.NAME]) takes traces of this tenant"
        )
    named = _named_project(call, projects)
    limit = call.server.serving.max_body_bytes
    body = await read_binary(call, [PROTOBUF.decode(), JSON.decode()], limit, "max_body_bytes")
    if media == PROTOBUF:
        call.reservation.reserve_bytes(EACH * min(len(body) // SMALLEST, MAX_FIELDS))
    else:
        check_elements(body, call.server.serving.max_elements)
    now = int(call.server.clock.now().timestamp() * 1_000_000)
    received = await in_place(
        lambda: read_request(body, media, signal, call.tenant, projects, named, now), len(body)
    )
    await intake.store_spans(call.tenant, {name: some for name, (_, some) in received.documents.items()})
    for name, (count, _) in received.documents.items():
        telemetry.add("assay_trace_spans", count, name, "accepted")
    rejected = len(received.problems)
    if rejected:
        telemetry.add("assay_trace_spans", rejected, "", "rejected")
    member = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
    return Response(export_response(media, member, rejected, _message(received.problems)), 200, media)


def _intake(call: HttpRequest) -> TraceIntake:
    try:
        return call.server.resource(TraceReceiver).intake
    except NotFound:
        raise NotFound(
            "this server takes no traces: its settings have no project, [traces.NAME] in assay.toml"
        ) from None


def _named_project(call: HttpRequest, projects: Sequence[TraceProject]) -> TraceProject | None:
    """The project that the header names; None: each resource names its own."""
    name = call.header(PROJECT)
    if name is None:
        return projects[0] if len(projects) == 1 else None
    found = next((one for one in projects if one.name == name), None)
    if found is None:
        there = ", ".join(one.name for one in projects)
        raise InvalidRequest(
            Problem(PROJECT.decode(), f"there is no project {name[:64]!r}; there are {there}")
        )
    return found


def read_request(
    body: bytes,
    media: bytes,
    signal: Signal,
    tenant: str,
    projects: Sequence[TraceProject],
    named: TraceProject | None,
    now: int,
) -> Received:
    """The documents to store for a request."""
    problems: list[Problem] = []
    items = items_of_protobuf(body, problems, signal) if media == PROTOBUF else _items_of_text(body, problems)
    by_name = {one.name: one for one in projects}
    sorted_items: dict[str, list[Item]] = {}
    for item in items:
        project = named or by_name.get(service_of(item))
        if project is None:
            there = ", ".join(by_name)
            wanted = (
                f"expected a {SERVICE} that is a project, or the header {PROJECT.decode()}; there are {there}"
            )
            problems.append(Problem(f"{SERVICE} {service_of(item)[:64]!r}", wanted))
            continue
        sorted_items.setdefault(project.name, []).append(item)
    documents = {
        name: (len(some), _documents(tenant, by_name[name], some, now)) for name, some in sorted_items.items()
    }
    return Received(documents, problems)


def _documents(tenant: str, project: TraceProject, items: list[Item], now: int) -> list[PutDocument]:
    config = project.config
    rate = 1.0 if config.case == "conversation" else config.sample  # conversations are sampled as a whole
    return inbox_documents(tenant, project.name, items, rate, now)


def _items_of_text(body: bytes, problems: list[Problem]) -> Any:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise InvalidRequest(Problem("", not_json(body, wrong))) from None
    return items_of_json(document, problems)


def service_of(item: Item) -> str:
    """The name of the service that sent an item."""
    name = item.resource.get(SERVICE) if isinstance(item, Span) else item.service
    return name if isinstance(name, str) else ""


def _message(problems: Sequence[Problem]) -> str:
    if not problems:
        return ""
    more = f"; and {len(problems) - NAMED} more" if len(problems) > NAMED else ""
    return "; ".join(map(str, problems[:NAMED])) + more


HEADER = Parameter(
    PROJECT.decode(),
    {"type": "string"},
    "The project. Default: the one whose name is the service.name of the resource, or the only one.",
    "header",
)


def _route(signal: Signal, what: str) -> RouteSpec:
    endpoint: Endpoint = partial(receive, signal)
    return RouteSpec(
        method="POST",
        path=f"/v1/{signal}",
        endpoint=endpoint,
        scope="traces:write",
        id=f"export{signal.capitalize()}",
        summary=f"Receive {what} over OTLP, as protobuf or JSON, to be scored",
        media=PROTOBUF.decode(),
        responses={
            200: ResponseSpec("What was rejected, in the encoding of the request."),
            **dict.fromkeys(
                (400, 404, 413, 415), ResponseSpec("Why, as a google.rpc.Status in that encoding.")
            ),
        },
        errors=(404, 413, 415, 429),
        parameters=(HEADER,),
    )


OTLP = [_route("traces", "spans"), _route("logs", "log records of spans")]


def export_response(media: bytes, member: str, rejected: int, message: str) -> bytes:
    """An ExportTraceServiceResponse or ExportLogsServiceResponse. `member`: rejectedSpans or rejectedLogRecords."""
    if not rejected and not message:
        return b"" if media == PROTOBUF else b"{}"
    if media == PROTOBUF:
        return _field(1, _number(1, rejected) + _field(2, message.encode()))
    partial = {member: str(rejected), "errorMessage": message}
    return msgspec.json.encode({"partialSuccess": partial})


def status_message(media: bytes, http_status: int, message: str) -> bytes:
    """A google.rpc.Status."""
    code = CODES.get(http_status, INVALID_ARGUMENT)
    if media == PROTOBUF:
        return _number(1, code) + _field(2, message.encode())
    return msgspec.json.encode({"code": code, "message": message})


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _field(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
