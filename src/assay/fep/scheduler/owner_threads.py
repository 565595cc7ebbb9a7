"""Threads for checks that may take long. Each owner (tenant) has a share, so that its checks do not delay those of others."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import lru_cache
from typing import Any, TypeVar

from assay.checks.arguments import BoundCheck
from assay.checks.loop_budget import SECONDS, OverBudget, with_budget
from assay.errors import MalformedPath
from assay.workers import pool

INLINE_CONTEXT_BYTES = (
    32 * 1024
)  # limit of the bytes of a context whose checks are prepared on the event loop
T = TypeVar("T")
THREADS, THREADS_PER_OWNER = (
    8,
    2,
)  # of all owners, and of one owner: threads share the GIL, so more of them are not faster
_QueuedCall = tuple["Future[Any]", Context, Callable[[], Any]]


class OwnerThreadPool:
    """A thread pool in which an owner has at most EACH threads. Its other calls wait in its own queue."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="assay-checks")
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, deque[_QueuedCall]] = {}

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Call `work` in a thread, in the context of the caller."""
        owner, future = pool.owner.get(), Future[T]()
        with self._lock:
            self._waiting.setdefault(owner, deque()).append((future, copy_context(), call))
            if self._busy[owner] >= THREADS_PER_OWNER:
                return future
            self._busy[owner] += 1
        self._threads.submit(self._run, owner)
        return future

    def _run(self, owner: str) -> None:
        """Run the queued calls of an owner until there are none."""
        while (queued := self._next(owner)) is not None:
            future, context, work = queued
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(context.run(work))
            except BaseException as surprise:  # noqa: BLE001  # carried over to the caller
                future.set_exception(surprise)

    def _next(self, owner: str) -> _QueuedCall | None:
        with self._lock:
            waiting = self._waiting.get(owner)
            if waiting:
                return waiting.popleft()
            self._waiting.pop(owner, None)
            self._busy[owner] -= 1
            if not self._busy[owner]:
                del self._busy[owner]
            return None


@lru_cache(maxsize=1)
def owner_threads() -> OwnerThreadPool:
    """The pool of this process."""
    return OwnerThreadPool()


async def in_place(call: Callable[[], T], seconds: float = SECONDS) -> T:
    """Call `work`, which reads checks, in place. If it takes longer than `seconds`, call it again in a thread of the owner."""
    try:
        return with_budget(seconds, call)
    except OverBudget:
        return await in_share(call)


async def in_share(call: Callable[[], T]) -> T:
    """Call `work` in a thread of the owner and return its result."""
    return await asyncio.wrap_future(owner_threads().submit(call))


def resolves_inline(bound: BoundCheck, size: int) -> bool:
    """Whether resolving the arguments of a check is quick: a small context of `size` bytes and no path that searches."""
    return size <= INLINE_CONTEXT_BYTES and all(
        isinstance(path.query, MalformedPath) or path.query.singular for path in bound.paths
    )
