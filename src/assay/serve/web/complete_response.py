"""
Writes a complete response to its connection in one step. uvicorn writes head and body apart, and checks each header in
each response.
"""

from functools import lru_cache
from typing import Any

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    RequestResponseCycle,
)

Headers = tuple[tuple[bytes, bytes], ...]
NO_BODY = (204, 304)
CONTROL = (b"connection", b"transfer-encoding")  # headers that change how uvicorn writes the body


def write_complete(send: Send, status: int, own: Headers, constant: Headers, body: bytes) -> bool:
    """
    Write the response of a request, with the bytes that `send` would write. False: `send` must do it.

    `own` are the headers of this response and `constant` are those that many responses have. Their names are in lower
    case. The last header is the Content-Length. The connection must be one of uvicorn's, and must not wait for a slow
    client. HEAD is not served.
    """
    cycle: Any = getattr(send, "__self__", None)
    if (
        type(cycle) is not RequestResponseCycle
        or cycle.response_started
        or cycle.disconnected
        or cycle.flow.write_paused
        or cycle.access_log
        or status in NO_BODY
    ):
        return False
    first, rest = _lines(own) if own else b"", _constant_lines(constant)
    if first is None or rest is None:
        return False
    default = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])
    keep_alive = cycle.keep_alive
    end = b"content-length: %d\r\n%b\r\n" % (len(body), b"" if keep_alive else b"connection: close\r\n")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = cycle.chunked_encoding = False
    cycle.transport.writelines((b"".join((STATUS_LINE[status], default, first, rest, end)), body))
    cycle.message_event.set()
    if not keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _lines(headers: Headers) -> bytes | None:
    """The lines of headers; None if `send` would refuse one, or would write the body in another way."""
    for name, value in headers:
        if HEADER_RE.search(name) or HEADER_VALUE_RE.search(value) or name in CONTROL:
            return None
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_constant_lines = lru_cache(maxsize=64)(_lines)
