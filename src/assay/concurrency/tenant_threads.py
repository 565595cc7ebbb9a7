"""
The way from an event loop to a thread: `off_loop` by size, `in_place` by time, `in_thread` always.

Owners (usually tenants) take turns, one call at a time, and one owner has at most a share of the threads. A long call
calls `spend` now and then: after 50 ms it waits there while calls of other owners run. So the calls of one owner delay
another by at most that, however many wait. The threads share the GIL: more of them are not faster, and each keeps the
event loop waiting for up to the switch interval. A call must not hold the GIL for long: it reads a large value in
parts, and refuses one that has too many elements before it is read.
"""

import asyncio
import os
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import cache
from typing import Any, TypeVar

import msgspec

from assay.concurrency.loop_budget import SECONDS, OverBudget, with_budget
from assay.concurrency.workers import batch

T = TypeVar("T")
LARGE = 64 * 1024  # bytes as JSON; a larger value is worked on in a thread
THREADS, SHARE = 8, 2  # threads that work for all owners, and for one
WAITING = 56  # threads whose calls wait for their next turn
TURN = 0.05  # seconds that a call works before it lets other owners go first
PENALTY = 1.0  # seconds in which an owner whose call took too long on an event loop gets a thread at once
_OWNERS = 1_000  # whose penalty is remembered
# without a future, a call that goes on in its own thread
_QueuedCall = tuple["Future[Any] | None", Context, Callable[[], Any]]


class OwnerThreads:
    """
    A thread pool in which an owner has at most `share` threads. Its other calls wait in its own queue.

    Of its threads, `threads` work; the others have calls that wait for their next turn.
    """

    def __init__(self, threads: int = THREADS, share: int = SHARE) -> None:
        self._executor = ThreadPoolExecutor(threads + WAITING, thread_name_prefix="assay-calls")
        self._threads, self._share = threads, share
        self._lock = threading.Lock()
        self._queues: OrderedDict[str, deque[_QueuedCall]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._busy = self._waiting = 0

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Run `call` in a thread, in the context of the caller and as its owner."""
        owner, future = batch.owner.get(), Future[T]()
        with self._lock:
            self._queues.setdefault(owner, deque()).append((future, copy_context(), call))
            if self._busy == self._threads or self._running[owner] >= self._share:
                return future
            self._busy += 1
        self._executor.submit(self._serve)
        return future

    def _serve(self) -> None:
        """Run calls, each of the owner that has waited longest for a turn, until there are none for this thread."""
        owner: str | None = None
        while (turn := self._next(owner)) is not None:
            owner, (future, context, call) = turn
            if future is None:
                call()  # its thread works instead of this one
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(context.run(self._run, owner, call))
            except BaseException as surprise:  # noqa: BLE001  # it is raised where the call was submitted
                future.set_exception(surprise)
            del turn, future, context, call  # an idle thread holds no request

    def _run(self, owner: str, call: Callable[[], T]) -> T:
        return with_budget(TURN, call, lambda: self._take_turn(owner))

    def _take_turn(self, owner: str) -> None:
        """Give the place of this thread to another owner whose call waits. It returns at this owner's next turn."""
        with self._lock:
            if self._waiting == WAITING or not any(
                self._running[one] < self._share for one in self._queues if one != owner
            ):
                return
            turn, queue = threading.Event(), self._queues.setdefault(owner, deque())
            begun = sum(future is None for future, _, _ in queue)  # they go on before a new call starts
            queue.insert(begun, (None, copy_context(), turn.set))
            self._queues.move_to_end(owner)
            self._running[owner] -= 1
            self._waiting += 1
        self._executor.submit(self._serve)
        turn.wait()
        with self._lock:
            self._waiting -= 1

    def _next(self, before: str | None) -> tuple[str, _QueuedCall] | None:
        """The next call and its owner; `before` is the owner of the call that this thread has ended."""
        with self._lock:
            if before is not None:
                self._running[before] -= 1
                if not self._running[before]:
                    del self._running[before]
            owner = next((one for one in self._queues if self._running[one] < self._share), None)
            if owner is None:
                self._busy -= 1
                return None
            queue = self._queues[owner]
            queued = queue.popleft()
            if queue:
                self._queues.move_to_end(owner)
            else:
                del self._queues[owner]
            self._running[owner] += 1
            return owner, queued


@cache
def _threads(process: int) -> OwnerThreads:
    """The threads of this process. A process that was forked has its own."""
    return OwnerThreads()


def submit(call: Callable[[], T]) -> "Future[T]":
    """Run `call` in a thread of its owner."""
    return _threads(os.getpid()).submit(call)


async def in_thread(call: Callable[[], T]) -> T:
    """The result of `call`, from a thread of its owner."""
    return await asyncio.wrap_future(submit(call))


async def off_loop(size: int, call: Callable[[], T]) -> T:
    """The result of `call` on a value of this many bytes: of a large one, from a thread."""
    return call() if size <= LARGE else await in_thread(call)


async def in_place(call: Callable[[], T], size: int = 0, seconds: float = SECONDS) -> T:
    """
    The result of `call`, which reads a request of `size` bytes: here, or from a thread if it is large or takes too
    long.

    Past `seconds` the call is given up where it calls `spend`, and made again in a thread; so it must change nothing
    before. For the next second the owner's calls go to a thread at once: otherwise many requests would each take those
    seconds here.
    """
    owner, now = batch.owner.get(), time.monotonic()
    if size > LARGE or _penalties.get(owner, now) > now:
        return await in_thread(call)
    try:
        return with_budget(seconds, call)
    except OverBudget:
        if len(_penalties) >= _OWNERS:
            _penalties.clear()
        _penalties[owner] = time.monotonic() + PENALTY
        return await in_thread(call)


_penalties: dict[str, float] = {}


def json_size(value: Any) -> int:
    """How many bytes a value has as JSON; a value that is not JSON counts as large."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return LARGE + 1
