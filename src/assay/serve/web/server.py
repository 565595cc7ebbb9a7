"""The HTTP server: uvicorn, with limits on connections and requests, and TLS if there is a certificate."""

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette

from assay.concurrency.memory import limit_arenas
from assay.serve.web.http_protocol import GuardedHttpProtocol
from assay.serve.web.limit_settings import ServerLimits
from assay.serve.web.listener import Listener
from assay.serve.web.memory import MemoryKeeper
from assay.serve.web.tls import Tls

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GC_THRESHOLDS = 20_000, 20, 50  # a request allocates thousands of objects and no reference cycles
GIL_SWITCH_INTERVAL = 0.001  # seconds; the store's writer thread needs the GIL several times per commit
GRACE = 15  # seconds for open responses to end, once the server stops


def server(
    app: Starlette,
    serving: ServerLimits,
    *,
    host: str,
    port: int,
    tls: Tls | None = None,
) -> "WebServer":
    """A server that is not started yet: `serve()` runs until `should_exit` is set."""

    class Protocol(GuardedHttpProtocol):
        head_seconds, head_bytes = serving.head_seconds, serving.max_head_bytes
        max_headers = serving.max_headers
        send_seconds = serving.send_seconds

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        timeout_graceful_shutdown=GRACE,
        backlog=2048,
    )
    config.timeout_keep_alive = serving.idle_seconds  # pyright: ignore[reportAttributeAccessIssue]  # uvicorn types it as int, but only waits for it
    config.load()
    config.ssl = tls.context() if tls else None
    return WebServer(config, app, serving)


class WebServer(uvicorn.Server):
    """
    Ends waits and event streams first: uvicorn waits for its connections before it shuts down the application.

    A signal ends `serve()` and is not raised again afterwards: the caller of `serve()` closes what else is open.
    """

    def __init__(self, config: uvicorn.Config, app: Starlette, serving: ServerLimits) -> None:
        super().__init__(config)
        self._app, self._serving = app, serving

    @property
    def state(self) -> Any:
        return self._app.state.server

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
        """Exempt what is loaded by now from garbage collection, and start listening."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(GIL_SWITCH_INTERVAL)
        limit_arenas()
        keeper = MemoryKeeper(held=lambda: self.state.admission.body_bytes)
        self._keeper = asyncio.create_task(keeper.run())
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        limit, seconds = self._serving.max_connections, self._serving.head_seconds
        self.listeners = [
            Listener(
                listening,
                limit,
                self._protocol,
                tls=self.config.ssl,
                seconds=seconds,
                member=self.state.member,
            )
            for listening in sockets or [self.config.bind_socket()]
        ]
        for listener in self.listeners:
            listener.open(self.config.backlog)
        self.servers = self.listeners  # pyright: ignore[reportAttributeAccessIssue]  # uvicorn only closes them and waits for them
        self.started = True

    def _protocol(self) -> asyncio.Protocol:
        protocol: Any = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: Any = None) -> None:
        self._keeper.cancel()
        self._app.state.server.stop()
        await super().shutdown(sockets)
