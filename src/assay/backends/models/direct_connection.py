"""One HTTP/1.1 connection to a provider, with one request at a time (RFC 9112)."""

import asyncio
import zlib
from typing import cast

import httptools  # an extra: only a transport imports this file

from assay.backends.models.transport import ConnectionLost, HttpAnswer, Outcome, TooLargeReply

LONGEST_HEAD = 64 * 1024  # bytes of header fields, trailers included


class DirectConnection(asyncio.Protocol):
    """
    What went wrong is an outcome; a request that is given up closes its connection, so that no answer meets another.

    The methods `on_…` are what httptools calls while it reads.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self._loop, self._limit = loop, limit
        self._parser = httptools.HttpResponseParser(self)
        self._outcome: asyncio.Future[Outcome] | None = None
        self._transport: asyncio.Transport | None = None
        self.reusable = False
        self.idle_since = 0.0
        self._begin()

    async def ask(self, request: bytes) -> Outcome:
        if self._transport is None:
            return ConnectionLost("the connection was closed before it was used")
        outcome = self._outcome = self._loop.create_future()
        self.reusable = False
        self._begin()
        self._transport.write(request)
        try:
            return await outcome
        finally:
            self._outcome = None
            if not self.reusable:
                self.close()

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # libuv's is none by its type, and one in all it does

    def data_received(self, data: bytes) -> None:
        if not self._request_sent:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as wrong:
            self._end(ConnectionLost(f"not an HTTP response: {type(wrong).__name__}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.reusable = False
        if self._status and not {"content-length", "transfer-encoding"} & self._fields.keys():
            self._end(self._answer())  # its end was the answer's
        how = "in the middle of an answer" if self._status else "without an answer"
        self._end(
            ConnectionLost(f"the connection was closed {how}" + (f": {type(exc).__name__}" if exc else ""))
        )

    # what httptools calls

    def on_message_begin(self) -> None:
        if not self._request_sent:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._head > LONGEST_HEAD:
            self._end(ConnectionLost("not an HTTP response: its headers do not end"))
            self.close()
        else:
            self._fields[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._end(TooLargeReply(self._limit))
            self.close()
        else:
            self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._status < 200:  # it has been heard, and the answer follows
            self._begin()
            return
        if not self._request_sent:
            return
        assert self._transport is not None
        written = self._transport.get_write_buffer_size() == 0
        self.reusable = written and self._parser.should_keep_alive() and not self._transport.is_closing()
        self._end(self._answer())

    # ours

    @property
    def _request_sent(self) -> bool:
        """Bytes without a request, or after a response, belong to no request: the connection is closed."""
        return self._outcome is not None and not self._outcome.done()

    def _begin(self) -> None:
        self._status = self._head = self._size = 0
        self._fields: dict[str, str] = {}
        self._parts: list[bytes] = []

    def _end(self, outcome: Outcome) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)

    def _answer(self) -> Outcome:
        body = b"".join(self._parts)
        encoding = self._fields.get("content-encoding", "identity").lower()
        if encoding in ("gzip", "deflate"):  # not requested, but some providers send it
            unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
            try:
                body = unpack.decompress(body, self._limit + 1)
            except zlib.error:
                return ConnectionLost(f"its answer is not valid {encoding}")
            if len(body) > self._limit:
                return TooLargeReply(self._limit)
            if not unpack.eof:
                return ConnectionLost(f"its {encoding} answer was cut off")
        elif encoding not in ("identity", ""):
            return ConnectionLost(f"it answered in the encoding {encoding!r}, which was not requested")
        return HttpAnswer(self._status, self._fields, body)
