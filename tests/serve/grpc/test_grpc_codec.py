"""What gRPC reads and writes as bytes is what protobuf itself reads and writes."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json as wire

from assay.checks import STANDARD
from assay.conform.grpc.messages import message_of
from assay.errors import InvalidRequest
from assay.ports import Limits, Services
from assay.serve.fep.server_state import PlanCache
from assay.serve.grpc import fep_pb2 as fep
from assay.serve.grpc.codec import decode as unpacked
from assay.serve.grpc.codec.encode import length_delimited
from assay.serve.grpc.codec.result_codec import moment
from assay.serve.grpc.request import decode_message
from test_grpc_equal import OBJECTS, VALUES, WORDS

LIMITS = Limits()
OFFICE: Any = SimpleNamespace(services=Services(), registry=STANDARD)
PLANS = PlanCache(OFFICE)
MANY = 8  # cases of a request
LETTERS = "abcdefgh\n\u00e9\u0001" * 40


def varied(document, turn):
    """The same members, with texts of the same length and other numbers; or now and then of another length."""
    if isinstance(document, dict):
        return {key: varied(one, turn) for key, one in document.items()}
    if isinstance(document, list):
        return [varied(one, turn) for one in document]
    if isinstance(document, bool) or document is None:
        return document if turn % 5 else not document
    if isinstance(document, str):
        return document if turn % 3 == 0 else LETTERS[turn : turn + len(document) + turn % 7 // 6 * turn]
    return (document, turn, turn + 0.5, 2.0**60 + turn, -turn)[turn % 5]


@st.composite
def alike(draw):
    kinds = [
        {
            "test_case": {
                "id": "c",
                "input": draw(VALUES),
                "metadata": draw(OBJECTS),
                "expected": draw(VALUES),
            },
            "output": {
                "value": draw(VALUES | OBJECTS),
                "metadata": draw(OBJECTS),
                "id": draw(WORDS.filter(bool)),
            },
        }
        for _ in range(draw(st.integers(1, 2)))
    ]
    made: list[Any] = [varied(kinds[turn % len(kinds)], turn) for turn in range(MANY)]
    for at, one in enumerate(made):
        one["test_case"]["id"] = f"c{at:03}"
    contexts = {"test_cases": [one["test_case"] for one in made], "outputs": [one["output"] for one in made]}
    return contexts | {"checks": []}


def number(field):
    if field != field or field in (float("inf"), -float("inf")):
        raise unpacked.NotJSON
    return int(field) if field.is_integer() and abs(field) <= 2**53 else field


def plain(value):
    """A Value by protobuf itself."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return members(value.struct_value)
    if kind == "list_value":
        return [plain(one) for one in value.list_value.values]
    if kind == "number_value":
        return number(value.number_value)
    return None if kind in (None, "null_value") else getattr(value, kind)


def members(struct):
    return {key: plain(one) for key, one in struct.fields.items()}


def put(document, name, either):
    kind = either.WhichOneof("value")
    if kind is not None:
        how = {"object_value": members, "json_value": plain, "string_value": str}[kind]
        document[name] = how(getattr(either, kind))


def documents(message):
    for case, output in zip(message.test_cases, message.outputs, strict=True):
        one: dict[str, Any] = {"id": case.id}
        put(one, "input", case.input)
        if case.HasField("expected"):
            put(one, "expected", case.expected)
        if case.HasField("metadata"):
            one["metadata"] = members(case.metadata)
        other: dict[str, Any] = {}
        put(other, "value", output.value)
        if output.HasField("metadata"):
            other["metadata"] = members(output.metadata)
        if output.HasField("id"):
            other["id"] = output.id
        yield {"test_case": one, "output": other}


def exactly(documents):
    """1 and 1.0 are not the same here, and neither are 0.0 and -0.0; keys have no order."""
    return [wire.encode(one, order="sorted") for one in documents]


def echoed(echo):
    case, output, about = echo
    expected = fep.TestCase.FromString(case), fep.Output.FromString(output)
    return *expected, fep.CheckResultMetadata.FromString(about)


