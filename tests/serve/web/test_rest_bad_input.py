"""What is wrong with a request, a client or the world: a documented status, the closed error body, no traceback, nothing lost."""

import gzip
import json
import random
import resource
import select
import shutil
import socket
import sqlite3
import struct
import subprocess
import threading
import time
import zlib
from pathlib import Path

import httpx
import msgspec
import pytest

from assay.ports import Limits
from assay.protocol.operations import ErrorResponse
from assay.serve.web.limit_settings import ServerLimits
from support.runner import forkserver
from support.servers.rest_client import CONTAINS, Server, events_of, lines_of, request_of, slow, sqlite
from support.stores.postgres import server as postgres
from support.waiting import PATIENCE, wait_until

SMALL = ServerLimits(
    max_body_bytes=200_000,
    max_document_bytes=150_000,
    max_upload_bytes=2_000_000,
    head_seconds=0.6,
    body_seconds=0.6,
    send_seconds=0.6,
    max_batch=3,
)
LIMITS = Limits(max_cases=50, max_checks=5, max_depth=20, max_line_bytes=100_000)
JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(sqlite(tmp_path_factory.mktemp("bad")), serving=SMALL, limits=LIMITS) as host:
        yield host


def refused(answer, status, code):
    """The closed body, and the code that goes with the status."""
    assert answer.status_code == status, answer.text
    body = msgspec.json.decode(answer.content, type=ErrorResponse)
    assert body.error == code
    assert "Traceback" not in answer.text
    assert 'File "' not in answer.text
    assert answer.headers["x-request-id"]
    return body


def newest(client):
    """The last evaluation that was started; a new one would be another."""
    return [one["operation_id"] for one in client.get("/v1/evaluations?page_size=1").json()["operations"]]


def with_check(**arguments):
    return json.dumps(request_of(1, [{"type": "contains", "arguments": arguments}]))


# Bodies

