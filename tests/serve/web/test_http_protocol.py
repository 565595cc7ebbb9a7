"""What goes over a connection: headers that every answer has, and limits that hold before anybody is known (FEP 6.4)."""

import asyncio
import contextlib
import json
import logging
import resource
import socket
import time

import pytest

from assay.ports.telemetry import telemetry
from assay.serve.web.body_reader import StartedAwaitable
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.request import weights_of
from support.servers.rest_client import LOOPS, Server, events_of, request_of, slow, sqlite
from support.waiting import PATIENCE, wait_until

TIGHT = ServerLimits(
    max_connections=6, max_head_bytes=8_192, head_seconds=0.6, idle_seconds=0.6, body_seconds=5, max_body_bytes=64 * 1024 * 1024
)  # fmt: skip
HEAD = b"GET /v1/health HTTP/1.1\r\nhost: a\r\n"


@pytest.fixture(scope="module", params=LOOPS)
def host(tmp_path_factory, request):
    with Server(sqlite(tmp_path_factory.mktemp("wire")), run=request.param) as host:
        yield host


@pytest.fixture(scope="module", params=LOOPS)
def tight(tmp_path_factory, request):
    with Server(sqlite(tmp_path_factory.mktemp("tight")), serving=TIGHT, run=request.param) as host:
        yield host


# Headers

ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


def test_every_response_has_the_security_headers(host):
    with host.client() as client, host.client("") as nobody:
        run = client.post("/v1/evaluate", json=request_of(1))
        id = run.json()["evaluation_id"]
        with client.stream("GET", f"/v1/evaluations/{id}/events") as events:
            answers = [
                ("a result", run, "private, no-store"),
                ("with a tag", client.get(f"/v1/evaluations/{id}"), "private, no-cache"),
                ("a list", client.get("/v1/evaluations"), "private, no-store"),
                ("no such run", client.get("/v1/evaluations/none"), "private, no-store"),
                ("a bad request", client.post("/v1/evaluate", json=[]), "private, no-store"),
                ("nobody", nobody.get("/v1/evaluations"), "private, no-store"),
                ("nowhere", nobody.get("/x"), "private, no-store"),
                ("the wrong method", nobody.delete("/v1/health"), "private, no-store"),
                ("health", nobody.get("/v1/health"), "no-store"),
                ("the page", nobody.get("/v1/docs"), "no-cache"),
                ("the document", nobody.get("/v1/openapi.json"), "max-age=60"),
                ("events", events, "no-store"),
            ]
        tagged = client.get(f"/v1/evaluations/{id}", headers={"if-none-match": answers[1][1].headers["etag"]})
        assert tagged.status_code == 304
        answers.append(("not modified", tagged, "private, no-cache"))
    for what, answer, kept in answers:
        headers = answer.headers
        assert ALWAYS.items() <= headers.items(), what
        assert headers.get_list("content-security-policy") == [headers["content-security-policy"]], what
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'"), what
        assert "frame-ancestors 'none'" in policy, what
        assert "unsafe" not in policy, what
        assert ("script-src 'self'" in policy) == (what == "the page"), what
        assert len(headers.get_list("x-request-id")) == 1, what
        assert headers.get_list("cache-control") == [kept], what
        assert "strict-transport-security" not in headers, what  # of no meaning without TLS
        assert not [name for name in headers if name.startswith("access-control-")], what


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /v1/health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"GET /nowhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)
def test_no_response_names_the_server_software(host, raw):
    head = host.raw(raw).partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 ")
    assert b"x-content-type-options: nosniff" in head
    assert not [
        line for line in head.split(b"\r\n") if line.startswith((b"server:", b"x-powered-by:", b"via:"))
    ]
    assert b"uvicorn" not in head
    assert b"python" not in head


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"HELLO\r\n\r\n", "400"),
        (b"\x16\x03\x01\x00\xa5\x01", "400"),
        (HEAD + b"connection: upgrade, close\r\nupgrade: websocket\r\n\r\n", ""),
    ],
    ids=["rubbish", "a handshake", "an upgrade"],
)
def test_invalid_http_is_answered_and_counted_and_not_logged(host, caplog, raw, status):
    key = "assay_requests", "rest", "OTHER ", status
    before = telemetry.counts.get(key, 0)
    answers = [host.raw(raw) for _ in range(3)]
    assert all(answer.startswith(b"HTTP/1.1 ") for answer in answers)
    wait_until(lambda: telemetry.counts.get(key, 0) - before == (3 if status else 0))
    warned = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert not [one for one in warned if one.name in ("uvicorn.error", "assay.wire")]


