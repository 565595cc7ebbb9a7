"""What a body becomes is known before it is decoded, and large ones are read in parts with the same outcome (ADR-0038)."""

import hashlib
import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InvalidRequest
from assay.protocol.canonical import sorted_json
from assay.protocol.duplicates import check_elements, elements
from assay.serve.grpc.fep_pb2 import EvaluationRequest
from assay.serve.web.body_reader import MAX_FACTOR, SMALL, Footprint, footprint, message_footprint
from assay.serve.web.limit_settings import ServerLimits
from support.servers.rest_client import Server, lines_of, request_of, sqlite

WHOLE = 512  # bytes that any text may take beside the estimate
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)  # fmt: skip
DENSE = [
    "[]",
    "{}",
    "1",
    "1000",
    "1.5",
    '"ab"',
    '{"a":1}',
    '{"a":[]}',
    "[[]]",
    '"☃x"',
    '"x😀"',
    r'"x\ud83d\ude00"',
]


def size(value, seen):
    """Of a value and all that is in it, each object once, as Python rounds it up."""
    if id(value) in seen:
        return 0
    seen[id(value)] = value
    own = (sys.getsizeof(value) + 15) // 16 * 16
    if isinstance(value, dict):
        return own + 16 + sum(size(name, seen) + size(inner, seen) for name, inner in value.items())
    return own + 16 + sum(size(inner, seen) for inner in value) if isinstance(value, list) else own


@given(value=VALUES, ascii=st.booleans(), cut=st.integers(0, 200))
def test_a_decoded_text_is_no_larger_than_its_estimate(value, ascii, cut):
    text = json.dumps(value, ensure_ascii=ascii).encode()
    taken = Footprint()
    estimate = taken.add(text[:cut]) + taken.add(text[cut:])
    assert estimate >= len(text)
    assert size(msgspec.json.decode(text), {}) <= estimate + WHOLE


@pytest.mark.parametrize("one", DENSE)
def test_the_most_expensive_texts_are_within_their_estimate(one):
    text = f"[{','.join([one] * 2_000)}]".encode()
    assert size(msgspec.json.decode(text), {}) <= Footprint().add(text) + WHOLE
    assert size(msgspec.json.decode(text), {}) <= MAX_FACTOR * len(text) + WHOLE


def test_a_small_text_is_not_estimated():
    assert footprint(b" " * SMALL) == MAX_FACTOR * SMALL
    assert footprint(b" " * (SMALL + 1)) == 2 * (SMALL + 1)


def test_a_message_of_lists_is_within_its_estimate():
    message = EvaluationRequest()
    message.outputs.add().value.json_value.list_value.extend([[]] * 5_000)
    data = message.SerializeToString()
    assert message_footprint(data) >= size([[] for _ in range(5_000)], {})
    assert message_footprint(b"x" * 100_000) == 200_000


@given(value=VALUES, at_once=st.integers(0, 60), indent=st.sampled_from([None, 1]))
def test_json_sorted_in_parts_is_json_sorted_at_once(value, at_once, indent):
    text = json.dumps(value, indent=indent).encode()
    parts: list[bytes] = []
    sorted_json(text, parts.append, at_once)
    plain = msgspec.json.Encoder(order="sorted").encode(msgspec.json.decode(text))
    assert b"".join(parts) == plain
    assert hashlib.sha256(plain).digest()  # what is kept of it


@given(text=st.binary(max_size=300), most=st.integers(0, 40))
def test_one_element_above_a_bound_is_refused(text, most):
    if elements(text) <= most:
        check_elements(text, most)
    else:
        with pytest.raises(InvalidRequest, match="ASSAY_MAX_ELEMENTS"):
            check_elements(text, most)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    serving = ServerLimits(max_elements=1_000, max_tenant_held_bytes=4_000_000)
    with Server(sqlite(tmp_path_factory.mktemp("footprint")), serving=serving) as host:
        yield host


LONG = [[] for _ in range(600)]
JSON, LINES = {"content-type": "application/json"}, {"content-type": "application/x-ndjson"}