ONE = {"test_cases": [{"id": "a", "input": 1}], "outputs": [{"value": 1}], "checks": []}
BODIES = [
    ("nothing", b"", "not JSON"),
    ("not JSON", b"{test_cases}", "not JSON"),
    ("cut off", b'{"test_cases": [', "not JSON: input data was truncated"),
    ("two documents", json.dumps(ONE).encode() + b" {}", "not JSON"),
    ("not UTF-8", b'{"test_cases": [{"id": "\xff", "input": 1}], "outputs": [{"value": 1}], "checks": []}', "not UTF-8"),
    ("a lone surrogate", b'{"test_cases": [{"id": "\\ud800", "input": 1}], "outputs": [{"value": 1}], "checks": []}', "not JSON"),
    ("NaN", b'{"test_cases": [{"id": "a", "input": NaN}], "outputs": [{"value": 1}], "checks": []}', "not JSON"),
    ("too large a number", b'{"test_cases": [{"id": "a", "input": 1e999}], "outputs": [{"value": 1}], "checks": []}', "number"),
    ("a list", b"[]", "expected an object with test_cases, outputs and checks, got a list"),
    ("null", b"null", "expected an object with test_cases, outputs and checks, got null"),
    ("an unknown member", json.dumps({**ONE, "hello": 1}).encode(), "hello: a request has no such member; its members are checks"),
    ("no cases", json.dumps({"outputs": [], "checks": []}).encode(), "test_cases: expected a list, got nothing"),
    ("cases that are none", json.dumps({**ONE, "test_cases": [{"id": 1}]}).encode(), "test_cases[0].id: expected a string"),
    ("lengths that differ", json.dumps({**ONE, "outputs": []}).encode(), "outputs: 0 outputs for 1 test cases"),
    ("no checks at all", json.dumps({"test_cases": ONE["test_cases"], "outputs": ONE["outputs"]}).encode(), "no checks"),
    ("checks that are null, as if absent", json.dumps({**ONE, "checks": None}).encode(), "test_cases[0].checks: there are no checks"),
    ("an unknown check", json.dumps({**ONE, "checks": [{"type": "vibes", "arguments": {}}]}).encode(), "no check 'vibes'"),
    ("code that the operator does not allow", json.dumps({**ONE, "checks": [{"type": "python_code", "arguments": {"code": "def check(output): return True"}}]}).encode(), "checks[0].arguments: expected a host that runs code"),
    ("a mixture", json.dumps({**ONE, "checks": [CONTAINS, [CONTAINS]]}).encode(), "mixture"),
    ("checks twice", json.dumps(request_of(1) | {"test_cases": [{"id": "a", "input": 1, "checks": []}]}).encode(), "expected checks in this case or in the request, got both"),
    ("another case of that id", json.dumps(request_of(2) | {"test_cases": [{"id": "a", "input": 1}, {"id": "a", "input": 2}]}).encode(), "already the id of another"),
    ("a wrong argument", with_check(text="$.output.value", phrases="Paris").encode(), "checks[0].arguments.phrases"),
    ("a NUL in a name", json.dumps({**ONE, "experiment_metadata": {"name": "a\0b"}}).encode(), "experiment_metadata.name"),
    ("a long name", json.dumps({**ONE, "experiment_metadata": {"name": "é" * 400}}).encode(), "experiment_metadata.name"),
    ("an unknown member of the experiment", json.dumps({**ONE, "experiment_metadata": {"x": 1}}).encode(), "experiment_metadata"),
    ("too many cases", json.dumps(request_of(51)).encode(), "ASSAY_MAX_CASES"),
    ("too many checks", json.dumps(request_of(1, [CONTAINS] * 6)).encode(), "ASSAY_MAX_CHECKS"),
    ("too deep", json.dumps({**ONE, "outputs": [{"value": eval("[" * 30 + "]" * 30)}]}).encode(), "ASSAY_MAX_DEPTH"),
    ("much too deep", b'{"test_cases":' + b"[" * 50_000, "deep"),
]  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/evaluate", "/v1/evaluations"])
@pytest.mark.parametrize(("body", "message"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_bad_body_is_400_with_its_place_and_nothing_is_started(client, path, body, message):
    before = newest(client)
    answer = refused(client.post(path, content=body, headers=JSON), 400, "validation_error")
    assert message in answer.message, answer.message
    assert answer.details["problems"]
    assert newest(client) == before


def test_all_problems_are_reported_at_once(client):
    body = request_of(3, [{"type": "vibes", "arguments": {}}], experiment_metadata=3)
    body |= {"test_cases": [body["test_cases"][0], {}, body["test_cases"][2]]}
    body |= {"outputs": [*body["outputs"][:2], 5]}
    answer = refused(client.post("/v1/evaluate", json=body), 400, "validation_error")
    places = {problem["place"] for problem in answer.details["problems"]}
    assert places == {
        "test_cases[1].id",
        "test_cases[1].input",
        "outputs[2]",
        "checks[0].type",
        "experiment_metadata",
    }


def test_the_own_checks_of_a_refused_case_hide_no_problem(client):
    bad = {"type": "regex", "arguments": {"text": "x", "pattern": "("}}
    case = {"id": "", "input": 1, "checks": [{"type": "vibes"}, bad]}
    body = {"test_cases": [case, {**case, "id": "b"}], "outputs": [{"value": 1}]}
    own = [
        f"test_cases[{at}].checks[{place}"
        for at in (0, 1)
        for place in ("0].arguments", "0].type", "1].arguments.pattern")
    ]
    answer = refused(client.post("/v1/evaluate", json=body), 400, "validation_error")
    places = [problem["place"] for problem in answer.details["problems"]]
    assert sorted(places) == sorted(["outputs", "test_cases[0].id", *own])
    line = json.dumps({"test_case": case, "output": {"value": 1}})
    lines = client.post(
        "/v1/evaluate", content=f"{{}}\n{line}\n", headers={"content-type": "application/x-ndjson"}
    )
    answer = refused(lines, 400, "validation_error")
    assert len(answer.details["problems"]) == 4


def test_every_wrong_member_is_reported(client):
    answer = refused(
        client.post("/v1/evaluate", json={"outputs": 3, "y": 1, "z": 2}), 400, "validation_error"
    )
    places = {problem["place"]: problem["message"] for problem in answer.details["problems"]}
    assert set(places) == {"test_cases", "outputs", "y", "z"}
    assert places["outputs"] == "expected a list, got a number"


def test_every_wrong_case_is_reported_with_its_place(client):
    cases = [{"id": 1, "input": 1}, *({"id": "a", "input": n} for n in (1, 2)), {}, {"id": "a", "input": 3}]
    body = {"test_cases": cases, "outputs": [{"value": 1}] * 5, "checks": []}
    answer = refused(client.post("/v1/evaluate", json=body), 400, "validation_error")
    places = {problem["place"] for problem in answer.details["problems"]}
    assert places == {
        "test_cases[0].id", "test_cases[2].id", "test_cases[3].id", "test_cases[3].input", "test_cases[4].id"
    }  # fmt: skip


def test_a_line_with_the_id_of_another_input_names_both_lines(client):
    cases = [
        {"id": "a", "input": 1},
        {"id": "b", "input": 1},
        {"id": "a", "input": 1.0},
        {"id": "b", "input": 2},
    ]
    lines = [json.dumps({"test_case": case, "output": {"value": 1}}) for case in cases]
    stored = newest(client)
    answer = client.post(
        "/v1/evaluate", content="\n".join([json.dumps({"checks": []}), *lines]), headers=LINES
    )
    refusal = refused(answer, 400, "validation_error")
    assert refusal.details["line"] == 5
    assert refusal.message == (
        "line 5: test_case.id: 'b' is already the id of a test case with another input: line 3"
    )
    assert newest(client) == stored
    assert (
        client.post(
            "/v1/evaluate", content="\n".join([json.dumps({"checks": []}), *lines[:3]]), headers=LINES
        ).status_code
        == 200
    )


def test_all_problems_of_a_head_are_reported_at_once(client):
    head = b'{"checks": [{"type": "vibes", "arguments": {}}], "experiment_metadata": {"name": 5}}'
    answer = refused(client.post("/v1/evaluations", content=head, headers=LINES), 400, "validation_error")
    places = [problem["message"].partition(": ")[0] for problem in answer.details["problems"]]
    assert places == ["checks[0].type", "experiment_metadata.name"]


def test_a_hundred_of_very_many_problems_are_reported(client):
    body = {"test_cases": [{}] * 50, "outputs": [{}] * 50, "checks": []}
    answer = refused(client.post("/v1/evaluate", json=body), 400, "validation_error")
    assert (len(answer.details["problems"]), answer.details["more"]) == (100, 50)
    assert answer.message.endswith("; and 145 more")


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        ([b""], None, "empty body"),
        ([b"{]"], 1, "not JSON"),
        ([b'{"checks": [], "x": 1}'], 1, "line 1: x: no such member; there are checks, experiment_metadata"),
        ([b'{"checks": [{"type": "vibes", "arguments": {}}]}'], 1, "no check 'vibes'"),
        ([b'{"checks": [], "experiment_metadata": 5}'], 1, "line 1: experiment_metadata: expected"),
        ([b'{"checks": []}', b"", b"{}"], 3, "expected an object with id and input"),
        ([b'{"checks": []}', b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}', b'{"test_case"'], 3, "truncated"),
        ([b'{"checks": []}', b'{"test_case": {"id": "\xff", "input": 1}, "output": {"value": 1}}'], 2, "not UTF-8"),
        ([b"{}", b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}'], 2, "there are no checks"),
        ([b'{"checks": []}', b'{"test_case": {"id": "a", "input": 1, "checks": []}, "output": {"value": 1}}'], 2, "expected checks in this case or in the request, got both"),
        ([b'{"checks": [[]]}'], None, "1 lists of checks for 0 test cases"),
        ([b'{"checks": []}', b'"' + b"x" * 150_000 + b'"'], 2, "ASSAY_MAX_LINE_BYTES"),
        ([b'{"checks": []}', *[b'{"test_case": {"id": "a", "input": 1}, "output": {"value": 1}}'] * 51], 52, "ASSAY_MAX_CASES"),
    ],
)  # fmt: skip
def test_a_bad_line_is_400_with_its_number_and_nothing_is_started(client, lines, number, message):
    before = newest(client)
    answer = refused(
        client.post("/v1/evaluations", content=b"\n".join(lines), headers=LINES), 400, "validation_error"
    )
    assert message in answer.message
    assert answer.details.get("line") == number
    assert newest(client) == before


@pytest.mark.parametrize(
    ("method", "path", "headers", "supported"),
    [
        ("POST", "/v1/evaluate", {}, ["application/json", "application/x-ndjson"]),
        ("POST", "/v1/evaluate", {"content-type": "text/plain"}, ["application/json", "application/x-ndjson"]),
        ("POST", "/v1/evaluate", {"content-type": "application/json; charset=latin-1"}, ["application/json", "application/x-ndjson"]),
        ("POST", "/v1/evaluate:batch", LINES, ["application/json"]),
        ("POST", "/v1/evaluate", JSON | {"content-encoding": "br"}, ["gzip", "identity"]),
    ],
)  # fmt: skip
def test_a_wrong_content_type_is_415(client, method, path, headers, supported):
    answer = client.request(method, path, content=b"{}", headers=headers)
    refusal = refused(answer, 415, "unsupported_media_type")
    assert refusal.details == {"supported": supported}
    assert ("got no content type" in refusal.message) == (not headers)


def large():
    yield from (b"x" * 65_536 for _ in range(64))


@pytest.mark.parametrize(
    ("path", "setting", "limit"),
    [
        ("/v1/evaluate", "max_body_bytes", 200_000),
        *[
            (path, "max_document_bytes", 150_000)
            for path in (
                "/v1/evaluations/eval_x:cancel",
                "/v1/runs",
                "/v1/runs:bulk-cancel",
                "/v1/runs/run-x/cancel",
                "/v1/host/assay/suites",
            )
        ],
    ],
)
@pytest.mark.parametrize("content", [b"x" * 200_001, large], ids=["announced", "in chunks"])
def test_too_large_a_body_is_413(client, path, setting, limit, content):
    answer = client.post(path, content=content if isinstance(content, bytes) else content(), headers=JSON)
    assert refused(answer, 413, "payload_too_large").details == {
        "limit": limit,
        "setting": setting,
    }


def test_too_many_lines_are_413(client):
    lines = (b'{"checks": []}\n', *[b" " * 1000 + b"\n"] * 3000)
    answer = client.post("/v1/evaluate", content=iter(lines), headers=LINES)
    assert refused(answer, 413, "payload_too_large").details["setting"] == "max_upload_bytes"


# gzip


@pytest.fixture(scope="module")
def bomb():
    """100 MB, which this process never holds."""
    packer = zlib.compressobj(wbits=31)
    return b"".join([packer.compress(b" " * 9_999 + b"\n") for _ in range(10_000)]) + packer.flush()


@pytest.mark.parametrize("headers", [JSON, LINES])
def test_a_gzip_bomb_is_413_and_is_not_decompressed(host, client, bomb, headers):
    assert len(bomb) < SMALL.max_body_bytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = client.post("/v1/evaluate", content=bomb, headers=headers | {"content-encoding": "gzip"})
    refused(answer, 413, "payload_too_large")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_endless_empty_gzip_is_413(client):
    empty = gzip.compress(b"")

    def endless():
        for _ in range(1_000):
            yield empty * 1_000

    answer = client.post("/v1/evaluate", content=endless(), headers=JSON | {"content-encoding": "gzip"})
    refused(answer, 413, "payload_too_large")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "it is empty"),
        (b"{}", "is not valid gzip"),
        (gzip.compress(json.dumps(request_of()).encode())[:-9], "it is truncated"),
        (gzip.compress(b"{}", mtime=0) + b"tail", "is not valid gzip"),
    ],
)
def test_broken_gzip_is_400(client, body, message):
    answer = client.post("/v1/evaluate", content=body, headers=JSON | {"content-encoding": "gzip"})
    assert message in refused(answer, 400, "validation_error").message


