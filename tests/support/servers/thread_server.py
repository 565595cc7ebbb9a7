"""Servers in a thread of their own: on an event loop, or of one class of handlers."""

import asyncio
import contextlib
import ssl
import threading
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from support.waiting import PATIENCE


@contextlib.contextmanager
def served_in_thread(serving):
    """What this async context manager yields; it is left at the end."""
    started = Future()

    async def serve():
        async with serving as value:
            leave = asyncio.Event()
            started.set_result((value, asyncio.get_running_loop(), leave))
            await leave.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    value, loop, leave = started.result(PATIENCE)
    yield value
    loop.call_soon_threadsafe(leave.set)
    thread.join(PATIENCE)


class Handler(BaseHTTPRequestHandler):
    """A request of such a server. It prints nothing."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None: ...


class HandlerServer:
    """`with` serves requests at `url`, on loopback, by this class of handlers."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
