"""
The way from a coroutine to a thread.

    in_thread, off_loop, in_place   our own work that takes long: owners take turns
    run_foreign                     code of others, which may never return
    run_blocking                    our own work that waits: for a database, a disk, a browser
    CheckThreads                    synchronous checks of a run, with a deadline (`check_threads.py`)

Owners (usually tenants) take turns, one call at a time, and one owner has at most a share of the threads. A long call
calls `spend` now and then: after 50 ms it waits there while calls of other owners run. So the calls of one owner delay
another by at most that, however many wait. The threads share the GIL: more of them are not faster, and each keeps the
event loop waiting for up to the switch interval. A call must not hold the GIL for long: it reads a large value in
parts, and refuses one that has too many elements before it is read.

A thread cannot be killed. A call that passes its deadline, or whose caller is cancelled, is abandoned: another gets its
place, and it counts as lost until it returns (FEP-32). Our own work ends at its next turn once its caller is cancelled.
"""

import asyncio
import os
import sys
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, TypeVarTuple

import msgspec

from assay.concurrency.loop_budget import SECONDS, OverBudget, with_budget
from assay.concurrency.workers import batch
from assay.errors import ForeignFault

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Report = Callable[[Any, BaseException | None], None]
LARGE = 64 * 1024  # bytes as JSON; a larger value is worked on in a thread
THREADS, SHARE = 8, 1  # threads that work for all owners, and for one: more would only share the GIL
BEGUN = 2  # calls of an owner that take turns; a third begins when one of them has ended
WAITING = 56  # threads whose calls wait for their next turn
TURN = 0.05  # seconds that a call works before it lets other owners go first
PENALTY = 1.0  # seconds in which an owner whose call took too long on an event loop gets a thread at once
IDLE = 10.0  # seconds after which a thread without work ends
MAX_ABANDONED = 64  # calls of this process that hang
_OWNERS = 1_000  # whose penalty is remembered