# Paths, methods, queries


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/", "/v1/evaluate/", "/v2/evaluate", "/v1/evaluations/a/b", "/v1/evaluations/a:stop", "/v1/evaluate:many",
     "/v1//health", "/v1/evaluations/", "/v1/evaluations/%2e%2e", "/v1/evaluations/x%00y", "/v1/operations/%ff", "/.env",
     "/v1/evaluations/{evaluation_id}", "/v1/operations/%7Boperation_id%7D"],
)  # fmt: skip
def test_an_unknown_path_is_404(client, path):
    refused(client.get(path), 404, "not_found")


@pytest.mark.parametrize(
    "path", ["/runs", "/runs/x", "/runs/x:fork", "/runs:bulk-cancel", "/evaluate", "/agents", "/workflows/w"]
)
def test_a_path_without_its_version_is_400(host, path):
    with host.client(key="") as client:
        for method in ("GET", "POST"):
            message = refused(client.request(method, path), 400, "validation_error").message
            assert message == f"path: expected a path with its version, such as /v1{path}"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/evaluate", ["POST"]),
        ("GET", "/v1/evaluate:batch", ["POST"]),
        ("GET", "/v1/evaluations/a:cancel", ["POST"]),
        ("DELETE", "/v1/evaluations/a:cancel", ["POST"]),
        ("GET", "/v1/evaluations/a%3Acancel", ["POST"]),
        ("PUT", "/v1/evaluations", ["GET", "HEAD", "POST"]),
        ("POST", "/v1/evaluations/a", ["DELETE", "GET", "HEAD"]),
        ("PUT", "/v1/evaluations/a", ["DELETE", "GET", "HEAD"]),
        ("POST", "/v1/health", ["GET", "HEAD"]),
        ("OPTIONS", "/v1/checks", ["GET", "HEAD"]),
    ],
)
def test_a_wrong_method_is_405(client, method, path, allowed):
    answer = client.request(method, path)
    assert refused(answer, 405, "method_not_allowed").details == {"allowed": allowed}
    assert answer.headers["allow"] == ", ".join(allowed)


