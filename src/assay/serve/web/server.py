"""The HTTP server: uvicorn, with limits on connections and what is sent over them, and TLS where there is a certificate."""

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

from assay.serve.web.http_protocol import GuardedHttpProtocol
from assay.serve.web.limits import ServerLimits
from assay.serve.web.listener import Listener
from assay.serve.web.tls import Tls

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GC_THRESHOLDS = 20_000, 20, 50  # a request makes some thousand objects, and none of them is part of a circle
GIL_SWITCH_INTERVAL = 0.001  # seconds after which a thread that wants Python gets it: who writes the record waits for it many times a commit
GRACE = 15  # seconds that answers may take to end, once the server stops


def server(
    app: Starlette,
    serving: ServerLimits,
    *,
    host: str,
    port: int,
    tls: Tls | None = None,
) -> "WebServer":
    """Not started yet: `serve()` runs until `should_exit`."""

    class Protocol(GuardedHttpProtocol):
        head_seconds, head_bytes = serving.head_seconds, serving.max_head_bytes
        most_headers = serving.max_headers
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
    config.timeout_keep_alive = serving.idle_seconds  # pyright: ignore[reportAttributeAccessIssue]  # only waited for
    config.load()
    config.ssl = tls.context() if tls else None
    return WebServer(config, app, serving)


class WebServer(uvicorn.Server):
    """
    Those who wait or follow are sent home first: uvicorn waits for its connections before it says that it stops.

    A signal ends `serve()` and is not raised again afterwards: what else is to be closed is closed by whoever called it.
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
        """What is loaded by now stays: the collector of garbage need not look at it again and again."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(GIL_SWITCH_INTERVAL)
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        most, seconds = self._serving.max_connections, self._serving.head_seconds
        self.entrances = [
            Listener(heard, most, self._connected, tls=self.config.ssl, seconds=seconds)
            for heard in sockets or [self.config.bind_socket()]
        ]
        for entrance in self.entrances:
            entrance.open(self.config.backlog)
        self.servers = self.entrances  # pyright: ignore[reportAttributeAccessIssue]  # only closed, and waited for
        self.started = True

    def _connected(self) -> asyncio.Protocol:
        known: Any = self.config.http_protocol_class
        return known(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: Any = None) -> None:
        self._app.state.server.stop()
        await super().shutdown(sockets)
