"""The transport to providers, over real sockets: what it sends, and what it makes of all answers (RFC 9112)."""

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.backends.models.provider_client import load_transport
from assay.backends.models.transport import ConnectionLost, HttpAnswer, TooLargeReply, proxy_of
from assay.ports import Provider, Secret

LIMIT = 1000
IN_THE_MIDDLE = ConnectionLost("the connection was closed in the middle of an answer")
WITHOUT = ConnectionLost("the connection was closed without an answer")
NO_HTTP = ConnectionLost("not an HTTP response")


def http(*fields: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    return "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *fields, "")).encode() + body


@asynccontextmanager
async def provider(
    *answers: Sequence[bytes | Callable[[], Awaitable[bytes]]], base: str = "/v1", **more: Any
):
    """A transport to a server that answers each request with the next pieces, and what the server received."""
    received: list[tuple[int, bytes]] = []
    remaining = list(answers)
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        try:
            while remaining:
                received.append((number, await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2)))
                for piece in remaining.pop(0):
                    writer.write(piece if isinstance(piece, bytes) else await piece())
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # the transport closed it
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{base}"
    transport = load_transport()(Provider(name="local", base_url=address, **more), LIMIT)
    try:
        yield transport, received
    finally:
        await transport.close()
        server.close()


def outcome_of(pieces: list[bytes]) -> Any:
    async def send() -> Any:
        async with provider(pieces) as (transport, _):
            return await transport.send("/chat", b"{}")

    return asyncio.run(send())


CHUNKED = http("Transfer-Encoding: chunked", body=b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-End: 1\r\n\r\n")
PACKED = gzip.compress(b"abcde")
WHOLE = http("Content-Length: 5", body=b"abcde")
ANSWERS = {
    "of a length": (WHOLE, "abcde"),
    "in chunks": (CHUNKED, "abcde"),
    "empty": (http("Content-Length: 0"), ""),
    "without content": (http(status="204 No Content"), ""),
    "until the end": (http(body=b"abcde"), "abcde"),
    "the last": (http("Connection: close", "Content-Length: 5", body=b"abcde"), "abcde"),
    "of 1.0": (WHOLE.replace(b"1.1", b"1.0"), "abcde"),
    "after a 100": (http(status="100 Continue") + WHOLE, "abcde"),
    "after a 103": (http("Link: </a>", status="103 Early Hints") + WHOLE, "abcde"),
    "in gzip": (http("Content-Encoding: gzip", f"Content-Length: {len(PACKED)}", body=PACKED), "abcde"),
    "in deflate": (http("Content-Encoding: deflate", body=zlib.compress(b"abcde")), "abcde"),
    "with a long field": (http(f"X-Policy: {'y' * 20_000}", "Content-Length: 5", body=b"abcde"), "abcde"),
    "with many fields": (http(*[f"X-{at}: y" for at in range(200)], "Content-Length: 5", body=b"abcde"), "abcde"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "body"), ANSWERS.values(), ids=ANSWERS)
@settings(max_examples=5)
@given(data=st.data())
def test_an_answer_is_the_same_wherever_it_is_cut(raw, body, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=5)))
    outcome = outcome_of([raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)])
    assert isinstance(outcome, HttpAnswer)
    assert outcome.body.decode() == body


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (http("Content-Length: 9", body=b"abc"), IN_THE_MIDDLE),
        (CHUNKED[:-12], IN_THE_MIDDLE),
        (b"", WITHOUT),
        (b"HTTP/1.1 200 OK\r\nContent-", WITHOUT),
        (b"\x16\x03\x01\x02", NO_HTTP),
        (b"220 mail.example.com ESMTP\r\n", NO_HTTP),
        (http("Content-Length: 5", "Content-Length: 6", body=b"abcde"), NO_HTTP),
        (http("Content-Length: 5", "Transfer-Encoding: chunked", body=b"5\r\nabcde\r\n0\r\n\r\n"), NO_HTTP),
        (http(f"X: {'y' * 70_000}"), NO_HTTP),
        (http(*[f"X-{at}: y" for at in range(600)]), NO_HTTP),
        (
            http("Upgrade: other", "Connection: Upgrade", status="101 X"),
            ConnectionLost("not an HTTP response: it changes to another protocol"),
        ),
        (http("Content-Length: 1001", body=b" " * 1001), TooLargeReply(LIMIT)),
        (http(body=b" " * 1001), TooLargeReply(LIMIT)),
        (http("Content-Encoding: gzip", body=gzip.compress(b" " * 1001)), TooLargeReply(LIMIT)),
        (http("Content-Encoding: gzip", body=PACKED[:-9]), ConnectionLost("its gzip answer was cut off")),
        (http("Content-Encoding: gzip", body=b"abc"), ConnectionLost("its answer is not valid gzip")),
        (
            http("Content-Encoding: br", body=b"abc"),
            ConnectionLost("it answered in the encoding 'br', which was not requested"),
        ),
    ],
    ids=["short", "short of chunks", "nothing", "half a head", "noise", "another protocol", "two lengths",
         "length and chunks", "endless field", "endless head", "upgrade", "too long", "too long to the end", "bomb",
         "half packed", "not packed", "packed otherwise"],
)  # fmt: skip
def test_an_invalid_http_response_is_an_outcome(raw, outcome):
    assert outcome_of([raw]) == outcome