def tokens():
    def encoded(value):
        import base64

        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return ["", "x", "%00", "e30", "W10", "=====", "é", encoded(["2026-01-01T00:00:00Z", "eval_a", "other"]), encoded(["x", 1]), encoded([1, 2, 3, 4])]  # fmt: skip


@pytest.mark.parametrize(
    "query",
    ["page_size=0", "page_size=-1", "page_size=1001", "page_size=many", "page_size=1.5", "page_size=", "page_size=1&page_size=2",
     "status=done", "status=", "since=yesterday", "until=2026-13-01", "since=99999-01-01", "nonsense=1", "experiment=%00",
     *(f"page_token={token}" for token in tokens())],
)  # fmt: skip
def test_a_wrong_query_of_the_list_is_400(client, query):
    refused(client.get(f"/v1/evaluations?{query}"), 400, "validation_error")


def test_a_page_token_of_another_list_is_400(client):
    for _ in range(2):
        client.post("/v1/evaluate", json=request_of(1))
    token = client.get("/v1/evaluations?page_size=1").json()["next_page_token"]
    assert client.get(f"/v1/evaluations?page_size=1&page_token={token}").status_code == 200
    refused(
        client.get(f"/v1/evaluations?page_size=1&status=failed&page_token={token}"), 400, "validation_error"
    )
    one, two = (client.post("/v1/evaluate", json=request_of(3)).json()["evaluation_id"] for _ in range(2))
    token = client.get(f"/v1/evaluations/{one}?page_size=1").json()["metadata"]["next_page_token"]
    refused(client.get(f"/v1/evaluations/{two}?page_token={token}"), 400, "validation_error")
    for wrong in tokens():
        refused(client.get(f"/v1/evaluations/{one}", params={"page_token": wrong}), 400, "validation_error")