# How many


def test_a_connection_above_the_limit_is_503_until_another_closes(tight):
    held = [
        socket.create_connection(("127.0.0.1", tight.port), timeout=PATIENCE)
        for _ in range(TIGHT.max_connections)
    ]
    for one in held:  # each has been accepted, once it is answered
        one.sendall(HEAD + b"\r\n")
        assert one.recv(65536).startswith(b"HTTP/1.1 200")
    answer = tight.raw(b"")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in answer
    assert b"ASSAY_MAX_CONNECTIONS" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"] == "unavailable"
    for one in held:
        one.close()
    wait_until(lambda: tight.raw(HEAD + b"connection: close\r\n\r\n").startswith(b"HTTP/1.1 200"))


def test_every_closed_connection_is_counted_down(tight):
    place = tight.server.listeners[0]
    for data in (b"", b"HELLO\r\n\r\n", HEAD, HEAD + b"connection: close\r\n\r\n"):
        tight.raw(data, close=True)
    wait_until(lambda: place.connections == 0)


# How much of a head


def refused_long(answer):
    assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (body["error"], body["details"]) == (
        "payload_too_large",
        {"limit": TIGHT.max_head_bytes, "setting": "max_head_bytes"},
    )


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + b"x: " + b"x" * 9_000 + b"\r\n\r\n",
        HEAD + b"".join(b"x-%d: %b\r\n" % (n, b"y" * 90) for n in range(100)) + b"\r\n",
        b"GET /v1/health?x=" + b"x" * 9_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
    ids=["one large header", "many of them", "a long line"],
)
def test_too_large_headers_are_431(tight, raw):
    refused_long(tight.raw(raw))


def test_headers_at_the_limit_are_accepted(tight):
    assert tight.raw(HEAD + b"connection: close\r\nx: " + b"x" * 8_000 + b"\r\n\r\n").startswith(
        b"HTTP/1.1 200"
    )
    body = json.dumps(request_of(1, more="x" * 30_000)).encode()  # what follows the head is none of it
    with tight.client() as client:
        assert (
            client.post(
                "/v1/evaluate", content=body, headers={"content-type": "application/json"}
            ).status_code
            == 400
        )


def lines(many):
    return b"".join(b"x-%d:\r\n" % n for n in range(many - 2)) + b"connection: close\r\n\r\n"


def test_headers_above_their_number_are_431(host):
    most = ServerLimits().max_headers
    assert host.raw(HEAD + lines(most)).startswith(b"HTTP/1.1 200 ")
    answer = host.raw(HEAD + lines(most + 1))
    assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["details"] == {"limit": most, "setting": "max_headers"}
    assert "ASSAY_MAX_HEADERS" in body["message"]


@pytest.mark.parametrize(
    ("line", "hosts", "status"),
    [
        (b"GET /v1/health HTTP/1.1", [], b"400"),
        (b"GET /v1/health HTTP/1.1", [b"Host: a", b"host: a"], b"400"),  # the same twice, too
        (b"GET /v1/health HTTP/1.0", [b"Host: a", b"Host: b"], b"400"),
        (b"GET /v1/health HTTP/1.0", [], b"200"),  # it had none then
        (b"GET /v1/health HTTP/1.1", [b"Host:"], b"200"),  # empty where there is no authority (RFC 9112 §3.2)
    ],
)
def test_a_request_with_several_hosts_is_refused(host, line, hosts, status):
    answer = host.raw(b"\r\n".join([line, *hosts, b"Connection: close", b"", b""]))
    assert answer.split(b" ", 2)[1] == status, answer
    if status == b"400":
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert body["message"] == f"expected one header Host (RFC 9112 §3.2), got {len(hosts)}"


