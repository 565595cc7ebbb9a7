"""One HTTP connection: limits on the head in time and bytes, idle timeouts, JSON answers to malformed requests."""

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

# Malformed requests are answered and counted, but not logged: anyone who can reach the port could fill the log.
log = logging.getLogger("assay.wire")
log.setLevel(logging.ERROR)
UPGRADE = (b"upgrade", b"http2-settings")  # headers, and options of `Connection`, that offer another protocol
PIPELINED = 64  # requests waiting for the response to an earlier one


class HeadRefused(Exception):
    """Passes through the parser when a head is refused; `_refusal` holds the response."""


class GuardedHttpProtocol(HttpToolsProtocol):
    """
    Closes a connection if no request begins in time, or if the head of a request is too slow or too large.

    Bytes after a response that are not a new request, such as the rest of an unread body, do not keep the connection
    open.
    """

    head_seconds = 10.0
    head_bytes = 64 * 1024
    max_headers = 128
    send_seconds = 60.0
    _waiting: asyncio.TimerHandle | None = None
    _idle: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _unread = 0  # bytes received since the last complete head or chunk of a body
    _unread_bytes = 0  # bytes of a response that the client had not read at the last look
    _hosts = 0  # number of Host headers
    _heading = _upgrading = False
    _refusal: tuple[bytes, ErrorResponse] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = log

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        # asyncio sets this only if the listening socket names its protocol; without it a response waits 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._unread > self.head_bytes:
            self._refuse_long_head()
            self.send_400_response("")
            return
        self._unread += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._ignore_upgrade(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._heading and self._waiting is None:  # most heads arrive whole and need no timer
            self._start_timer()

    def _ignore_upgrade(self, data: bytes) -> None:
        """
        Stay with HTTP/1.1 when a client offers another protocol (RFC 9110 §7.8).

        The parser skips the body of such a request, so a second parser reads the same head without the offer.
        """
        if not self._upgrading:
            return  # CONNECT: already answered like any other method
        self._upgrading = False
        lines = [b"%b %b HTTP/%b" % (self._method, self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                options = (option.strip() for option in value.split(b","))
                value = b", ".join(option for option in options if option.lower() not in UPGRADE)  # noqa: PLW2901
            if name not in UPGRADE:
                lines.append(b"%b: %b" % (name, value))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self.data_received(b"\r\n".join((*lines, b"", data)))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._heading = True
        self._hosts = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, but with a limit, so that a head with too many headers is refused before it is complete."""
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers = self.headers
        headers.append((name, value))
        if len(headers) > self.max_headers:
            message = f"the request has more than {self.max_headers} headers (ASSAY_MAX_HEADERS)"
            self._refuse_head(message, "max_headers", self.max_headers)
            raise HeadRefused

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._heading = False
        if self._unread > self.head_bytes and self._head_size() > self.head_bytes:
            self._refuse_long_head()
            raise HeadRefused
        self._unread = 0
        if self._hosts != 1 and (self._hosts or self.parser.get_http_version() != "1.0"):
            self._refuse(f"expected one header Host (RFC 9112 §3.2), got {self._hosts}")
            raise HeadRefused
        if self.parser.should_upgrade() and (method := self.parser.get_method()) != b"CONNECT":
            self._upgrading, self._method = True, method
            return
        super().on_headers_complete()
        self.headers = []  # trailers are collected here and dropped: they are not headers of the request
        if len(self.pipeline) > PIPELINED:
            self._refuse(f"more than {PIPELINED} pipelined requests wait for a response")
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
        # uvicorn cancels its timer at the first byte received; ours runs until a request begins
        self._idle, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        self._unread_bytes = 0

    def timeout_keep_alive_handler(self) -> None:
        """No new request came. A response that the client still reads may go on; another one is dropped."""
        left = self.transport.get_write_buffer_size()
        if left and (not self._unread_bytes or left < self._unread_bytes):
            self._unread_bytes = left
            self._idle = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        elif left:
            self.transport.abort()
        elif not self.transport.is_closing():
            self.transport.close()

    def pause_writing(self) -> None:
        """The client reads slower than we write: the buffer must shrink every `send_seconds`."""
        super().pause_writing()
        if self._stuck is None:
            left = self.transport.get_write_buffer_size()
            self._stuck = self.loop.call_later(self.send_seconds, self._check_progress, left)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _check_progress(self, previous: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < previous:
            self._stuck = self.loop.call_later(self.send_seconds, self._check_progress, left)
        else:
            self._stuck = None
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
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

    def _refuse(self, message: str) -> None:
        self._refusal = b"400 Bad Request", ErrorResponse(error="validation_error", message=message)

    def _refuse_long_head(self) -> None:
        message = f"the head of the request has more than {self.head_bytes} bytes (ASSAY_MAX_HEAD_BYTES)"
        self._refuse_head(message, "max_head_bytes", self.head_bytes)

    def _refuse_head(self, message: str, setting: str, limit: int) -> None:
        details: dict[str, object] = {"limit": limit, "setting": setting}
        body = ErrorResponse(error="payload_too_large", message=message, details=details)
        self._refusal = b"431 Request Header Fields Too Large", body

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _start_timer(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _on_timeout(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()