@pytest.mark.parametrize(
    "last", ["x", "-1", "1.", ".1", "3", "99", "0.0", "0.5.1", "1.1", "2.0", "3.0", "1" * 15, "1" * 30]
)
def test_a_wrong_last_event_id_is_400(client, last):
    id = client.post("/v1/evaluate", json=request_of(1)).json()["evaluation_id"]
    answer = client.get(f"/v1/evaluations/{id}/events", headers={"last-event-id": last})
    assert (
        f"Last-Event-ID: expected the id of an event of this run, got {last!r}"
        in refused(answer, 400, "validation_error").message
    )


@pytest.mark.parametrize("key", ["", "x" * 256, "é"])
def test_a_wrong_idempotency_key_is_400(client, key):
    answer = client.post(
        "/v1/evaluate", json=request_of(1), headers={"Idempotency-Key": key.encode("latin-1")}
    )
    assert answer.status_code in (200, 400)
    if key != "é":
        refused(answer, 400, "validation_error")


@pytest.mark.parametrize(
    "body",
    [{}, {"evaluations": 1}, {"evaluations": [], "options": {"max_concurrent": 0}}, {"evaluations": [], "options": {"timeout_ms": -1}},
     {"evaluations": [], "options": {"x": 1}}, {"evaluations": [{}] * 4}, {"evaluations": [], "more": 1}, []],
)  # fmt: skip
def test_a_wrong_batch_is_400(client, body):
    refused(client.post("/v1/evaluate:batch", json=body), 400, "validation_error")


@pytest.mark.parametrize("body", [b"x", b"[]", b'{"why": 1}', b'{"reason": 1}'])
def test_a_wrong_cancel_is_400_and_cancels_nothing(client, body):
    run = client.post("/v1/evaluations", json=request_of(2, [slow(0.3)])).json()["operation_id"]
    refused(client.post(f"/v1/evaluations/{run}:cancel", content=body, headers=JSON), 400, "validation_error")
    assert client.post(f"/v1/evaluations/{run}:cancel", json={"reason": "enough"}).json() == {
        "cancelled": True
    }


# Clients that dawdle, break off, or are no clients at all


