"""A server on an event loop in a thread of its own."""

import asyncio
import contextlib
import threading
from concurrent.futures import Future

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
