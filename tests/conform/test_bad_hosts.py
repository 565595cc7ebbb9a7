"""A host that hangs, floods, lies about lengths, redirects, or answers 200 to everything cannot hurt `assay conform`."""

import gzip
import json
import re
import socket
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.conform import check, http_client
from assay.conform.catalog import all_checks
from assay.conform.check import Failed, Host, Keys, NotTried
from assay.conform.http_client import HttpClient
from assay.conform.run import LANES, PATIENCE, Unreachable, chosen, clean_up, run_checks
from assay.errors import UsageError
from support.conform.raw_host import HEAD, answering, raw_host
from support.waiting import PATIENCE as LONG

RESULT = b'{"results": []}'


def hang(connection, stop):
    stop.wait(LONG)


def hang_after_headers(connection, stop):
    connection.sendall(HEAD + b"content-length: 10\r\n\r\n")
    stop.wait(LONG)


def drip(connection, stop):
    """A byte of a header now and then, for ever."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nx-long: ")
    while not stop.wait(0.02):
        connection.sendall(b"x")


def flood(connection, stop):
    connection.sendall(HEAD + b"\r\n")
    while not stop.is_set():
        connection.sendall(b"x" * 65536)


def endless_stream(connection, stop):
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    while not stop.wait(0.02):
        connection.sendall(b"id: 1\nevent: x\ndata: {}\n\n")


def flood_headers(connection, stop):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not stop.is_set():
        connection.sendall(b"x-header: 1\r\n" * 1000)


def flood_hints(connection, stop):
    while not stop.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def announce_more(connection, stop):
    connection.sendall(HEAD + b"content-length: 1000000\r\n\r\n" + RESULT)


def announce_nonsense(connection, stop):
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n" + RESULT)


def announce_a_huge_chunk(connection, stop):
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\nffffffffffff\r\n" + RESULT)


def close_at_once(connection, stop):
    pass


def speak_another_protocol(connection, stop):
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


BROKEN = [
    hang, hang_after_headers, drip, flood, endless_stream, flood_headers, flood_hints, announce_more, announce_nonsense, announce_a_huge_chunk, close_at_once,
    speak_another_protocol,
]  # fmt: skip


@pytest.mark.parametrize("behave", BROKEN, ids=lambda one: one.__name__)
def test_a_host_that_breaks_http_is_unreachable(behave, monkeypatch):
    monkeypatch.setattr(http_client, "MAX_BYTES", 2**20)
    with raw_host(behave) as (address, asked):
        client = HttpClient(address, timeout=0.2, rate=10_000)
        checks = all_checks()
        with pytest.raises(Unreachable) as found:
            run_checks(Host(client, Keys("key")), checks)
        assert [one.result for one in found.value.outcomes] == ["not_tried"] * len(checks)
        assert len(asked) == 1


def test_a_host_that_stops_to_answer_is_given_up():
    def once(connection, stop):
        if not answered:
            answered.append(1)
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            stop.wait(LONG)

    answered = []
    with raw_host(once) as (address, asked):
        checks = all_checks()
        with pytest.raises(Unreachable) as found:
            run_checks(Host(HttpClient(address, timeout=0.5, rate=10_000), Keys("key")), checks)
        results = [one.result for one in found.value.outcomes]
        assert {*results} == {"failed", "not_tried"}
        assert PATIENCE <= results.count("failed") < PATIENCE + LANES
        assert 2 + PATIENCE <= len(asked) < 2 + PATIENCE + LANES  # it is asked once more


def test_a_host_is_not_given_up_for_routes_that_never_end():
    def behave(connection, stop, request):
        if request.startswith(b"GET /stream"):
            stop.wait(LONG)
        answering(b"{}")(connection, stop)

    def ask(path, host):
        host.send("GET", path)

    with raw_host(behave) as (address, _):
        paths = ["/stream"] * PATIENCE + ["/"]
        checks = [all_checks()[0]._replace(run=partial(ask, path)) for path in paths]
        outcomes = run_checks(Host(HttpClient(address, timeout=1.0, rate=10_000), Keys("key")), checks)
    assert [one.result for one in outcomes] == ["failed"] * PATIENCE + ["passed"]
    assert "no end after 1 second" in outcomes[0].message


def test_a_host_that_is_always_busy_is_not_tried(monkeypatch):
    monkeypatch.setattr(check, "PATIENCE", 0.6)

    def busy(connection, stop):
        connection.sendall(b"HTTP/1.1 429 Busy\r\nretry-after: 99999999999\r\ncontent-length: 0\r\n\r\n")

    with raw_host(busy) as (address, _):
        checks = chosen(all_checks(), ["fep.rest", "openwop.discovery"])
        host = Host(HttpClient(address, rate=10_000), Keys("key"))
        outcomes = run_checks(host, checks)
        host.made += ["/a", "/b"]
        assert clean_up(host) == 2
    assert {one.result for one in outcomes} == {"not_tried"}
    assert "the host is busy" in outcomes[0].message


def test_an_address_without_a_host_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        run_checks(Host(HttpClient(f"http://127.0.0.1:{port}"), Keys("key")), all_checks())


def test_a_redirect_is_not_followed():
    def elsewhere(connection, stop):
        body = b"HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nlocation: "
        connection.sendall(body + other.encode() + b"/v1/evaluate\r\n\r\n")

    with raw_host(close_at_once) as (other, reached), raw_host(elsewhere) as (address, _):
        outcomes = run_checks(Host(HttpClient(address, rate=10_000), Keys("key", "other")), all_checks())
        seen = [one for one in outcomes if not one.check.name.startswith("openwop.replicas")]
        assert {one.result for one in seen} <= {"failed", "not_tried"}
        assert reached == []


def test_a_run_has_an_end():
    def slow(connection, stop):
        stop.wait(0.05)
        connection.sendall(HEAD + b"content-length: 2\r\n\r\n{}")

    with raw_host(slow) as (address, _):
        outcomes = run_checks(Host(HttpClient(address, rate=10_000), Keys("key")), all_checks(), longest=0.3)
        assert len(outcomes) == len(all_checks())
        assert outcomes[-1].message == "the run took more than 0.3 seconds"


def test_no_request_is_sent_after_the_end_of_a_run():
    """Not even in the middle of a check that has many: the host answers, as slowly as it may."""

    def slow(connection, stop):
        stop.wait(0.05)
        connection.sendall(HEAD + b"content-length: 2\r\n\r\n{}")

    def many(host):
        for _ in range(1000):
            host.send("GET", "/")

    with raw_host(slow) as (address, asked):
        one = all_checks()[0]._replace(run=many)
        host = Host(HttpClient(address, rate=10_000), Keys("key"))
        (outcome,) = run_checks(host, [one], longest=0.3)
        assert outcome[1:3] == ("not_tried", "the run took more than 0.3 seconds")
        assert len(asked) < 10


def endless_log(connection, stop, request):
    """A host with one run, whose log goes on with each page."""
    path = request.split(b" ")[1].decode()
    after = int((re.search(r"lastSequence=(-?\d+)", path) or [0, "0"])[1])
    event = {"eventId": f"e{after}", "sequence": after + 1, "type": "x", "payload": {"x": "x" * 2**16}}
    document = {
        "/.well-known/openwop": {"agents": {"evalSuite": {"supported": True, "modes": ["golden"]}}},
        "/v1/runs": {"runId": "r", "status": "pending", "eventsUrl": "/"},
        "/v1/runs/r": {"runId": "r", "status": "completed"},
    }.get(path, {"events": [event]})
    body = json.dumps(document).encode()
    status = b"201 Created" if path == "/v1/runs" else b"200 OK"
    connection.sendall(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)


def test_a_log_without_an_end_ends_the_run(monkeypatch):
    monkeypatch.setattr(check, "MAX_RECEIVED", 2**20)
    with raw_host(endless_log) as (address, asked):
        checks = chosen(all_checks(), ["openwop.events"])
        outcomes = run_checks(Host(HttpClient(address, rate=10_000), Keys("key"), agent="a"), checks)
        assert {one[1:3] for one in outcomes} == {("not_tried", "the host sent more than 1048576 bytes")}
        assert len(asked) < 2**20 / 2**16 + 10


def test_a_busy_host_gets_its_time_and_then_is_not_tried(monkeypatch):
    """It takes the third request of each kind; at the end, none."""
    monkeypatch.setattr(check, "PATIENCE", 2.2)

    def busy(connection, stop, request):
        kind = request.split(b" ")[1]
        seen.append(kind)
        status = b"200 OK" if seen.count(kind) == 3 else b"429 Too Many Requests\r\nretry-after: 0"
        body = b'{"error": "rate_limited", "message": "later"}'
        connection.sendall(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)

    seen = []
    with raw_host(busy) as (address, _):
        host = Host(HttpClient(address, rate=10_000), Keys("key"))
        assert [host.send("GET", path).status for path in "ab"] == [200, 200]
        with pytest.raises(NotTried, match="GET c: the host is busy: later"):
            host.send("GET", "c")
        assert seen == [b"a"] * 3 + [b"b"] * 3 + [b"c"]


def test_a_message_of_the_host_is_cut():
    body = json.dumps({"error": "x", "message": "x" * 100_000}).encode()

    def refuse(connection, stop):
        connection.sendall(b"HTTP/1.1 400 Bad\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    with raw_host(refuse) as (address, _):
        host = Host(HttpClient(address, rate=10_000), Keys("key"))
        outcomes = run_checks(host, chosen(all_checks(), ["openwop.discovery"]))
        assert {len(one.message) for one in outcomes} == {1000}


def test_a_compressed_body_is_never_opened():
    """A client that asks for `identity` gets a body of 50 kB that would have 50 MB."""
    bomb = answering(gzip.compress(bytes(50 * 2**20)), b"content-encoding: gzip")
    with raw_host(bomb) as (address, asked):
        host = Host(HttpClient(address, rate=100_000), Keys("key", "other"), agent="a")
        outcomes = run_checks(host, chosen(all_checks(), ["fep.rest", "openwop.discovery", "openwop.events"]))
        assert [one for one in outcomes if one.result == "passed"] == []
        assert all(b"accept-encoding: identity" in one.lower() for one in asked)


EVERYTHING = [b"", b"{}", b"[]", b"null", b"ok", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 100_000, b"\xff" * 9, RESULT,
              b'{"evaluation_id":1,"results":[1],"summary":[],"status":{}}', b'{"results":[{"check_results":[null]}]}']  # fmt: skip
HARMLESS = {"fep.rest.health"}  # 200 with an object is all it asks for


@pytest.mark.parametrize("body", EVERYTHING, ids=lambda body: body[:20].decode(errors="replace"))
def test_a_host_that_answers_200_to_everything_passes_nothing(body):
    with raw_host(answering(body)) as (address, _):
        outcomes = run_checks(
            Host(HttpClient(address, rate=100_000), Keys("key", "other"), agent="a"), all_checks()
        )
        passed = {one.check.name for one in outcomes if one.result == "passed"}
        assert passed <= HARMLESS


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "completed", "error", "2026-01-01T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["results", "check_results", "summary", "status", "error", "message", "execution_context",
                                           "resolved_arguments", "evaluation_id", "runId", "events", "payload", "type"]), inner, max_size=5)
    ),
    max_leaves=20,
)  # fmt: skip


@given(value=VALUES)
@settings(max_examples=5)
def test_any_json_is_an_outcome_and_never_an_exception(value):
    with raw_host(answering(json.dumps(value).encode())) as (address, _):
        checks = chosen(all_checks(), ["fep.law", "fep.rest", "fep.results"])
        host = Host(HttpClient(address, rate=100_000), Keys("key", "other"), agent="a")
        assert len(run_checks(host, checks)) == len(checks)
        clean_up(host)


def test_requests_keep_the_rate():
    with raw_host(answering(b"{}")) as (address, _):
        client = HttpClient(address, rate=50)
        start = time.monotonic()
        for _ in range(6):
            client.send("GET", "/")
        assert time.monotonic() - start >= 5 / 50


WRONG = ["", "127.0.0.1:80", "ftp://a", "http://", "http://a:b", "http://[::1", "http://a?b=c", "http://a#b",
         "http://user:secret@a", "http://:secret@a"]  # fmt: skip


@pytest.mark.parametrize("address", WRONG)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match="expected an address") as refusal:
        HttpClient(address)
    assert "secret" not in str(refusal.value)


def test_a_name_that_no_host_has_is_unreachable():
    with pytest.raises(Unreachable, match="no host has such a name"):
        run_checks(Host(HttpClient(f"http://{'a' * 70}.example"), Keys("key")), all_checks())


@pytest.mark.parametrize("at", ["127.0.0.1", "::1"])
def test_an_address_may_have_a_path_and_be_one_of_ipv6(at):
    with raw_host(answering(b"{}"), at) as (address, asked):
        for path in ("", "/", "/below/evals/"):
            assert HttpClient(address + path).send("GET", "/v1/health").status == 200
        lines = [one.split(b" ")[1] for one in asked]
        assert lines == [b"/v1/health", b"/v1/health", b"/below/evals/v1/health"]


def test_a_short_key_is_not_searched_for():
    """`case` is in every result: it says nothing about the key."""
    with raw_host(answering(b'{"test_cases": []}')) as (address, _):
        short, long = (Host(HttpClient(address), Keys(key)) for key in ("case", "x" * 12))
        for host in (short, long):
            host.send("GET", "/")
        with pytest.raises(NotTried, match="a key of at least 12 characters"):
            short.expect_no_key()
        long.expect_no_key()


def test_a_key_that_any_address_shows_is_found():
    key = "a-key-that-is-long"
    with raw_host(answering(b'{"x": "' + key.encode() + b'"}')) as (address, _):
        client = HttpClient(address)
        host = Host(client, Keys(key), others=[client])
        host.replicas[1].send("GET", "/there")
        with pytest.raises(Failed, match="the answer to GET /there has the key in it"):
            host.expect_no_key()
