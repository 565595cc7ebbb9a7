"""A proxy in front of a real server that changes what it answers: a host with a planted fault."""

import json
from collections.abc import Callable
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from support.servers.thread_server import Handler, HandlerServer

KEPT = ("content-type", "location", "etag", "capabilities-etag", "cache-control", "openwop-idempotent-replay")


class Exchange:
    """A request and its answer. A mutation changes `status`, `headers` or `body`, or asks the server something else."""

    def __init__(self, proxy: "Proxy", method: str, path: str, headers: dict[str, str], sent: bytes) -> None:
        self.method, self.path, self.sent_headers, self.sent = method, path, headers, sent
        self._proxy = proxy
        self.status, self.headers, self.body = 0, dict[str, str](), b""

    @property
    def key(self) -> str:
        return self.sent_headers.get("authorization", "")

    @property
    def request(self) -> Any:
        return json.loads(self.sent)

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @document.setter
    def document(self, value: Any) -> None:
        self.body = json.dumps(value).encode()

    @property
    def memory(self) -> dict[str, Any]:
        """What the proxy remembers from one request to the next."""
        return self._proxy.memory

    def forward(self, **changes: Any) -> None:
        """Ask the server, perhaps another question: `key`, `path` or `sent` replaces that of the request."""
        headers = {name: value for name, value in self.sent_headers.items() if name not in ("host", "connection", "content-length")}  # fmt: skip
        if "key" in changes:
            headers["authorization"] = f"Bearer {changes['key']}"
        connection = HTTPConnection("127.0.0.1", self._proxy.port)
        connection.request(
            self.method, changes.get("path", self.path), changes.get("sent", self.sent) or None, headers
        )
        response = connection.getresponse()
        self.status, self.body = response.status, response.read()
        self.headers = {name.lower(): value for name, value in response.getheaders() if name.lower() in KEPT}
        connection.close()


class Mutation(NamedTuple):
    """A planted fault, and the checks that must find it. `change` gets an exchange that was forwarded already."""

    name: str
    finds: tuple[str, ...]
    change: Callable[[Exchange], None]


class Proxy:
    """The faults of one server at a time. `memory` is empty for each."""

    def __init__(self, target: str) -> None:
        port = urlsplit(target).port
        assert port is not None
        self.port, self.mutation, self.memory = port, None, dict[str, Any]()
        self.requests: list[tuple[str, str]] = []

    @contextmanager
    def faulty(self, mutation: Mutation | None):
        self.mutation, self.memory = mutation, {}
        self.requests = []
        yield
        self.mutation = None


@contextmanager
def proxied(target: str):
    """The address of a proxy for that server, and the proxy."""
    proxy = Proxy(target)

    class Forward(Handler):
        def answer(self) -> None:
            exchange = Exchange(proxy, self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, self.body())  # fmt: skip
            proxy.requests.append((self.command, self.path))
            exchange.forward()
            if proxy.mutation is not None:
                proxy.mutation.change(exchange)
            self.send(exchange.status, exchange.body, {**exchange.headers, "Connection": "close"})
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = answer

    with HandlerServer(Forward) as server:
        yield server.url, proxy
