"""One connection to a provider (RFC 9112): an answer is the same however its bytes are cut; a stray one answers nothing."""

import asyncio
import gzip
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.backends.models.direct_connection import DirectConnection
from assay.backends.models.transport import ConnectionLost, HttpAnswer, TooLargeReply

LIMIT = 1000


class Loose(asyncio.Transport):
    """A transport to nowhere that remembers what was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.aborted = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def heard(pieces: list[bytes], *, closed: bool = True) -> tuple[Any, DirectConnection]:
    """What a connection makes of what it receives."""

    async def ask() -> tuple[Any, DirectConnection]:
        connection = DirectConnection(asyncio.get_running_loop(), LIMIT)
        connection.connection_made(Loose())
        asking = asyncio.ensure_future(connection.ask(b"POST"))
        await asyncio.sleep(0)
        for piece in pieces:
            connection.data_received(piece)
        if closed:
            connection.connection_lost(None)
        return await asking, connection

    return asyncio.run(ask())


def http(*fields: str, body: bytes = b"", status: str = "200 OK") -> bytes:
    return "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *fields, "")).encode() + body


CHUNKED = http("Transfer-Encoding: chunked", body=b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-End: 1\r\n\r\n")
PACKED = gzip.compress(b"abcde")
ANSWERS = {
    "of a length": (http("Content-Length: 5", body=b"abcde"), "abcde", True),
    "in chunks": (CHUNKED, "abcde", True),
    "empty": (http("Content-Length: 0"), "", True),
    "without content": (http(status="204 No Content"), "", True),
    "to the end": (http(body=b"abcde"), "abcde", False),
    "the last": (http("Connection: close", "Content-Length: 5", body=b"abcde"), "abcde", False),
    "of 1.0": (http("Content-Length: 5", body=b"abcde").replace(b"1.1", b"1.0"), "abcde", False),
    "after a 100": (http(status="100 Continue") + http("Content-Length: 5", body=b"abcde"), "abcde", True),
    "packed": (http("Content-Encoding: gzip", f"Content-Length: {len(PACKED)}", body=PACKED), "abcde", True),
}


@pytest.mark.parametrize(("raw", "body", "kept"), ANSWERS.values(), ids=ANSWERS)
@settings(max_examples=25)
@given(data=st.data())
def test_an_answer_is_the_same_wherever_it_is_cut(raw, body, kept, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=5)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    outcome, connection = heard(pieces, closed=not kept)
    assert isinstance(outcome, HttpAnswer)
    assert outcome.body.decode() == body
    assert connection.reusable is kept


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (http("Content-Length: 9", body=b"abc"), ConnectionLost("the connection was closed in the middle of an answer")),
        (CHUNKED[:-12], ConnectionLost("the connection was closed in the middle of an answer")),
        (b"", ConnectionLost("the connection was closed without an answer")),
        (b"HTTP/1.1 200 OK\r\nContent-", ConnectionLost("the connection was closed without an answer")),
        (b"\x16\x03\x01\x02", ConnectionLost("not an HTTP response: HttpParserError")),
        (http("Upgrade: other", "Connection: Upgrade", status="101 X"), ConnectionLost("not an HTTP response: HttpParserUpgrade")),
        (http(*[f"X-{at}: {'y' * 1000}" for at in range(80)]), ConnectionLost("not an HTTP response: its headers do not end")),
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
    ids=["short", "short of chunks", "nothing", "half a head", "noise", "another protocol", "endless head", "too long",
         "too long to the end", "a bomb", "half packed", "not packed", "packed otherwise"],
)  # fmt: skip
def test_what_is_no_answer_is_an_outcome_too_and_ends_the_connection(raw, outcome):
    got, connection = heard([raw] if raw else [])
    assert got == outcome
    assert not connection.reusable


STRAY = http("Content-Length: 5", body=b"stray")


@pytest.mark.parametrize("more", [STRAY, STRAY[:9], b"\r\n\r\nx"], ids=["whole", "begun", "noise"])
@pytest.mark.parametrize("together", [True, False], ids=["in one piece", "a moment later"])
def test_a_connection_that_says_more_than_was_asked_is_not_used_again(more, together):
    first = ANSWERS["of a length"][0]
    outcome, connection = heard([first + more] if together else [first, more], closed=False)
    assert outcome.body == b"abcde"
    assert not connection.reusable


def test_a_word_on_an_idle_connection_closes_it():
    outcome, connection = heard([ANSWERS["of a length"][0]], closed=False)
    assert isinstance(outcome, HttpAnswer)
    assert connection.reusable
    connection.data_received(STRAY)
    assert not connection.reusable