class ThreadSource:
    """Runs functions in daemon threads. An idle thread is used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends a thread
        self._idle = 0
        self.abandoned = 0  # calls that hang

    def start(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._work.put(work)
                return
        threading.Thread(target=self._serve, args=(work,), daemon=True, name="assay-calls").start()

    def count(self, change: int) -> None:
        with self._lock:
            self.abandoned += change

    def end_idle(self) -> None:
        """End the idle threads, so that a process may fork."""
        with self._lock:
            for _ in range(self._idle):
                self._work.put(None)
            self._idle = 0

    def _serve(self, work: Callable[[], None] | None) -> None:
        while work is not None:
            work()
            with self._lock:
                self._idle += 1
            work = None  # an idle thread holds no request
            work = self._next()

    def _next(self) -> Callable[[], None] | None:
        while True:
            try:
                return self._work.get(timeout=IDLE)
            except Empty:
                with self._lock:
                    if self._idle:  # or another has counted on this thread
                        self._idle -= 1
                        return None


class CallerGone(BaseException):
    """
    Nobody waits for this call any more.

    Not an Exception, so that handlers for faults of foreign checks do not catch it.
    """


class Call:
    """A call, whose it is, and who gets its outcome. It runs in the context of its caller."""

    __slots__ = ("call", "context", "is_left", "is_over", "owner", "report", "start_time")

    def __init__(self, call: Callable[[], Any], report: Report) -> None:
        self.call, self.report, self.owner, self.context = call, report, batch.owner.get(), copy_context()
        self.start_time, self.is_over = 0.0, False
        self.is_left = False  # its caller is gone, so it ends at its next turn


class Threads:
    """
    At most `limit` threads that work, and at most `share` for one owner, whose other calls wait in its own queue.

    Others have calls that wait for their next turn. Without `turns`, a long call goes on.
    """

    def __init__(self, limit: int = THREADS, share: int = SHARE, *, turns: bool = True) -> None:
        self._source = source(os.getpid())
        self._limit, self._share, self._turns = limit, share, turns
        self._lock = threading.Lock()
        # an event is that of a call that goes on in its own thread
        self._queues: OrderedDict[str, deque[Call | threading.Event]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._busy = self._waiting = 0

    def submit(self, call: Callable[[], Any], report: Report) -> Call:
        """Run a call. Its thread reports its result and its exception, or who abandons it does."""
        queued = Call(call, report)
        with self._lock:
            self._queues.setdefault(queued.owner, deque()).append(queued)
            if self._busy == self._limit or self._running[queued.owner] >= self._share:
                return queued
            self._busy += 1
        self._source.start(self._serve)
        return queued

    def future(self, call: Callable[[], T]) -> "tuple[Call, Future[T]]":
        """The same with a future. It can be cancelled as long as the call has not begun."""
        future = Future[T]()

        def report(result: T, error: BaseException | None) -> None:
            if error is not None:
                future.set_exception(error)
            elif not future.cancelled():
                future.set_result(result)

        return self.submit(lambda: call() if future.set_running_or_notify_cancel() else None, report), future

    def abandon(self, call: Call, answer: Any = None) -> None:
        """End a call with this answer. If its thread is at work, another takes its place."""
        if self._settle(call, answer) and call.start_time:
            self._source.count(+1)
            self._source.start(lambda: self._serve(call.owner))

    def _settle(self, call: Call, result: Any, error: BaseException | None = None) -> bool:
        """Report an outcome; False: the call has one."""
        with self._lock:
            was_over, call.is_over = call.is_over, True
        if not was_over:
            call.report(result, error)
        return not was_over

    def grow(self, count: int, limit: int) -> None:
        """Raise the limit for calls that wait, by at most `count`."""
        with self._lock:
            count = min(count, limit - self._limit, sum(map(len, self._queues.values())))
            self._limit += count
            self._busy += count
        for _ in range(count):
            self._source.start(self._serve)

    def _serve(self, owner: str | None = None) -> None:
        """
        Run calls, each of the owner that has waited longest for a turn, until there are none for this thread.

        `owner` is that of the call before.
        """
        while (turn := self._next(owner)) is not None:
            owner, queued = turn
            if isinstance(queued, threading.Event):
                queued.set()  # its thread works instead of this one
                return
            if queued.start_time and (queued.is_over or not self._perform(queued)):
                self._source.count(-1)  # it was abandoned after it was taken: another has this place
                return

    def _perform(self, call: Call) -> bool:
        """Run a call; False: it was abandoned meanwhile."""
        result = error = None
        try:
            if self._turns:
                result = call.context.run(with_budget, TURN, call.call, partial(self._take_turn, call))
            else:
                result = call.context.run(call.call)
        except StopIteration as surprise:  # no future takes it
            error = RuntimeError("coroutine raised StopIteration")
            error.__cause__ = surprise
        except BaseException as surprise:  # noqa: BLE001  # it is raised where the call was submitted
            error = surprise
        try:
            return self._settle(call, result, error)
        finally:
            del call, error  # the traceback holds this frame

    def _take_turn(self, call: Call) -> None:
        """Give the place of this thread to another call that waits. It returns at the next turn of its own call."""
        if not call.is_left:
            self._wait_for_turn(call.owner)
        if call.is_left:
            raise CallerGone

    def _wait_for_turn(self, owner: str) -> None:
        with self._lock:
            if self._waiting == WAITING or not any(
                one == owner or self._running[one] < self._share for one in self._queues
            ):
                return
            turn, queue = threading.Event(), self._queues.setdefault(owner, deque())
            begun = sum(isinstance(one, threading.Event) for one in queue)
            queue.insert(max(begun, BEGUN - 1), turn)  # after those that have begun, or after one new call
            self._queues.move_to_end(owner)
            self._running[owner] -= 1
            self._waiting += 1
        self._source.start(self._serve)
        turn.wait()
        with self._lock:
            self._waiting -= 1

    def _next(self, before: str | None) -> tuple[str, Call | threading.Event] | None:
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
            if isinstance(queued, Call) and not queued.is_over:
                queued.start_time = time.monotonic()
            if queue:
                self._queues.move_to_end(owner)
            else:
                del self._queues[owner]
            self._running[owner] += 1
            return owner, queued


@cache
def source(process: int) -> ThreadSource:
    """The threads of this process. A process that was forked has its own."""
    return ThreadSource()


@cache
def _threads(process: int) -> Threads:
    return Threads()


@cache
def _unlimited(process: int) -> Threads:
    return Threads(sys.maxsize, sys.maxsize, turns=False)


def submit(call: Callable[[], T]) -> "Future[T]":
    """Run `call` in a thread of its owner."""
    return _threads(os.getpid()).future(call)[1]


async def in_thread(call: Callable[[], T]) -> T:
    """The result of `call`, from a thread of its owner. If the caller is cancelled, it ends where it calls `spend`."""
    running, future = _threads(os.getpid()).future(call)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        running.is_left = True
        raise


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


def unlimited() -> Threads:
    """Threads for calls that wait, each at once."""
    return _unlimited(os.getpid())


async def run_blocking(call: Callable[[*Ts], T], *args: *Ts) -> T:
    """The result of a call that waits, from a thread at once. It is abandoned if the caller is cancelled."""
    threads = unlimited()
    running, future = threads.future(partial(call, *args))
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        threads.abandon(running)
        raise


async def run_foreign(call: Callable[[], T]) -> T:
    """The same for foreign code. Once too many abandoned calls hang, it raises ForeignFault."""
    if (full := too_many_abandoned()) is not None:
        raise full
    return await run_blocking(call)


def too_many_abandoned() -> ForeignFault | None:
    """The fault if too many calls hang; None: another may start."""
    hanging = source(os.getpid()).abandoned
    if hanging < MAX_ABANDONED:
        return None
    return ForeignFault(
        f"{hanging} calls hang in threads, which cannot be killed, so no more are started; set `isolate = True` on a"
        " check, or run an agent as a command: both can be killed"
    )