def with_value(value, many=2):
    request = request_of(many)
    request["outputs"][1]["value"] = value
    return request


@pytest.mark.parametrize(
    ("path", "body", "headers", "place"),
    [
        ("/v1/evaluate", with_value(LONG), JSON, "outputs[1]"),
        ("/v1/evaluate", request_of(1) | {"checks": LONG}, JSON, "checks"),
        ("/v1/evaluate", request_of(1) | {"experiment_metadata": {"a": LONG}}, JSON, "experiment_metadata"),
        (
            "/v1/evaluate",
            request_of(1) | {"unknown": LONG},
            JSON,
            "",
        ),  # not decoded to tell all that is wrong
        ("/v1/evaluate", lines_of(with_value(LONG)), LINES, "line 3"),
        ("/v1/evaluate", lines_of(request_of(1) | {"checks": LONG}), LINES, "line 1"),
        ("/v1/runs", {"workflowId": "a", "inputs": {"a": LONG}}, JSON, ""),
        ("/v1/host/assay/suites", {"a": LONG}, JSON, ""),
    ],
)
def test_a_value_that_takes_long_to_decode_is_refused_with_its_place(host, path, body, headers, place):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with host.client() as client:
        got = client.post(path, content=data, headers=headers)
    assert got.status_code == 400, got.text
    (problem,) = got.json()["details"]["problems"]
    assert problem.get("place", "") == place, problem
    assert "more than 1000 brackets, quotes and commas" in problem["message"]


def test_many_small_cases_have_no_bound_of_elements(host):
    with host.client() as client:
        got = client.post("/v1/evaluate", json=request_of(400))
        assert (got.status_code, got.json()["summary"]["total_test_cases"]) == (200, 400)


def test_a_body_counts_with_its_decoded_size(host):
    held = ServerLimits(max_tenant_held_bytes=4_000_000).max_tenant_held_bytes
    body = json.dumps(with_value([1] * 100_000)).encode()
    assert len(body) < held / 8
    with host.client() as client:
        got = client.post("/v1/evaluate", content=body, headers=JSON)
        assert (got.status_code, got.json()["details"]["setting"]) == (413, "max_tenant_held_bytes")
        assert host.app.state.server.admission.body_bytes == 0


@pytest.mark.parametrize(
    ("value", "status"),
    [("x", 200), ([1] * 100_000, 413), (LONG, 400)],
    ids=["answered", "too large", "refused"],
)
def test_the_bytes_of_a_body_are_released_before_the_response(host, value, status):
    body = json.dumps(with_value(value)).encode()
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]
    messages = [{"type": "http.request", "body": part, "more_body": part is parts[0]} for part in parts]
    held, statuses = [], []

    async def receive():
        held.append(host.app.state.server.admission.body_bytes)
        return messages.pop(0)

    async def send(message):
        held.append(host.app.state.server.admission.body_bytes)
        statuses.append(message.get("status"))

    headers = {**JSON, "authorization": f"Bearer {host.key()}"}
    scope = {"type": "http", "method": "POST", "path": "/v1/evaluate", "query_string": b"", "scheme": "http",
             "headers": [(name.encode(), text.encode()) for name, text in headers.items()]}  # fmt: skip
    host.do(host.app(scope, receive, send))
    assert statuses[0] == status
    assert held[1] > 0  # while the second part is read
    assert held[-2:] == [0, 0]


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_a_long_line_counts_and_is_released(host, ending):
    request = with_value("x" * 700_000)
    with host.client() as client:
        lines = lines_of(request).rstrip(b"\n")
        got = client.post("/v1/evaluate", content=lines + ending, headers=LINES)
        assert got.status_code == 200, got.text
        got = client.post(
            "/v1/evaluate", content=lines_of(with_value("x" * 3_000_000)) + ending, headers=LINES
        )
        assert (got.status_code, got.json()["details"]["setting"]) == (413, "max_tenant_held_bytes")
        assert host.app.state.server.admission.body_bytes == 0