def test_a_request_carries_the_key_and_the_quoted_path():
    async def send() -> list[tuple[int, bytes]]:
        async with provider([WHOLE], base="/v1/ä b%20c", api_key=Secret("k1")) as (transport, received):
            await transport.send("/chat", b"{}")
        return received

    (_, request), *rest = asyncio.run(send())
    assert not rest
    line, *fields = request.decode().splitlines()
    assert line == "POST /v1/%C3%A4%20b%20c/chat HTTP/1.1"
    assert not fields[0].removeprefix("Host: 127.0.0.1:").strip("0123456789")
    assert fields[1:] == [
        "User-Agent: assay",
        "Content-Type: application/json",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Authorization: Bearer k1",
        "Content-Length: 2",
        "",
        "{}",
    ]


STRAY = http("Content-Length: 5", body=b"stray")


@pytest.mark.parametrize(
    ("first", "later", "kept"),
    [
        (WHOLE, b"", True),
        (CHUNKED, b"", True),
        (WHOLE + b"\r\n", b"", True),
        (WHOLE.replace(b"1.1", b"1.0"), b"", False),
        (http("Connection: close", "Content-Length: 5", body=b"abcde"), b"", False),
        (WHOLE + STRAY, b"", False),
        (WHOLE + STRAY + STRAY, b"", False),
        (WHOLE, STRAY, False),
        (WHOLE, STRAY + STRAY[:50], False),
        (WHOLE, STRAY[:-2], False),
        (WHOLE, b"\r\n\r\nx", False),
    ],
    ids=["of a length", "in chunks", "and a line break", "of 1.0", "the last", "and another", "and two others",
         "another later", "one and a half later", "most of another later", "noise later"],
)  # fmt: skip
def test_a_connection_that_sent_more_than_its_answer_is_not_used_again(first, later, kept):
    async def send_twice() -> list[int]:
        idle, sent = asyncio.Event(), asyncio.Event()

        async def more() -> bytes:
            await idle.wait()
            sent.set()
            return later

        async with provider([first, more], [WHOLE]) as (transport, received):
            assert (await transport.send("/chat", b"{}")).body == b"abcde"
            idle.set()
            await sent.wait()
            for _ in range(5):  # turns of the event loop in which the bytes arrive
                await asyncio.sleep(0)
            assert (await transport.send("/chat", b"{}")).body == b"abcde"
        return [number for number, _ in received]

    assert asyncio.run(send_twice()) == [1, 1 if kept else 2]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://127.0.0.1:9/v1", "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 9)"),
        ("http://provider.invalid/v1", "gaierror: "),
        ("http://a..b/v1", "UnicodeError: "),
        (f"http://{'x' * 70}.com/v1", "UnicodeError: "),
    ],
)
def test_an_unreachable_provider_is_an_outcome(address, says):
    async def send() -> Any:
        transport = load_transport()(Provider(name="local", base_url=address), LIMIT)
        try:
            return await transport.send("/chat", b"{}")
        finally:
            await transport.close()

    outcome = asyncio.run(send())
    assert isinstance(outcome, ConnectionLost)
    assert outcome.reason.startswith(says)


PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("variables", "address", "proxy"),
    [
        ({}, "https://api.example.com/v1", None),
        ({"HTTPS_PROXY": PROXY}, "https://api.example.com/v1", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://127.0.0.1:11434/v1", None),
        ({"HTTP_PROXY": PROXY}, "http://api.example.com/v1", PROXY),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"}, "https://api.example.com/v1", None),
    ],
)
def test_the_proxy_of_an_address_is_that_of_the_environment(no_proxy, monkeypatch, variables, address, proxy):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert proxy_of(address) == proxy


def test_a_request_goes_through_the_proxy_of_the_environment(no_proxy, monkeypatch):
    async def send() -> tuple[Any, list[tuple[int, bytes]]]:
        async with provider([WHOLE]) as (direct, received):
            monkeypatch.setenv("HTTP_PROXY", str(direct._base).removesuffix("/v1"))
            transport = load_transport()(Provider(name="far", base_url="http://api.example.com/v1"), LIMIT)
            try:
                return await transport.send("/chat", b"{}"), received
            finally:
                await transport.close()

    outcome, received = asyncio.run(send())
    assert outcome.body == b"abcde"
    assert received[0][1].startswith(b"POST http://api.example.com/v1/chat HTTP/1.1\r\n")


@pytest.fixture
def no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
