"""Decodes an evaluation request from its message (FEP 3.1, 5.2); the bytes of contexts are kept for the response."""

from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import DecodeError, Message

from assay.errors import InvalidRequest, Problem
from assay.fep.planning.request import RequestContexts, pairing_problems
from assay.ports import Limits
from assay.protocol.evaluation import ExperimentMetadata
from assay.serve.fep.request_parser import ParsedRequest, experiment_of, parse_parts, read_contexts
from assay.serve.fep.server_state import CachedPlan, PlanCache
from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.contexts import Contexts
from assay.serve.grpc.codec.decode import Span
from assay.serve.grpc.codec.result_codec import EncodedContext
from assay.serve.grpc.fep_pb2 import EvaluationRequest

_CASES, _OUTPUTS, _CHECKS, _EXPERIMENT = 0x0A, 0x12, 0x1A, 0x22  # the fields of an EvaluationRequest
_ONCE = (_CHECKS, _EXPERIMENT)
_CHECK = {0x0A: "type", 0x12: "arguments", 0x1A: "version", 0x22: "name"}  # the fields of a Check
_encode = msgspec.json.Encoder().encode


class DecodedRequest(NamedTuple):
    """A valid request, and its contexts as they are encoded in the response."""

    request: ParsedRequest
    encoded_contexts: list[EncodedContext]


def decode_message(
    data: bytes, plans: PlanCache, limits: Limits, *, arguments: bool = True
) -> DecodedRequest:
    """Decode and plan a request. All problems are reported together, with places, before anything runs (FEP-33)."""
    try:
        return _decode(data, plans, limits, arguments)
    except (unpacked.NonCanonical, IndexError, UnicodeDecodeError, StructError, RecursionError):
        return _decode(_canonical(data), plans, limits, arguments)


def _canonical(data: bytes) -> bytes:
    """The message in canonical form, re-encoded by protobuf without unknown fields."""
    try:
        message = EvaluationRequest.FromString(data)
    except DecodeError as wrong:
        raise invalid_message(EvaluationRequest, wrong) from None
    message.DiscardUnknownFields()
    return message.SerializeToString()


def invalid_message(kind: type[Message], error: DecodeError) -> InvalidRequest:
    return InvalidRequest(f"expected a {kind.DESCRIPTOR.full_name} that is not nested too deeply: {error}")


def _decode(data: bytes, plans: PlanCache, limits: Limits, arguments: bool) -> DecodedRequest:
    spans: dict[int, list[Span]] = {_CASES: [], _OUTPUTS: [], _CHECKS: [], _EXPERIMENT: []}
    for tag, start, stop in unpacked.fields(data, 0, len(data)):
        if tag not in spans or (tag in _ONCE and spans[tag]):
            raise unpacked.NonCanonical
        spans[tag].append((start, stop))
    cases, outputs = spans[_CASES], spans[_OUTPUTS]
    reader = Contexts(data, cases, outputs, limits)

    def contexts() -> RequestContexts:
        parsed = read_contexts(map(reader.read, range(min(len(cases), len(outputs), limits.max_cases))))
        problems = pairing_problems(len(cases), len(outputs), limits)
        return (
            parsed
            if not problems
            else RequestContexts(
                parsed.contexts,
                parsed.case_indexes,
                len(cases),
                problems + parsed.problems + reader.pairing_problems(),
            )
        )

    def experiment() -> ExperimentMetadata | None:
        text = _experiment(data, *spans[_EXPERIMENT][0]) if spans[_EXPERIMENT] else b""
        return experiment_of(text, limits)

    def plan_checks() -> CachedPlan:
        text = _checks(data, *spans[_CHECKS][0]) if spans[_CHECKS] else b""
        return plans.get(text, arguments=arguments)

    request = parse_parts(contexts, experiment, plan_checks, plans)
    return DecodedRequest(request, reader.encoded_contexts)


def _checks(data: bytes, offset: int, end: int) -> bytes:
    """A CheckConfiguration as the JSON of REST: a list of checks, or a list of such lists; empty if it has neither."""
    items = list(unpacked.fields(data, offset, end))
    if not items:
        return b""
    if len(items) > 1:
        raise unpacked.NonCanonical
    ((tag, start, stop),) = items
    if tag == 0x0A:
        return _encode(_check_list(data, start, stop, "checks"))
    if tag != 0x12:
        raise unpacked.NonCanonical
    lists = [(_require_first_field(tag), one, two) for tag, one, two in unpacked.fields(data, start, stop)]
    return _encode(
        [_check_list(data, one, two, f"checks[{index}]") for index, (_, one, two) in enumerate(lists)]
    )


def _check_list(data: bytes, offset: int, end: int, path: str) -> list[dict[str, Any]]:
    items = [
        (_require_first_field(tag), start, stop) for tag, start, stop in unpacked.fields(data, offset, end)
    ]
    return [_check(data, start, stop, f"{path}[{index}]") for index, (_, start, stop) in enumerate(items)]


def _require_first_field(tag: int) -> int:
    """For a message that has only one field."""
    if tag != 0x0A:
        raise unpacked.NonCanonical
    return tag


def _check(data: bytes, offset: int, end: int, path: str) -> dict[str, Any]:
    check: dict[str, Any] = {"type": "", "arguments": {}}
    before = 0
    for tag, start, stop in unpacked.fields(data, offset, end):
        if tag <= before or tag not in _CHECK:
            raise unpacked.NonCanonical
        before = tag
        if tag == 0x12:
            check["arguments"] = _object(data, start, stop, f"{path}.arguments")
        else:
            check[_CHECK[tag]] = data[start:stop].decode()
    return check


def _experiment(data: bytes, offset: int, end: int) -> bytes:
    experiment: dict[str, Any] = {}
    for tag, start, stop in unpacked.fields(data, offset, end):
        if tag not in (0x0A, 0x12) or experiment.keys() & {"metadata", "name" if tag == 0x0A else ""}:
            raise unpacked.NonCanonical
        if tag == 0x0A:
            experiment["name"] = data[start:stop].decode()
        else:
            experiment["metadata"] = _object(data, start, stop, "experiment_metadata.metadata")
    return _encode(experiment)


def _object(data: bytes, start: int, end: int, path: str) -> dict[str, Any]:
    try:
        return unpacked.structs()(data, start, end)
    except unpacked.NotJSON as wrong:
        raise InvalidRequest(Problem(path, str(wrong))) from None
