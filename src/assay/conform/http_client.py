"""
An HTTP client for a host that nobody trusts.

It speaks to one address alone, follows no redirect, uses no proxy and no cookie. Each request has its own connection, a
time limit from its start to its last byte, and a limit on the bytes of its answer.
"""

import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from assay.client_tls import client_context
from assay.conform.pace import Pace
from assay.errors import UsageError

MAX_BYTES = 4 * 2**20  # of an answer; the largest of ours has 0.1 MB
TIMEOUT = 10.0  # seconds of a request
RATE = 50.0  # requests a second
ADDRESS = "expected an address such as http://127.0.0.1:8321"


class Unanswered(Exception):
    """The host gave no answer that HTTP allows: no connection, no end, too many bytes, fewer than it announced."""

    def __init__(self, message: str, *, connected: bool = True) -> None:
        super().__init__(message)
        self.connected = connected


class Answer(NamedTuple):
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]  # by their names in lower case
    body: bytes

    def document(self) -> Any:
        """
        The JSON of the body.

        ValueError: it is none, or too deep.
        """
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, RecursionError, ValueError) as wrong:
            raise ValueError(str(wrong)) from None


class HttpClient:
    """Requests to one address, at most `rate` of them a second."""

    def __init__(self, address: str, *, timeout: float = TIMEOUT, rate: float = RATE) -> None:
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError:
            raise UsageError(f"URL {address!r}: {ADDRESS}") from None
        if "@" in parts.netloc:  # it may be a password, so it is not repeated
            raise UsageError(f"URL: {ADDRESS}, got one with a user; the key is that of --key")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"URL {address!r}: {ADDRESS}")
        self.address = address.rstrip("/")
        self._prefix, self._host, self._port = parts.path.rstrip("/"), parts.hostname, port
        self._tls = client_context() if parts.scheme == "https" else None
        self._timeout, self._pace = timeout, Pace(rate)

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """
        The answer to a request. Threads may share a client.

        Unanswered: there is none.
        """
        with self._open(method, path, body, headers or {}) as response:
            found = response.read(MAX_BYTES + 1)
            if len(found) > MAX_BYTES:
                raise Unanswered(f"{method} {path}: the answer has more than {MAX_BYTES} bytes")
            if response.length:  # `read` with a limit returns less without a word
                short = f"{response.length} bytes before the length it announced"
                raise Unanswered(f"{method} {path}: the answer ends {short}")
            return Answer(response.status, _names(response), found)

    @contextmanager
    def _open(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Generator[HTTPResponse]:
        self._pace.wait()
        connection = self._connection()
        what, late = f"{method} {path}", f"no end after {self._timeout:g} seconds"
        try:
            connection.connect()
        except OSError as wrong:
            raise Unanswered(f"{self.address}: {wrong.strerror or wrong}", connected=False) from None
        except UnicodeError:  # of a name that no resolver takes
            raise Unanswered(f"{self.address}: no host has such a name", connected=False) from None
        alarm = _Alarm(connection.sock, self._timeout)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may answer before the body has ended
                connection.request(
                    method,
                    self._prefix + path,
                    body,
                    {"Accept-Encoding": "identity", "Connection": "close", **headers},
                )
            with closing(connection.getresponse()) as response:
                yield response
        except (OSError, HTTPException, ValueError, Unanswered) as wrong:
            if alarm.rang or isinstance(wrong, TimeoutError):  # whichever of both was first
                raise Unanswered(f"{what}: {late}") from None
            if isinstance(wrong, Unanswered):
                raise
            raise Unanswered(f"{what}: {str(wrong).strip() or type(wrong).__name__}") from None
        else:
            if alarm.rang:
                raise Unanswered(f"{what}: {late}")
        finally:
            alarm.stop()
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self._tls is not None:
            return HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=self._timeout)


class _Alarm:
    """Closes a connection after a time: a host that sends a byte now and then would keep it open for ever."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self.rang = connection, False
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        self.rang = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        self._timer.cancel()


def _names(response: HTTPResponse) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
