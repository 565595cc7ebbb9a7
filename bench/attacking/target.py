"""The server that is attacked, and how an attack talks to it."""

import http.client
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

SECONDS = 120.0  # that an attack waits for one answer


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Target(NamedTuple):
    """Where it listens, and the key of the tenant that attacks."""

    url: str
    grpc: str
    key: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 80

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """One request on a connection of its own. `body` is bytes, or a value that is sent as JSON."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {"X-API-Key": self.key, "Content-Type": "application/json", **named}
        with closing(http.client.HTTPConnection(*self.address, timeout=SECONDS)) as connection:
            connection.request(method, path, data, sent)
            got = connection.getresponse()
            return Reply(got.status, got.read(), {name.lower(): value for name, value in got.getheaders()})

    def raw(self, data: bytes, seconds: float = SECONDS) -> bytes:
        """Bytes out on a connection of its own, and what comes back until the server closes it."""
        with socket.create_connection(self.address, timeout=seconds) as connection:
            connection.sendall(data)
            answer = b""
            with suppress(TimeoutError, ConnectionResetError):
                while part := connection.recv(65536):
                    answer += part
            return answer


Attack = Callable[[Target], object]


def at_once(many: int, work: Callable[[int], Any]) -> list[Any]:
    """`work(0)`, `work(1)`, … in as many threads; what each returned. The first exception is raised."""
    with ThreadPoolExecutor(many) as threads:
        return list(threads.map(work, range(many)))