def head_of(host, path="/v1/evaluate", key=None, **headers):
    sent = {
        "host": "x",
        "authorization": f"Bearer {key or host.key()}",
        "content-type": "application/json",
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()


def test_a_body_that_does_not_arrive_is_400_in_time(host, client):
    before = newest(client)
    answer = host.raw(head_of(host, **{"content-length": "100", "connection": "close"}) + b'{"test_c')
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"ASSAY_BODY_SECONDS" in answer
    assert newest(client) == before


def test_a_body_of_one_byte_at_a_time_is_400(host):
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as connection:
        connection.sendall(head_of(host, **{"content-length": "100000", "connection": "close"}))
        wait_until(lambda: sends_a_byte_and_is_answered(connection))
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")


def sends_a_byte_and_is_answered(connection):
    connection.sendall(b" ")
    return select.select([connection], [], [], 0.02)[0]


@pytest.mark.parametrize(("headers", "setting"), [(JSON, "MAX_BODY_SECONDS"), (LINES, "MAX_UPLOAD_SECONDS")])
def test_a_body_that_does_not_end_is_400_in_time(tmp_path, headers, setting):
    """Quick at first and then a byte at a time, it is quick enough on the average."""
    serving = ServerLimits(body_seconds=60.0, max_body_seconds=0.4, max_upload_seconds=0.4)
    with Server(sqlite(tmp_path), serving=serving) as host:
        with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as connection:
            head = head_of(host, **headers, **{"content-length": "1000000", "connection": "close"})
            connection.sendall(head + b" " * 900_000)
            wait_until(lambda: sends_a_byte_and_is_answered(connection))
            answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 400"), answer
        assert setting.encode() in answer
        assert host.app.state.server.admission.body_bytes == 0


@pytest.mark.parametrize("data", [b"", b"POST /v1/evaluate HTTP/1.1\r\nhost: x\r\n", b"GET /v1/heal"])
def test_headers_that_do_not_end_close_the_connection(host, data):
    assert host.raw(data) == b""


@pytest.mark.parametrize(
    "data",
    [b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
     b"POST /v1/evaluate HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{}",
     b"POST /v1/evaluate HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
)  # fmt: skip
def test_bytes_that_are_not_http_are_400(host, data):
    answer = host.raw(data)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert b"Traceback" not in answer


@pytest.mark.parametrize("headers", [JSON, LINES])
def test_a_client_that_leaves_during_its_body_starts_nothing(host, client, headers):
    before = newest(client)
    body = json.dumps(request_of()).encode() if headers is JSON else lines_of(request_of())
    for cut in (0, 10, len(body) - 1):
        host.raw(
            head_of(host, **headers, **{"content-length": str(len(body))}) + body[:cut], close=True, seconds=2
        )
    time.sleep(0.1)
    assert newest(client) == before
    assert client.get("/v1/health").status_code == 200


def gone(connection):
    """Without a farewell: a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_client_that_leaves_while_it_waits_loses_no_result(host, client):
    key = host.key(tenant="gone")
    body = json.dumps(request_of(4, [slow(2)])).encode()
    connection = socket.create_connection(("127.0.0.1", host.port))
    connection.sendall(head_of(host, key=key, **{"content-length": str(len(body))}) + body)
    with host.client(key=key) as own:
        (run,) = wait_until(lambda: own.get("/v1/evaluations").json()["operations"])
        gone(connection)
        wait_until(lambda: own.get(f"/v1/operations/{run['operation_id']}").json()["status"] == "completed")
        assert own.get(f"/v1/evaluations/{run['operation_id']}").json()["status"] == "completed"
    wait_until(lambda: host.app.state.server.admission.requests == 0)


def test_clients_that_leave_a_stream_leave_nothing_behind(tmp_path):
    with Server(sqlite(tmp_path), serving=ServerLimits(send_seconds=0.5)) as host, host.client() as client:
        id = client.post("/v1/evaluate", content=lines_of(request_of(10_000)), headers=LINES).json()[
            "evaluation_id"
        ]
        key = host.key()
        for path in (f"/v1/evaluations/{id}", f"/v1/evaluations/{id}/events"):
            head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n".encode()
            for leave in (True, False):  # goes, or stays and takes nothing
                connection = socket.create_connection(("127.0.0.1", host.port))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(head)
                connection.recv(1000)
                if leave:
                    gone(connection)
                wait_until(lambda: is_idle(host))
                connection.close()
        assert client.get(f"/v1/evaluations/{id}").json()["summary"]["total_test_cases"] == 10_000


def is_idle(host):
    load = host.app.state.server.admission
    return (load.requests, load.streams, load.body_bytes, dict(load.requests_of)) == (0, 0, 0, {})


# Too much


@pytest.fixture
def tight(tmp_path):
    serving = ServerLimits(
        max_requests=6,
        max_tenant_requests=4,
        max_runs=3,
        max_tenant_runs=2,
        max_followers=3,
        max_tenant_followers=2,
        max_held_bytes=150_000,
        max_tenant_held_bytes=100_000,
        max_page=3,
    )
    with Server(sqlite(tmp_path), serving=serving) as host:
        yield host


def test_the_default_page_size_is_within_the_limit(tight):
    with tight.client() as client:
        ids = [client.post("/v1/evaluate", json=request_of(5)).json()["evaluation_id"] for _ in range(4)]
        first = client.get("/v1/evaluations").json()
        assert [one["operation_id"] for one in first["operations"]] == ids[:0:-1]
        token = client.get(f"/v1/evaluations/{ids[0]}?page_size=1").json()["metadata"]["next_page_token"]
        page = client.get(f"/v1/evaluations/{ids[0]}?page_token={token}")
        assert len(page.json()["results"]) == 3
        assert len(client.get(page.links["next"]["url"]).json()["results"]) == 1


def too_much(answer, scope):
    body = refused(answer, 429, "rate_limited")
    assert body.details["scope"] == scope
    assert body.details["retryAfterMs"] > 0
    assert int(answer.headers["retry-after"]) >= 1


def test_too_many_runs_are_429(tight):
    with tight.client() as client, tight.client(tenant="other") as other:
        long = request_of(2, [slow(600)])
        runs = [client.post("/v1/evaluations", json=long) for _ in range(2)]
        assert [run.status_code for run in runs] == [202, 202]
        too_much(client.post("/v1/evaluations", json=long), "tenant")
        assert (
            client.post("/v1/evaluate", json=request_of(1)).status_code == 200
        )  # done at once: no run is under way
        theirs = other.post("/v1/evaluations", json=long)
        assert theirs.status_code == 202
        too_much(other.post("/v1/evaluations", json=long), "global")
        client.post(f"/v1/evaluations/{runs[0].json()['operation_id']}:cancel")
        assert client.post("/v1/evaluations", json=request_of(1)).status_code == 202
        client.post(f"/v1/evaluations/{runs[1].json()['operation_id']}:cancel")
        other.post(f"/v1/evaluations/{theirs.json()['operation_id']}:cancel")


def test_too_many_requests_followers_and_bytes_are_429_until_released(tight):
    with tight.client() as client, tight.client(tenant="other") as other:
        id = client.post("/v1/evaluations", json=request_of(2, [slow(600)])).json()["operation_id"]
        followers = [threading.Thread(target=events_of, args=(client, id)) for _ in range(2)]
        for thread in followers:
            thread.start()
        load = tight.app.state.server.admission
        wait_until(lambda: load.streams == 2)
        too_much(client.get(f"/v1/evaluations/{id}/events"), "tenant")
        assert (load.streams, load.streams_of) == (2, {"acme": 2})
        load.streams += 1
        too_much(client.get(f"/v1/evaluations/{id}/events"), "global")
        load.streams -= 1
        alone = refused(
            client.post("/v1/evaluate", content=b" " * 100_001, headers=JSON), 413, "payload_too_large"
        )
        assert alone.details["setting"] == "max_tenant_held_bytes"
        load.body_bytes_of["acme"] += 60_000
        too_much(client.post("/v1/evaluate", content=b" " * 50_000, headers=JSON), "tenant")
        load.body_bytes_of["acme"] -= 60_000
        load.body_bytes += 120_000
        too_much(client.post("/v1/evaluate", content=b" " * 50_000, headers=JSON), "global")
        load.body_bytes -= 120_000
        load.requests += 6
        too_much(other.get("/v1/checks"), "global")
        load.requests -= 6
        load.requests_of["acme"] += 4
        too_much(client.get("/v1/checks"), "tenant")
        assert other.get("/v1/checks").status_code == 200
        load.requests_of["acme"] -= 4
        client.post(f"/v1/evaluations/{id}:cancel")
        for thread in followers:
            thread.join(PATIENCE)
        wait_until(lambda: is_idle(tight))
        assert not any(
            sum(counts.values()) for counts in (load.requests_of, load.streams_of, load.body_bytes_of)
        )
        assert client.get("/v1/checks").status_code == 200


def test_every_request_of_a_flood_is_answered(tight):
    """A hundred at once, at a host for six: each is answered or refused, none hangs, and it goes on."""
    import asyncio

    key = tight.key()

    async def flood():
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(
            base_url=tight.url, headers={"X-API-Key": key}, timeout=PATIENCE, limits=limits
        ) as client:
            ask = (client.post("/v1/evaluate", json=request_of(2, [slow(0.05)])) for _ in range(100))
            return [answer.status_code for answer in await asyncio.gather(*ask)]

    statuses = asyncio.run(flood())
    assert set(statuses) <= {200, 429}
    assert 200 in statuses
    with tight.client(key=key) as client:
        assert client.post("/v1/evaluate", json=request_of(1)).status_code == 200


def test_a_slow_check_does_not_block_the_event_loop(host, client):
    """A pattern that backtracks runs in a process (FEP-22)."""

    async def loop_seconds():
        return time.thread_time()

    evil = {"type": "regex", "arguments": {"text": "$.output.value", "pattern": "(a|aa)+(b|bb)+$"}}
    request = request_of(1, [evil]) | {"outputs": [{"value": "a" * 5000}]}
    before = host.do(loop_seconds())
    answer = client.post("/v1/evaluate", json=request)
    assert host.do(loop_seconds()) - before < 0.5
    assert answer.json()["results"][0]["check_results"][0]["error"]["type"] == "timeout_error"


def test_an_internal_error_is_500_with_a_correlation_id_and_no_traceback(tmp_path, caplog):
    from assay.serve.application import ROUTES

    async def broken(call):
        raise ZeroDivisionError("the secret is hunter2")

    routes = [
        msgspec.structs.replace(route, endpoint=broken) if route.id == "listChecks" else route
        for route in ROUTES
    ]
    with Server(sqlite(tmp_path), routes=routes) as host, host.client() as client:
        answer = client.get("/v1/checks")
        body = refused(answer, 500, "internal_error")
        assert body.details == {"correlationId": answer.headers["x-request-id"]}
        assert "hunter2" not in answer.text
        assert client.get("/v1/health").status_code == 200
    assert answer.headers["x-request-id"] in caplog.text


# The world


def test_the_database_away_and_back_loses_nothing():
    with (
        postgres().store_database() as address,
        Server(address, keys_known_for=600, patience=PATIENCE) as host,
        host.client() as client,
    ):
        run = client.post("/v1/evaluations", json=request_of(30, [slow(0.2)])).json()["operation_id"]
        with postgres().away(address):
            refuse_in_time(host, client)
        served_again(client)
        operation = wait_until(lambda: is_over(client.get(f"/v1/operations/{run}").json()))
        assert (operation["status"], operation["progress"]["completed_test_cases"]) == ("completed", 30)
        results = client.get(f"/v1/evaluations/{run}").json()["results"]
        assert sorted(one["execution_context"]["test_case"]["id"] for one in results) == sorted(
            f"c{at}" for at in range(30)
        )


def is_over(operation):
    return operation if operation["status"] not in ("pending", "running") else None


def refuse_in_time(host, client, *, live=200):
    """Every request is refused long before the patience of the store ends, also one behind many others; the probes tell the truth."""
    answers: list = []

    def ask(method, path, body=None):
        began = time.monotonic()
        with httpx.Client(base_url=host.url, headers=client.headers, timeout=PATIENCE) as own:
            answer = own.request(method, path, json=body)
        answers.append((answer, time.monotonic() - began))

    asked = [
        ("POST", "/v1/evaluate", request_of(2)),
        ("GET", "/v1/evaluations"),
        ("GET", "/v1/health"),
        ("GET", "/v1/ready"),
    ]
    threads = [threading.Thread(target=ask, args=one) for one in asked * 3]
    for thread in threads:
        thread.start()
    assert client.get("/v1/live").status_code == live
    for thread in threads:
        thread.join(PATIENCE)
    for answer, seconds in answers:
        refused(answer, 503, "unavailable")
        assert answer.headers["retry-after"]
        assert seconds < PATIENCE / 2, answer.request.url
    probe = client.get("/v1/ready")
    assert refused(probe, 503, "unavailable").details["reason"] == "database"


def served_again(client):
    wait_until(lambda: client.get("/v1/ready").status_code == 200)
    for _ in range(3):
        assert client.post("/v1/evaluate", json=request_of(2)).status_code == 200
        assert client.get("/v1/evaluations").status_code == 200
    assert client.get("/v1/health").json()["status"] == "healthy"


def test_a_hanging_database_is_reported_like_a_missing_one():
    """A stopped process accepts connections and never answers."""
    with (
        postgres().store_database() as address,
        Server(address, keys_known_for=600, patience=PATIENCE) as host,
        host.client() as client,
    ):
        assert client.post("/v1/evaluate", json=request_of(1)).status_code == 200
        with postgres().hanging(address):
            refuse_in_time(host, client)
        served_again(client)


def _remove(file):
    file.rename(file.with_suffix(".away"))


def _overwrite(file):
    shutil.copy2(file, file.with_suffix(".away"))
    for beside in ("-wal", "-shm"):
        Path(f"{file}{beside}").unlink(missing_ok=True)
    other = file.with_suffix(".other")
    other.write_bytes(b"not a database" * 1000)
    other.replace(file)


@pytest.mark.parametrize("break_file", [_remove, _overwrite])
def test_a_missing_or_broken_sqlite_file_is_503_until_it_is_back(tmp_path, break_file):
    with Server(sqlite(tmp_path), keys_known_for=60) as host, host.client() as client:
        kept = client.post("/v1/evaluate", json=request_of(2)).json()["evaluation_id"]
        file = tmp_path / "runs.db"
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        break_file(file)
        wait_until(lambda: client.get("/v1/ready").status_code == 503)  # the probe asks once a second
        refuse_in_time(host, client)
        file.with_suffix(".away").replace(file)
        served_again(client)
        assert client.get(f"/v1/evaluations/{kept}").json()["evaluation_id"] == kept


FULL = """
import os, resource, signal, sys
sys.path.insert(0, {tests!r})
from support.servers.rest_client import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Server(sqlite(Path({folder!r}))) as host, host.client() as client:
    before = client.post("/v1/evaluate", json=request_of(2)).json()
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))  # the disk is full there
    big = request_of(2000) | {{"outputs": [{{"value": os.urandom(2000).hex()}} for _ in range(2000)]}}
    answers = [client.post("/v1/evaluate", json=big), client.post("/v1/evaluations", content=lines_of(big), headers={{"content-type": "application/x-ndjson"}})]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))  # not even a few lines fit
    answers.append(client.post("/v1/evaluations", content=lines_of(request_of(2)), headers={{"content-type": "application/x-ndjson"}}))
    print(json.dumps([[one.status_code, one.json()["error"], "Traceback" in one.text] for one in answers]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
    assert client.get("/v1/health").status_code == 200
    assert client.get(f"/v1/evaluations/{{before['evaluation_id']}}").json() == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(client.post("/v1/evaluate", json=request_of(2)).status_code)
"""


def test_a_full_disk_is_503_and_nothing_is_lost(tmp_path):
    program = FULL.format(tests=str(Path(__file__).parents[2]), folder=str(tmp_path))
    done = subprocess.run([forkserver.python(), "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    during, after = done.stdout.strip().splitlines()[-2:]
    assert json.loads(during) == [[503, "unavailable", False]] * 3
    assert after == "200"


# Noise


def test_random_requests_are_never_500(client):
    chance = random.Random(5)
    good = json.dumps(request_of(2, experiment_metadata={"name": "n"})).encode()
    for _ in range(300):
        noisy = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(noisy))
            match chance.randrange(3):
                case 0:
                    noisy[at] = chance.randrange(256)
                case 1:
                    del noisy[at : at + chance.randint(1, 20)]
                case _:
                    noisy[at:at] = noisy[chance.randrange(len(noisy)) :][: chance.randint(1, 20)]
        answer = client.post("/v1/evaluate", content=bytes(noisy), headers=JSON)
        assert answer.status_code in (200, 400), (bytes(noisy), answer.text)