UPGRADES = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n",
    "websocket": b"Connection: upgrade\r\nUpgrade: websocket\r\n",
}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("cut", ["whole", "after the head", "bytes"])
@pytest.mark.parametrize("offer", UPGRADES)
def test_an_offer_of_another_protocol_is_ignored_and_the_body_is_read(host, offer, cut, chunked):
    """Java's HttpClient offers h2c with its first request (RFC 9110 §7.8)."""
    body = json.dumps(request_of(1)).encode()
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    head = b"POST /v1/evaluate HTTP/1.1\r\nHost: a\r\nX-API-Key: %b\r\nContent-Type: application/json\r\n%b\r\n" % (
        host.key().encode(), length
    )  # fmt: skip
    first = head + UPGRADES[offer] + b"\r\n"
    last = HEAD + b"Connection: close\r\n\r\n"  # the connection goes on in HTTP/1.1
    sent = {
        "whole": [first + framed + last],
        "after the head": [first, framed, last],
        "bytes": [first[:-1], first[-1:] + framed[:7], framed[7:-1], framed[-1:], last],
    }[cut]
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in sent:
            connection.sendall(part)
            time.sleep(0.005)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 ") == 2, answer
    assert b'"completed_test_cases":1' in answer.replace(b" ", b"")
    assert answer.endswith(b"}")


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        (b"gzip", True),
        (b"gzip;q=0", False),
        (b"a," * 63 + b"gzip", True),
        (b"a," * 64 + b"gzip", False),  # read no further
        (b"a" + b";x" * 30_000, False),
    ],
)
def test_a_list_of_choices_is_read_to_a_bound(accepted, taken):
    weights = weights_of(accepted)
    assert (weights.get("gzip", 0) > 0) is taken
    assert len(weights) <= 64


def test_a_query_of_many_parameters_is_400_in_one_sentence(host):
    with host.client() as client:
        got = client.get("/v1/evaluations?" + "&".join(["a"] * 20_000))
        assert got.status_code == 400
        assert len(got.content) < 500
        assert client.get("/v1/evaluations?page_size=1").status_code == 200


def flood(host, begin, piece, most=64 * 1024 * 1024):
    """Send until the server has had enough; how many bytes went out, and its answer."""
    sent, answer = 0, b""
    with socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(begin)
            while sent < most:
                connection.sendall(piece)
                sent += len(piece)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    return sent, answer


CHUNKED = b"POST /v1/evaluate HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize("where", ["a header", "the line", "a trailer", "a chunk extension"])
def test_endless_headers_or_trailers_are_not_buffered(tight, where):
    key = f"x-api-key: {tight.key()}\r\n\r\n".encode()
    begin = {
        "a header": HEAD + b"x: ",
        "the line": b"GET /",
        "a trailer": CHUNKED + key + b"2\r\n{}\r\n0\r\nx: ",
        "a chunk extension": CHUNKED + key + b"2;x=",
    }[where]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent, _ = flood(tight, begin, b"x" * 65_536)
    assert sent < 32 * 1024 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB


def test_a_trailer_is_not_read_as_a_header(tight):
    """Else whoever stands behind a proxy that sets or removes headers could say what they like."""
    data = (
        CHUNKED + b"connection: close\r\n\r\n2\r\n{}\r\n0\r\nx-api-key: " + tight.key().encode() + b"\r\n\r\n"
    )
    assert tight.raw(data).startswith(b"HTTP/1.1 401 ")


def test_too_many_pipelined_requests_are_refused(host):
    key = f"x-api-key: {host.key()}\r\n".encode()
    body = json.dumps(request_of(1, [slow(0.5)])).encode()
    first = (
        b"POST /v1/evaluate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        % len(body)
    )
    answer = host.raw(first + key + b"\r\n" + body + (HEAD + b"\r\n") * 2_000)
    assert answer.count(b"HTTP/1.1 200") <= 66


