"""
Threads for synchronous checks that may block (decision 32).

One thread while checks are quick; another whenever all are stuck and something waits; a thread that passes the
deadline is abandoned, since it cannot be killed, and their number is bounded.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from assay.errors import ForeignFault, TimeFault

TICK = 0.002
ABANDONED = 64  # in one process, all crews together

_abandoned = 0
_lock = threading.Lock()

Work = Callable[[], Any]
Report = Callable[[Any], None]


class PoolTask:
    __slots__ = ("began", "report", "timed", "work")

    def __init__(self, work: Work, report: Report, *, timed: bool) -> None:
        self.work, self.report, self.timed, self.began = work, report, timed, 0.0


class PoolThread(threading.Thread):
    """One thread. What it works on is visible from outside; told to leave, it reports nothing more."""

    def __init__(self, crew: "ElasticThreadPool") -> None:
        super().__init__(daemon=True, name="assay-check")
        self.crew, self.job, self.left = crew, None, False
        self.job: PoolTask | None
        self.seen: PoolTask | None = None  # what it worked on at the last look

    def run(self) -> None:
        global _abandoned  # noqa: PLW0603  # a count of what this process has lost
        while True:
            job = self.crew.next(self)
            if job is None:
                return
            answer = job.work()
            if not self.crew.finished(self, job, answer):
                with _lock:
                    _abandoned -= 1
                return


class ElasticThreadPool:
    """Work goes in from an event loop and is reported back there; `work` must not raise."""

    def __init__(self, most: int, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._most, self._seconds = most, seconds
        self._waiting: deque[PoolTask] = deque()
        self._done: deque[tuple[PoolTask, Any]] = deque()
        self._changed = threading.Condition()
        self._hands: list[PoolThread] = []
        self._idle = 0
        self._open = True
        self._watch: asyncio.TimerHandle | None = None

    def submit(self, work: Work, report: Report, *, timed: bool = True) -> None:
        """`timed` is False for work that keeps to the deadline itself."""
        with self._changed:
            self._waiting.append(PoolTask(work, report, timed=timed))
            if self._idle:
                self._changed.notify()
            elif not self._hands:
                self._hire()
        if self._watch is None:
            self._watch = self._loop.call_later(TICK, self._look)

    def close(self) -> None:
        """No more work: idle threads end now, busy ones when they are done."""
        with self._changed:
            self._open = False
            self._waiting.clear()
            self._changed.notify_all()
        if self._watch is not None:
            self._watch.cancel()

    def next(self, hand: PoolThread) -> PoolTask | None:
        with self._changed:
            self._idle += 1
            while not self._waiting and self._open and not hand.left:
                self._changed.wait()
            self._idle -= 1
            if not self._waiting:
                return None
            job = self._waiting.popleft()
            job.began, hand.job = time.monotonic(), job
            return job

    def finished(self, hand: PoolThread, job: PoolTask, answer: Any) -> bool:
        """Whether anybody still wants to know."""
        with self._changed:
            hand.job = None
            if hand.left:
                return False
            first = not self._done
            self._done.append((job, answer))
        if first and self._open:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed: nobody is left to be told
                return True
        return True

    def _hire(self) -> None:
        hand = PoolThread(self)
        self._hands.append(hand)
        hand.start()

    def _drain(self) -> None:
        while self._done:
            job, answer = self._done.popleft()
            job.report(answer)

    def _look(self) -> None:
        """Every tick while there is work: end what is late, and hire where all are stuck."""
        late: list[PoolTask] = []
        now = time.monotonic()
        with self._changed:
            for hand in list(self._hands):
                if hand.job is not None and hand.job.timed and now - hand.job.began > self._seconds:
                    late.append(hand.job)
                    self._abandon(hand)
            stuck = sum(hand.job is not None and hand.job is hand.seen for hand in self._hands)
            for hand in self._hands:
                hand.seen = hand.job
            if self._waiting and not self._idle:
                room = min(len(self._waiting), self._most - len(self._hands), max(stuck, not self._hands))
                for _ in range(room):
                    self._hire()
            busy = bool(self._waiting) or any(hand.job is not None for hand in self._hands)
        for job in late:
            job.report(TimeFault(f"no answer within {self._seconds:g} s"))
        self._watch = self._loop.call_later(TICK, self._look) if busy and self._open else None

    def _abandon(self, hand: PoolThread) -> None:
        global _abandoned  # noqa: PLW0603
        hand.left = True
        self._hands.remove(hand)
        with _lock:
            _abandoned += 1


def too_many_abandoned() -> ForeignFault | None:
    """Why no further thread is started, once too many hang."""
    if _abandoned < ABANDONED:
        return None
    return ForeignFault(
        f"{_abandoned} checks still hang in threads that cannot be killed, and no more are started;"
        " set `isolate = True` on a check that hangs"
    )
