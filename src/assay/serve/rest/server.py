"""The HTTP server: uvicorn, with a time for the head of a request and our own words for what is no HTTP."""

import asyncio
import gc
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.protocol.operations import ErrorResponse
from assay.serve.limits import Serving
from assay.serve.rest.answers import encode

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GARBAGE = 20_000, 20, 50  # a request makes some thousand objects, and none of them is part of a circle
KEEP_ALIVE = 30
GRACE = 15  # seconds that answers may take to end, once the server stops


def server(app: Starlette, serving: Serving, *, host: str, port: int, log_level: str = "warning") -> "Server":
    """Not started yet: `serve()` runs until `should_exit`."""

    class Protocol(Patient):
        head_seconds = serving.head_seconds

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level=log_level,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        backlog=2048,
    )
    return Server(config, app)


class Server(uvicorn.Server):
    """
    Those who wait or follow are sent home first: uvicorn waits for its connections before it says that it stops.

    A signal ends `serve()` and is not raised again afterwards: what else is to be closed is closed by whoever called it.
    """

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._app = app

    @property
    def host(self) -> Any:
        return self._app.state.host

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: Any = None) -> None:
        """What is loaded by now stays: the collector of garbage need not look at it again and again."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        await super().startup(sockets)

    async def shutdown(self, sockets: Any = None) -> None:
        self._app.state.host.stop()
        await super().shutdown(sockets)


class Patient(HttpToolsProtocol):
    """Closes a connection on which no request begins, or whose head does not end."""

    head_seconds = 10.0
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        # asyncio does so itself only where the listening socket was made with its protocol named; else an answer waits 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._waiting is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._go_on()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        body = encode(ErrorResponse(error="validation_error", message=msg))
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        self.transport.write(head + body)
        self.transport.close()

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