# How long


def closed_in(connection, seconds=PATIENCE):
    """Whether the server closes it, before a guard that is only for hanging."""
    connection.settimeout(seconds)
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


@pytest.mark.parametrize(
    "trickle",
    [b"", b"\r\n", b"G", b"GET / HTTP/1.1\r\nx: "],
    ids=["nothing", "an empty line", "a letter", "half a head"],
)
def test_an_idle_connection_is_closed(tight, trickle):
    for begin in (b"", HEAD + b"\r\n"):  # a new one, and one on which a request was answered
        with socket.create_connection(("127.0.0.1", tight.port), timeout=PATIENCE) as connection:
            if begin:
                connection.sendall(begin)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            connection.sendall(trickle)
            assert closed_in(connection)


def test_an_unread_body_closes_its_connection(tight):
    with socket.create_connection(("127.0.0.1", tight.port), timeout=PATIENCE) as connection:
        connection.sendall(b"POST /v1/evaluate HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 401")
        with contextlib.suppress(ConnectionError):
            wait_until(lambda: connection.sendall(b"x"), lambda: "it goes on listening")


@pytest.mark.parametrize("run", LOOPS)
def test_a_response_that_is_not_read_is_dropped(tmp_path, run):
    serving = ServerLimits(idle_seconds=0.5, send_seconds=0.5)
    with Server(sqlite(tmp_path), serving=serving, run=run) as host, host.client() as client:
        body = request_of(1)
        body["outputs"][0]["value"] = "x" * 10_000_000  # more than the buffers of a connection
        id = client.post("/v1/evaluate", json=body).json()["evaluation_id"]
        place = host.server.listeners[0]
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", host.port))
            lazy.sendall(
                f"GET /v1/evaluations/{id} HTTP/1.1\r\nhost: a\r\nx-api-key: {host.key()}\r\n\r\n".encode()
            )
            assert lazy.recv(9) == b"HTTP/1.1 "  # and no more
            wait_until(lambda: place.connections == 0)  # the client's is closed too, for its silence


@pytest.mark.parametrize("run", LOOPS)
def test_a_follower_that_does_not_read_holds_little_memory(tmp_path, run):
    """Its connection has a slice of a frame of 8 MB; a client that reads gets all of it."""
    with Server(sqlite(tmp_path), run=run) as host, host.client() as client:
        body = request_of(1)
        body["outputs"][0]["value"] = "x" * 8_000_000
        id = client.post("/v1/evaluate", json=body).json()["evaluation_id"]
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", host.port))
            lazy.sendall(
                f"GET /v1/evaluations/{id}/events HTTP/1.1\r\nhost: a\r\nx-api-key: {host.key()}\r\n\r\n".encode()
            )
            connections = host.server.server_state.connections
            held = wait_until(
                lambda: max((one.transport.get_write_buffer_size() for one in list(connections)), default=0)
            )
            assert held < 1_000_000
        result = next(event for event in events_of(client, id) if event.name == "result")
        assert len(result.data["result"]["execution_context"]["output"]["value"]) == 8_000_000


def test_a_follower_is_not_closed_as_idle(tight):
    with tight.client() as client:
        id = client.post("/v1/evaluations", json=request_of(3, [slow(0.5)])).json()["operation_id"]
        assert events_of(client, id)[-1].name


# Bodies that are there already


@pytest.mark.anyio
@pytest.mark.parametrize("waits", [1, 3])
async def test_a_started_coroutine_can_be_awaited_later(waits):
    async def coming():
        for _ in range(waits):
            await asyncio.sleep(0)
        return "all of it"

    iterator = coming().__await__()
    assert await StartedAwaitable(next(iterator), iterator) == "all of it"


@pytest.mark.anyio
async def test_a_started_coroutine_is_cancelled_with_its_waiter():
    ended = []

    async def coming():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    iterator = coming().__await__()
    first = next(iterator)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await StartedAwaitable(first, iterator)
    assert ended
