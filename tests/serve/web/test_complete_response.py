"""A response that is written in one step has the bytes, and leaves the connection in the state, of uvicorn's own two steps."""

import asyncio
import logging
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from assay.serve.web.complete_response import write_complete

NAMES = [b"content-location", b"x-request-id", b"etag", b"connection", b"transfer-encoding", b"bad name"]
VALUES = st.sampled_from(
    [b"/v1/x", b"close", b"chunked", b"a\r\nb: c", b"", "é".encode(), b"\x7f"]
) | st.binary(max_size=6)
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=3).map(tuple)
SAFE = ((b"content-type", b"application/json"), (b"referrer-policy", b"no-referrer"))


class Connection:
    """Records what a response does to its connection."""

    write_paused = False

    def __init__(self) -> None:
        self.written, self.closed, self.ended = b"", False, 0

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, data: Any) -> None:
        self.written += b"".join(data)

    def close(self) -> None:
        self.closed = True

    def end(self) -> None:
        self.ended += 1


def cycle_of(connection: Any, keep_alive: bool) -> Any:
    log = logging.getLogger("assay.wire")
    default = [(b"date", b"Tue, 17 Nov 2026 06:00:00 GMT")]
    return RequestResponseCycle(
        {"method": "POST"}, connection, connection, log, log, False, default, asyncio.Event(), True,
        keep_alive, connection.end,
    )  # type: ignore[arg-type]  # fmt: skip


def state(connection: Connection, cycle: Any) -> list[Any]:
    return [
        connection.written, connection.closed, connection.ended, cycle.response_started, cycle.response_complete,
        cycle.waiting_for_100_continue, cycle.chunked_encoding, cycle.expected_content_length,
        cycle.message_event.is_set(),
    ]  # fmt: skip


async def send_apart(cycle: Any, status: int, headers: Any, body: bytes) -> bool:
    try:
        await cycle.send({"type": "http.response.start", "status": status, "headers": headers})
        await cycle.send({"type": "http.response.body", "body": body})
    except RuntimeError:  # a header that uvicorn refuses
        return False
    return True


@settings(max_examples=80)
@given(
    own=HEADERS,
    status=st.sampled_from([200, 202, 204, 304, 404, 500]),
    body=st.binary(max_size=20),
    keep_alive=st.booleans(),
)
def test_one_step_writes_the_bytes_of_two(own, status, body, keep_alive):
    async def main() -> None:
        one, two = Connection(), Connection()
        together, apart = cycle_of(one, keep_alive), cycle_of(two, keep_alive)
        if not write_complete(together.send, status, own, SAFE, body):
            assert one.written == b""
            assert not together.response_started
            return
        length = (b"content-length", b"%d" % len(body))
        assert await send_apart(apart, status, [*own, *SAFE, length], body)
        assert state(one, together) == state(two, apart)

    asyncio.run(main())


def test_the_usual_response_is_written_in_one_step_and_others_are_left_to_uvicorn():
    async def main() -> None:
        own = ((b"x-request-id", b"req_1"),)
        assert write_complete(cycle_of(Connection(), True).send, 200, own, SAFE, b"{}")
        assert not write_complete(cycle_of(Connection(), True).send, 304, own, SAFE, b"")
        for flag in ("response_started", "disconnected", "access_log"):
            cycle = cycle_of(Connection(), True)
            setattr(cycle, flag, True)
            assert not write_complete(cycle.send, 200, own, SAFE, b"{}"), flag
        paused = Connection()
        paused.write_paused = True
        assert not write_complete(cycle_of(paused, True).send, 200, own, SAFE, b"{}")
        assert paused.written == b""

        async def middleware(message: Any) -> None:
            raise AssertionError(message)

        assert not write_complete(middleware, 200, own, SAFE, b"{}")

    asyncio.run(main())
