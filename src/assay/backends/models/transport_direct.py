"""
A wire of our own, on asyncio and httptools: one POST, one answer, and the connection is kept for the next.

It knows what calling a provider takes and nothing else of HTTP; where a proxy stands between, aiohttp's wire is used.
"""

import asyncio
import socket
import ssl
from collections import deque
from contextlib import ExitStack
from functools import partial
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import aiohappyeyeballs  # an extra, as all that only a wire needs

from assay.backends.models.direct_connection import DirectConnection
from assay.backends.models.transport import OPENAI, ConnectionLost, Outcome
from assay.ports import Provider

KEPT = 15.0  # seconds an idle connection is trusted: many servers close it after twenty, some without a word
AHEAD = 0.25  # seconds that the first address of a name has before the next is tried as well
IN_PATH = "/%:@!$&'()*+,;=~"  # what RFC 3986 lets stand in one


class DirectTransport:
    def __init__(self, provider: Provider, max_bytes: int) -> None:
        self._provider, self._limit = provider, max_bytes
        self._loop = asyncio.get_running_loop()
        self._address = address = urlsplit((provider.base_url or OPENAI).rstrip("/"))
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        self._host, self._port = address.hostname or "", address.port or (443 if self._tls else 80)
        self._request_heads: dict[str, bytes] = {}  # made once: there are two of them
        self._idle: deque[DirectConnection] = deque()

    async def send(self, path: str, body: bytes) -> Outcome:
        try:
            head = self._request_heads.get(path) or self._request_heads.setdefault(
                path, self._request_head(path)
            )
            connection = self._idle_connection() or await self._connect()
        except (OSError, UnicodeError) as lost:  # a name that is none is not even looked up
            return ConnectionLost(f"{type(lost).__name__}: {lost}" if str(lost) else type(lost).__name__)
        outcome = await connection.ask(b"%s%d\r\n\r\n%s" % (head, len(body), body))
        if connection.reusable:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        return outcome

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # so that they are closed when the loop is

    def _idle_connection(self) -> DirectConnection | None:
        """The connection that was used last. Idle ones are closed."""
        trusted = self._loop.time() - KEPT
        while self._idle and self._idle[0].idle_since < trusted:
            self._idle.popleft().close()
        while self._idle:
            if (connection := self._idle.pop()).reusable:
                return connection
        return None

    async def _connect(self) -> DirectConnection:
        made = partial(DirectConnection, self._loop, self._limit)
        if _is_number(self._host):
            _, connection = await self._loop.create_connection(made, self._host, self._port, ssl=self._tls)
            return connection
        there = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        plain = await aiohappyeyeballs.start_connection(there, happy_eyeballs_delay=AHEAD)  # pyright: ignore[reportUnknownMemberType]
        with ExitStack() as unless_taken:
            unless_taken.enter_context(plain)
            _, connection = await self._loop.create_connection(
                made, sock=plain, ssl=self._tls, server_hostname=self._host if self._tls else None
            )
            unless_taken.pop_all()
        return connection

    def _request_head(self, path: str) -> bytes:
        """The request's head up to the length; a UnicodeError if the host is not a valid name."""
        host = f"[{self._host}]" if ":" in self._host else self._host.encode("idna").decode()
        fields = {
            "Host": host if self._address.port is None else f"{host}:{self._address.port}",
            "User-Agent": "assay",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # what is read is what is counted
        }
        if self._provider.api_key:
            fields["Authorization"] = f"Bearer {self._provider.api_key.reveal()}"
        lines = "".join(f"{field}: {value}\r\n" for field, value in fields.items())
        target = quote(self._address.path + path, safe=IN_PATH)
        return f"POST {target} HTTP/1.1\r\n{lines}Content-Length: ".encode("ascii")


def _is_number(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
