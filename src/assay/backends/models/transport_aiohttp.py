"""The transport to providers, on aiohttp: one session, whose connections are kept and used again."""

import io
import ssl
import zlib
from typing import BinaryIO
from weakref import WeakSet

import aiohttp  # an extra: only `load_transport` imports this file
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from assay.backends.models.transport import (
    JSON_TYPE,
    ConnectionLost,
    HttpAnswer,
    Outcome,
    TooLargeReply,
    base_url,
    credentials,
    proxy_of,
)
from assay.client_tls import client_context
from assay.ports import Provider

LONG = 1 << 20  # bytes of a request
LONGEST_FIELD = 64 * 1024  # bytes of one header field
MOST_FIELDS = 512


class _Connector(aiohttp.TCPConnector):
    """Closes a connection that received bytes while idle: aiohttp takes them for the answer to the next request."""

    def __init__(self, tls: ssl.SSLContext | bool) -> None:
        super().__init__(limit=0, ssl=tls)  # pyright: ignore[reportUnknownMemberType]
        self._used = WeakSet[ResponseHandler]()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None or not (protocol in self._used and protocol.should_close):
                break
            connection.close()
        if protocol is not None:
            self._used.add(protocol)
        return connection


class AiohttpTransport:
    """A failure is an outcome. A request that is given up closes its connection, so that no answer meets another."""

    def __init__(self, provider: Provider, max_bytes: int) -> None:
        self._limit = max_bytes
        self._base = base_url(provider)
        self._urls: dict[str, URL] = {}  # parsed once: there are two of them
        headers = {
            "User-Agent": "assay",
            "Content-Type": JSON_TYPE,
            "Accept": JSON_TYPE,
            "Accept-Encoding": "identity",
            **credentials(provider),
        }
        tls = client_context() if self._base.startswith("https:") else True
        self._session = aiohttp.ClientSession(
            headers=headers,
            auto_decompress=False,  # it takes a compressed answer that was cut off for a whole one
            connector=_Connector(tls),
            timeout=aiohttp.ClientTimeout(total=None),  # the client keeps the time
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_of(self._base),  # its own `trust_env` reads ~/.netrc before every request
            max_line_size=LONGEST_FIELD,
            max_field_size=LONGEST_FIELD,
            max_headers=MOST_FIELDS,
        )

    async def send(
        self,
        path: str,
        body: bytes | None,
        *,
        content_type: str = JSON_TYPE,
        into: BinaryIO | None = None,
    ) -> Outcome:
        # aiohttp warns of long bytes, but not of a file
        data = body if body is None or len(body) < LONG else io.BytesIO(body)
        method = "GET" if body is None else "POST"
        headers = None if content_type == JSON_TYPE else {"Content-Type": content_type}
        try:
            url = self._urls.get(path) or URL(self._base + path)
            if len(self._urls) < 10:  # the few of single calls; those of batches have ids
                self._urls[path] = url
            async with self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False
            ) as response:
                good = 200 <= response.status < 300
                encoding = response.headers.get("content-encoding", "identity").lower()
                received = _Body(self._limit, encoding, into if good else None)
                while received.problem is None and (part := await response.content.readany()):
                    received.add(part)
                if received.problem is not None:
                    return received.problem
                if response.status < 200:
                    return ConnectionLost("not an HTTP response: it changes to another protocol")
                return received.end(response)
        except (aiohttp.ClientError, OSError, UnicodeError) as lost:
            return ConnectionLost(_reason(lost))

    async def close(self) -> None:
        await self._session.close()


def _reason(lost: Exception) -> str:
    match lost:
        case aiohttp.ClientConnectorCertificateError():
            return _reason(lost.certificate_error)
        case aiohttp.ClientConnectorError():
            return _reason(lost.os_error)
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed without an answer"
        case aiohttp.ClientPayloadError():
            return "the connection was closed in the middle of an answer"
        case aiohttp.ClientResponseError():
            return "not an HTTP response"
        case _:
            return f"{type(lost).__name__}: {lost}" if str(lost) else type(lost).__name__


class _Body:
    """
    The body of an answer, as it is meant, while it comes. Compression is not requested, but some providers compress.
    """

    def __init__(self, limit: int, encoding: str, into: BinaryIO | None) -> None:
        """`into`: a file that gets it."""
        self._limit, self._encoding, self._into = limit, encoding, into
        self._parts: list[bytes] = []
        self._received = self._size = 0
        self._unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ("gzip", "deflate") else None
        self.problem: Outcome | None = None
        if into is not None:
            into.seek(0)
            into.truncate()

    def add(self, part: bytes) -> None:
        self._received += len(part)
        if self._unpack is not None:
            try:
                part = self._unpack.decompress(part, self._limit + 1 - self._size)
            except zlib.error:
                self.problem = ConnectionLost(f"its answer is not valid {self._encoding}")
                return
        self._size += len(part)
        if max(self._size, self._received) > self._limit:
            self.problem = TooLargeReply(self._limit)
        elif self._into is not None:
            self._into.write(part)
        else:
            self._parts.append(part)

    def end(self, response: aiohttp.ClientResponse) -> Outcome:
        if self._unpack is None and self._encoding not in ("identity", ""):
            return ConnectionLost(f"it answered in the encoding {self._encoding!r}, which was not requested")
        if self._unpack is not None and not self._unpack.eof:
            return ConnectionLost(f"its {self._encoding} answer was cut off")
        return HttpAnswer(response.status, response.headers, b"".join(self._parts))
