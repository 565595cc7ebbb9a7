"""One connection: a time and a size for the head of a request, an end to silence, and our own words for what is no HTTP."""

import asyncio
import logging
import socket
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.protocol.operations import ErrorResponse
from assay.serve.web.instrumentation import record_request
from assay.serve.web.request import new_request_id
from assay.serve.web.responses import encode

# Rubbish is answered, counted and no warning: whoever can reach the port could fill the log with it.
log = logging.getLogger("assay.wire")
log.setLevel(logging.ERROR)
OFFERING = (b"upgrade", b"http2-settings")  # headers and options of a connection that offer another protocol
PIPELINED = 64  # requests ahead of their answers


class HeadRefused(Exception):
    """A head that is not taken: goes up through the parser, and becomes the answer that `_refusal` holds."""


class GuardedHttpProtocol(HttpToolsProtocol):
    """
    Closes a connection on which no request begins, or whose head does not end, in time or in bytes.

    What comes after an answer and is no new request, such as the rest of a body nobody wanted, keeps no connection open.
    """

    head_seconds = 10.0
    head_bytes = 64 * 1024
    most_headers = 128
    send_seconds = 60.0
    _waiting: asyncio.TimerHandle | None = None
    _idle: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _unread = 0  # bytes of which nothing has come yet: no whole head, no piece of a body
    _left = 0  # bytes of an answer that were not taken when we last looked
    _hosts = 0  # headers of this name
    _heading = _upgrading = False
    _refusal: tuple[bytes, ErrorResponse] | None = None

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.logger = log

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        # asyncio does so itself only where the listening socket was made with its protocol named; else an answer waits 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._unread > self.head_bytes:
            self._too_long()
            self.send_400_response("")
            return
        self._unread += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._stay(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._heading and self._waiting is None:  # most heads are whole at once, and need no clock
            self._wait()

    def _stay(self, rest: bytes) -> None:
        """
        With HTTP/1.1, where a client offers another protocol (RFC 9110 §7.8): its request is read as if it had not.

        The parser skips the body of a request that offers one, so another parser reads the same head without the offer.
        """
        if not self._upgrading:
            return  # CONNECT, which has been answered as any other method
        self._upgrading = False
        lines = [b"%b %b HTTP/%b" % (self._method, self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                options = (option.strip() for option in value.split(b","))
                value = b", ".join(option for option in options if option.lower() not in OFFERING)  # noqa: PLW2901
            if name not in OFFERING:
                lines.append(b"%b: %b" % (name, value))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self.data_received(b"\r\n".join((*lines, b"", rest)))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._heading = True
        self._hosts = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, with an end: that of a head of many names comes before all of it is read."""
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers = self.headers
        headers.append((name, value))
        if len(headers) > self.most_headers:
            said = f"a request has more than {self.most_headers} headers (ASSAY_MAX_HEADERS)"
            self._refuse_head(said, "max_headers", self.most_headers)
            raise HeadRefused

    def on_headers_complete(self) -> None:
        self._go_on()
        self._heading = False
        if self._unread > self.head_bytes and self._head() > self.head_bytes:
            self._too_long()
            raise HeadRefused
        self._unread = 0
        if self._hosts != 1 and (self._hosts or self.parser.get_http_version() != "1.0"):
            self._refuse(f"expected one header Host (RFC 9112 §3.2), got {self._hosts}")
            raise HeadRefused
        if self.parser.should_upgrade() and (method := self.parser.get_method()) != b"CONNECT":
            self._upgrading, self._method = True, method
            return
        super().on_headers_complete()
        self.headers = []  # where trailers go: they are nobody's headers
        if len(self.pipeline) > PIPELINED:
            self._refuse(f"more than {PIPELINED} requests are ahead of their answers")
            raise HeadRefused

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        if self._upgrading:
            return
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # uvicorn gives its timer up at the first byte of anything; ours only when a request begins
        self._idle, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        self._left = 0

    def timeout_keep_alive_handler(self) -> None:
        """Nothing new; an answer that is still being taken may take longer, one that is not is dropped."""
        left = self.transport.get_write_buffer_size()
        if left and (not self._left or left < self._left):
            self._left = left
            self._idle = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        elif left:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def pause_writing(self) -> None:
        """More of an answer waits than is sent: it must get less, also when nobody writes or waits for it any more."""
        super().pause_writing()
        if self._stuck is None:
            left = self.transport.get_write_buffer_size()
            self._stuck = self.loop.call_later(self.send_seconds, self._look, left)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _look(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._stuck = self.loop.call_later(self.send_seconds, self._look, left)
        else:
            self._stuck = None
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        status, body = self._refusal or (
            b"400 Bad Request",
            ErrorResponse(error="validation_error", message=msg),
        )
        record_request("rest", "OTHER ", status[:3].decode(), 0.0)
        data = encode(body)
        head = (
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"
            b"x-request-id: %b\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            % (status, new_request_id().encode(), len(data))
        )
        self.transport.write(head + data)
        self.transport.close()

    def _refuse(self, said: str) -> None:
        self._refusal = b"400 Bad Request", ErrorResponse(error="validation_error", message=said)

    def _too_long(self) -> None:
        said = f"the head of a request has more than {self.head_bytes} bytes (ASSAY_MAX_HEAD_BYTES)"
        self._refuse_head(said, "max_head_bytes", self.head_bytes)

    def _refuse_head(self, said: str, setting: str, limit: int) -> None:
        details: dict[str, object] = {"limit": limit, "setting": setting}
        body = ErrorResponse(error="payload_too_large", message=said, details=details)
        self._refusal = b"431 Request Header Fields Too Large", body

    def _head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._give_up)

    def _go_on(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()
