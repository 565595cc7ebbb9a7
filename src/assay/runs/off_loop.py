"""Work on large values: in a thread, while the event loop serves other requests."""

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import msgspec

from assay.workers import pool

T = TypeVar("T")
LARGE = 64 * 1024  # bytes as JSON


async def off_loop(size: int, call: Callable[[], T]) -> T:
    """The result of `call` on a value of this many bytes: of a large one, from a thread. Tenants take turns."""
    if size <= LARGE:
        return call()
    return await asyncio.wrap_future(_thread(os.getpid()).submit(pool.owner.get(), call))


def json_size(value: Any) -> int:
    """How many bytes a value has as JSON; a value that is not JSON counts as large."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return LARGE + 1


class FairThread:
    """One thread that does the work of several owners in turn. More threads would keep the event loop from the GIL."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="off-loop")
        self._lock = threading.Lock()
        self._queues: dict[str, deque[Callable[[], None]]] = {}

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        context = contextvars.copy_context()

        def perform() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(context.run(work))
            except BaseException as fault:  # noqa: BLE001  # it is raised where the work was submitted
                future.set_exception(fault)

        with self._lock:
            self._queues.setdefault(owner, deque()).append(perform)
        self._executor.submit(self._next)
        return future

    def _next(self) -> None:
        """Do one piece of work, of the owner that has waited longest for a turn."""
        with self._lock:
            owner = next(iter(self._queues))
            queue = self._queues.pop(owner)
            perform = queue.popleft()
            if queue:
                self._queues[owner] = queue
        perform()


@cache
def _thread(process: int) -> FairThread:
    """The thread of this process. A process that was forked has its own."""
    return FairThread()
