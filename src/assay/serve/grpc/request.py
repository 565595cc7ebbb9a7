"""An evaluation request from its message (FEP 3.1, 5.2): converted once, and its contexts kept as they came."""

from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import DecodeError, Message

from assay.errors import InvalidRequest, Problem
from assay.fep.request import RequestContexts, unpaired
from assay.ports import Limits
from assay.protocol.evaluation import ExperimentMetadata
from assay.serve.fep.plan_cache import CachedPlan, PlanCache
from assay.serve.fep.request import ParsedRequest, experiment_of, parse_parts, read_contexts
from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.contexts import Contexts
from assay.serve.grpc.codec.decode import Span
from assay.serve.grpc.codec.results import EncodedContext
from assay.serve.grpc.fep_pb2 import EvaluationRequest

_CASES, _OUTPUTS, _CHECKS, _EXPERIMENT = 0x0A, 0x12, 0x1A, 0x22  # the fields of an EvaluationRequest
_ONCE = (_CHECKS, _EXPERIMENT)
_encode = msgspec.json.Encoder().encode


class DecodedRequest(NamedTuple):
    """A request that makes sense, and its contexts as they go out again."""

    whole: ParsedRequest
    echoes: list[EncodedContext]


def convert(data: bytes, plans: PlanCache, limits: Limits, *, arguments: bool = True) -> DecodedRequest:
    """Every problem at once, each with its place, before anything runs (decision 33). `arguments`: results say what checks were given."""
    try:
        return _converted(data, plans, limits, arguments)
    except (unpacked.NonCanonical, IndexError, UnicodeDecodeError, StructError, RecursionError):
        return _converted(_rewritten(data), plans, limits, arguments)


def _rewritten(data: bytes) -> bytes:
    """By protobuf itself, without what it does not know; what it cannot read is no request."""
    try:
        message = EvaluationRequest.FromString(data)
    except DecodeError as wrong:
        raise no_message(EvaluationRequest, wrong) from None
    message.DiscardUnknownFields()
    return message.SerializeToString()


def no_message(kind: type[Message], wrong: DecodeError) -> InvalidRequest:
    return InvalidRequest(f"no {kind.DESCRIPTOR.full_name}, or nested too deeply to be read: {wrong}")


def _converted(data: bytes, plans: PlanCache, limits: Limits, arguments: bool) -> DecodedRequest:
    found: dict[int, list[Span]] = {_CASES: [], _OUTPUTS: [], _CHECKS: [], _EXPERIMENT: []}
    for tag, start, stop in unpacked.fields(data, 0, len(data)):
        if tag not in found or (tag in _ONCE and found[tag]):
            raise unpacked.NonCanonical
        found[tag].append((start, stop))
    cases, outputs = found[_CASES], found[_OUTPUTS]
    told = Contexts(data, cases, outputs, limits)

    def contexts() -> RequestContexts:
        found = read_contexts(map(told.read, range(min(len(cases), len(outputs), limits.max_cases))))
        problems = unpaired(len(cases), len(outputs), limits)
        return (
            found
            if not problems
            else RequestContexts(
                found.contexts, found.places, len(cases), problems + found.problems + told.alone()
            )
        )

    def experiment() -> ExperimentMetadata | None:
        text = _experiment(data, *found[_EXPERIMENT][0]) if found[_EXPERIMENT] else b""
        return experiment_of(text, limits)

    def planned() -> CachedPlan:
        text = _checks(data, *found[_CHECKS][0]) if found[_CHECKS] else b""
        return plans.of(text, arguments=arguments)

    whole = parse_parts(contexts, experiment, planned, plans)
    return DecodedRequest(ParsedRequest(whole.asked, whole.contexts, []), told.echoes)


def _checks(data: bytes, at: int, end: int) -> bytes:
    """A CheckConfiguration as REST has it: a list of checks, or a list of such lists; of neither, nothing."""
    found = list(unpacked.fields(data, at, end))
    if not found:
        return b""
    if len(found) > 1:
        raise unpacked.NonCanonical
    ((tag, start, stop),) = found
    if tag == 0x0A:
        return _encode(_listed(data, start, stop, "checks"))
    if tag != 0x12:
        raise unpacked.NonCanonical
    lists = [(_only(tag), one, two) for tag, one, two in unpacked.fields(data, start, stop)]
    return _encode([_listed(data, one, two, f"checks[{at}]") for at, (_, one, two) in enumerate(lists)])


def _listed(data: bytes, at: int, end: int, place: str) -> list[dict[str, Any]]:
    found = [(_only(tag), start, stop) for tag, start, stop in unpacked.fields(data, at, end)]
    return [_check(data, start, stop, f"{place}[{at}]") for at, (_, start, stop) in enumerate(found)]


def _only(tag: int) -> int:
    """Of a message that has one field."""
    if tag != 0x0A:
        raise unpacked.NonCanonical
    return tag


def _check(data: bytes, at: int, end: int, place: str) -> dict[str, Any]:
    check: dict[str, Any] = {"type": "", "arguments": {}}
    before = 0
    for tag, start, stop in unpacked.fields(data, at, end):
        if tag <= before or tag not in (0x0A, 0x12, 0x1A):
            raise unpacked.NonCanonical
        before = tag
        if tag == 0x12:
            check["arguments"] = _object(data, start, stop, f"{place}.arguments")
        else:
            check["type" if tag == 0x0A else "version"] = data[start:stop].decode()
    return check


def _experiment(data: bytes, at: int, end: int) -> bytes:
    said: dict[str, Any] = {}
    for tag, start, stop in unpacked.fields(data, at, end):
        if tag not in (0x0A, 0x12) or said.keys() & {"metadata", "name" if tag == 0x0A else ""}:
            raise unpacked.NonCanonical
        if tag == 0x0A:
            said["name"] = data[start:stop].decode()
        else:
            said["metadata"] = _object(data, start, stop, "experiment_metadata.metadata")
    return _encode(said)


def _object(data: bytes, at: int, end: int, place: str) -> dict[str, Any]:
    try:
        return unpacked.structs()(data, at, end)
    except unpacked.NotJSON as wrong:
        raise InvalidRequest(Problem(place, str(wrong))) from None
