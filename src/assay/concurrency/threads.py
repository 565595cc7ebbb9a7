"""
Threads for synchronous checks that may block (FEP-32).

The pool has one thread while checks are quick, and starts another whenever all are busy and a call waits. A thread that
passes the deadline cannot be killed and is abandoned; the number of abandoned threads is bounded.
"""

import asyncio
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from assay.errors import ForeignFault, TimeFault

TICK_SECONDS = 0.002
MAX_ABANDONED = 64  # abandoned threads of one process, all pools together

_abandoned = 0
_lock = threading.Lock()

Call = Callable[[], Any]
Report = Callable[[Any], None]


class PoolTask:
    __slots__ = ("call", "report", "start_time", "timed")

    def __init__(self, call: Call, report: Report, *, timed: bool) -> None:
        self.call, self.report, self.timed, self.start_time = call, report, timed, 0.0


class PoolThread(threading.Thread):
    """A thread of the pool. After it was abandoned, it delivers nothing more."""

    def __init__(self, pool: "ElasticThreadPool") -> None:
        super().__init__(daemon=True, name="assay-check")
        self.pool, self.task, self.abandoned = pool, None, False
        self.task: PoolTask | None
        self.last_task: PoolTask | None = None  # its task at the last tick

    def run(self) -> None:
        global _abandoned  # noqa: PLW0603  # a count of what this process has lost
        while True:
            task = self.pool.next(self)
            if task is None:
                return
            answer = task.call()
            if not self.pool.deliver(self, task, answer):
                with _lock:
                    _abandoned -= 1
                return


class ElasticThreadPool:
    """Runs calls of an event loop and reports their answers there. A call must not raise."""

    def __init__(self, limit: int, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit, self._seconds = limit, seconds
        self._waiting: deque[PoolTask] = deque()
        self._answers: deque[tuple[PoolTask, Any]] = deque()
        self._changed = threading.Condition()
        self._threads: list[PoolThread] = []
        self._idle = 0
        self._open = True
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, call: Call, report: Report, *, timed: bool = True) -> None:
        """`timed` is False for calls that keep the deadline themselves."""
        with self._changed:
            self._waiting.append(PoolTask(call, report, timed=timed))
            if self._idle:
                self._changed.notify()
            elif not self._threads:
                self._spawn()
        if self._timer is None:
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        """Accept no more calls. Idle threads end now, busy ones after their call."""
        with self._changed:
            self._open = False
            self._waiting.clear()
            self._changed.notify_all()
        if self._timer is not None:
            self._timer.cancel()

    def next(self, thread: PoolThread) -> PoolTask | None:
        with self._changed:
            self._idle += 1
            while not self._waiting and self._open and not thread.abandoned:
                self._changed.wait()
            self._idle -= 1
            if not self._waiting:
                return None
            task = self._waiting.popleft()
            task.start_time, thread.task = time.monotonic(), task
            return task

    def deliver(self, thread: PoolThread, task: PoolTask, answer: Any) -> bool:
        """Report an answer. Returns False if the thread was abandoned."""
        with self._changed:
            thread.task = None
            if thread.abandoned:
                return False
            first = not self._answers
            self._answers.append((task, answer))
        if first and self._open:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed: there is no receiver
                return True
        return True

    def _spawn(self) -> None:
        thread = PoolThread(self)
        self._threads.append(thread)
        thread.start()

    def _drain(self) -> None:
        while self._answers:
            task, answer = self._answers.popleft()
            task.report(answer)

    def _tick(self) -> None:
        """Every tick while there are calls: abandon late threads, and start new ones if all are busy."""
        late: list[PoolTask] = []
        now = time.monotonic()
        with self._changed:
            for thread in list(self._threads):
                if (
                    thread.task is not None
                    and thread.task.timed
                    and now - thread.task.start_time > self._seconds
                ):
                    late.append(thread.task)
                    self._abandon(thread)
            stuck = sum(
                thread.task is not None and thread.task is thread.last_task for thread in self._threads
            )
            for thread in self._threads:
                thread.last_task = thread.task
            if self._waiting and not self._idle:
                new_threads = min(
                    len(self._waiting), self._limit - len(self._threads), max(stuck, not self._threads)
                )
                for _ in range(new_threads):
                    self._spawn()
            busy = bool(self._waiting) or any(thread.task is not None for thread in self._threads)
        for task in late:
            task.report(TimeFault(f"no answer within {self._seconds:g} s"))
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick) if busy and self._open else None

    def _abandon(self, thread: PoolThread) -> None:
        global _abandoned  # noqa: PLW0603
        thread.abandoned = True
        self._threads.remove(thread)
        with _lock:
            _abandoned += 1


def too_many_abandoned() -> ForeignFault | None:
    """The fault if too many threads hang; None: another may start."""
    if _abandoned < MAX_ABANDONED:
        return None
    return ForeignFault(
        f"{_abandoned} checks still hang in threads that cannot be killed, so no more are started;"
        " set `isolate = True` on a check that hangs"
    )


# A watchdog for an event loop that an async check blocks: no timer of the loop can end such a check.

REPEAT_SECONDS = 1.0  # seconds between two signals, for a check that catches everything
in_check: ContextVar[bool] = ContextVar("in_check", default=False)  # tasks that a check starts inherit it


class LoopBlocked(BaseException):
    """Raised inside a check that blocks. Not an Exception, so that `except Exception` in a check does not catch it."""


class LoopWatchdog:
    """
    Interrupts a check when the loop has not run for `seconds`. `on_blocked` is called first, to extend other deadlines.
    """

    def __init__(self, seconds: float, on_blocked: Callable[[], None]) -> None:
        self._seconds, self._on_blocked = seconds, on_blocked
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._usable = (
            hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        )

    def start(self) -> None:
        if self._usable and self._timer is None:
            signal.signal(signal.SIGALRM, self._on_alarm)
            self._rearm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._usable, self._timer = False, None

    def _rearm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds, REPEAT_SECONDS)
        self._timer = self._loop.call_later(min(self._seconds / 4, 1), self._rearm)

    def _on_alarm(self, *_: Any) -> None:
        if in_check.get():
            self._on_blocked()
            raise LoopBlocked
