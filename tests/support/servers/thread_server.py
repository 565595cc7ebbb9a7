"""Servers in a thread of their own: on an event loop, or of one class of handlers."""

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from http.server import ThreadingHTTPServer

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


class HandlerServer:
    """`with` serves requests at `url`, on loopback, by this class of handlers."""

    def __init__(self, handler):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