@given(request=alike())
@settings(max_examples=settings.default.max_examples // 3, deadline=None)
def test_a_request_is_read_as_protobuf_reads_it(request):
    message = message_of(request)
    converted = decode_message(message.SerializeToString(), PLANS, LIMITS)
    contexts = converted.request.contexts
    assert exactly(one.document for one in contexts) == exactly(documents(message))
    assert [one.line for one in contexts] == [wire.encode(one.document) for one in contexts]
    for echo, case, output in zip(
        converted.encoded_contexts, message.test_cases, message.outputs, strict=True
    ):
        echoed_case, given, about = echoed(echo)
        assert next(documents(SimpleNamespace(test_cases=[echoed_case], outputs=[given]))) == next(
            documents(SimpleNamespace(test_cases=[case], outputs=[output]))
        )
        assert (about.test_case_id, about.test_case_metadata, about.output_metadata) == (
            case.id,
            case.metadata,
            output.metadata,
        )


TRACE = {"scores": {"good": 0.25, "bad": 3}, "flags": ["a", True, None], "name": "x" * 20}
USUAL = {
    "test_cases": [{"id": f"c{at:03}", "input": "what?", "metadata": TRACE} for at in range(MANY)],
    "outputs": [{"value": TRACE | {"text": "é\n" * (at % 20)}, "metadata": TRACE} for at in range(MANY)],
    "checks": [],
}
WRITTEN = message_of(USUAL).SerializeToString(deterministic=True)


@given(at=st.integers(min_value=0), new=st.binary(max_size=3), gone=st.integers(0, 2))
def test_mutated_bytes_are_read_as_protobuf_reads_them(at, new, gone):
    at %= len(WRITTEN)
    data = WRITTEN[:at] + new + WRITTEN[at + gone :]
    try:
        found: Any = exactly(one.document for one in decode_message(data, PLANS, LIMITS).request.contexts)
    except InvalidRequest:
        found = None
    message = fep.EvaluationRequest()
    try:
        message.MergeFromString(data)
        wanted: Any = exactly(documents(message))
    except (DecodeError, ValueError):  # no message; NaN; more cases than outputs
        wanted = None
    if found is not None or wanted is None:
        assert found == wanted
    else:  # protobuf reads it, and it is no request all the same
        assert any(
            "value" not in one["output"] or "input" not in one["test_case"] for one in documents(message)
        ) or (len({case.id for case in message.test_cases}) < len(message.test_cases))


def request_with(value: bytes) -> bytes:
    """One case, whose output has this google.protobuf.Value as its member `n`."""
    member = length_delimited(b"\x0a", length_delimited(b"\x0a", b"n") + length_delimited(b"\x12", value))
    case = length_delimited(
        b"\x0a", length_delimited(b"\x0a", b"c") + length_delimited(b"\x12", length_delimited(b"\x0a", b"q"))
    )
    output = length_delimited(b"\x12", length_delimited(b"\x0a", length_delimited(b"\x12", member)))
    return case + output + length_delimited(b"\x1a", length_delimited(b"\x0a", b""))


@pytest.mark.parametrize(
    "number", [b"\x00", b"\x02", b"\x7f", b"\x80\x01", b"\xff" * 9 + b"\x01", b"\x80\x00"]
)
def test_a_null_value_of_any_number_is_null(number):
    data = request_with(b"\x08" + number)
    message = fep.EvaluationRequest.FromString(data)
    (read,) = decode_message(data, PLANS, LIMITS).request.contexts
    assert [read.document] == list(documents(message))
    assert read.document["output"]["value"] == {"n": None}


@pytest.mark.parametrize("number", [b"", b"\x80", b"\x80" * 11 + b"\x00"])
def test_an_unterminated_null_value_is_not_a_message(number):
    with pytest.raises(InvalidRequest, match=r"expected a fep\.v1\.EvaluationRequest"):
        decode_message(request_with(b"\x08" + number), PLANS, LIMITS)


def test_a_truncated_number_is_not_a_message():
    number = length_delimited(
        b"\x0a", length_delimited(b"\x0a", b"n") + length_delimited(b"\x12", b"\x11" + bytes(8))
    )
    value = length_delimited(b"\x0a", length_delimited(b"\x12", number[:-3]))
    case = length_delimited(
        b"\x0a", length_delimited(b"\x0a", b"c") + length_delimited(b"\x12", length_delimited(b"\x0a", b"q"))
    )
    with pytest.raises(InvalidRequest, match=r"expected a fep\.v1\.EvaluationRequest"):
        decode_message(case + length_delimited(b"\x12", value), PLANS, LIMITS)


@pytest.mark.parametrize("tags", [["a", "b"], [], ["a" * 80], ["a", 1], [["a"]], [{"a": "b"}]])
def test_equal_lists_of_cases_are_lists_of_their_own(tags):
    """Short lists of texts are decoded once a request."""
    cases = [{"id": f"c{at}", "input": {"tags": tags}} for at in range(3)]
    request = {"test_cases": cases, "outputs": [{"value": 1}] * 3, "checks": []}
    contexts = decode_message(message_of(request).SerializeToString(), PLANS, LIMITS).request.contexts
    found = [context.document["test_case"]["input"]["tags"] for context in contexts]
    assert found == [tags] * 3
    assert len({id(one) for one in found}) == 3


@settings(max_examples=60)
@given(
    when=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # strategies take naive bounds
    | st.integers(0, 22).map(lambda power: datetime(2026, 1, 2, tzinfo=UTC) + timedelta(microseconds=2**power // 3))
)  # fmt: skip
def test_a_moment_is_written_as_protobuf_writes_it(when):
    result = fep.CheckResult()
    result.evaluated_at.FromDatetime(when)
    result.evaluated_at.SetInParent()
    assert moment(when) == result.SerializeToString()
