"""The threads for the synchronous checks of a run."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from assay.concurrency.threads import Call, Threads, source
from assay.errors import TimeFault

TICK = 0.002  # seconds between two looks at the checks of a run


class CheckThreads:
    """
    One thread while the checks of a run are quick, and more while all are busy.

    A call must not raise. Answers are reported on the event loop, many at a time.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads, self._limit, self._seconds = Threads(1, limit, turns=False), limit, seconds
        self._calls: list[Call] = []
        self._busy: set[Call] = set()  # at the last tick
        self._answers: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._open = True

    def submit(self, call: Callable[[], Any], report: Callable[[Any], None]) -> None:
        self._calls.append(self._threads.submit(call, partial(self._deliver, report)))
        if self._timer is None:
            self._timer = self._loop.call_later(TICK, self._tick)

    def close(self) -> None:
        """Drop all calls. Those that run are abandoned."""
        self._open = False
        for call in reversed(self._calls):  # those that wait first: none of them gets a place
            self._threads.abandon(call)
        if self._timer is not None:
            self._timer.cancel()
        source(os.getpid()).end_idle()

    def _deliver(self, report: Callable[[Any], None], answer: Any, _: BaseException | None) -> None:
        self._answers.append((report, answer))
        if len(self._answers) == 1 and self._open:
            with suppress(RuntimeError):  # the loop is closed: there is no receiver
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        while self._answers and self._open:
            report, answer = self._answers.popleft()
            report(answer)

    def _tick(self) -> None:
        """Every tick while there are calls: abandon late ones, and start a thread for each that is still busy."""
        late = time.monotonic() - self._seconds
        for call in self._calls:
            if 0 < call.start_time < late:
                self._threads.abandon(call, TimeFault(f"no answer within {self._seconds:g} s"))
        self._calls = [call for call in self._calls if not call.is_over]
        busy = {call for call in self._calls if call.start_time}
        self._threads.grow(len(busy & self._busy), self._limit)
        self._busy = busy
        self._timer = self._loop.call_later(TICK, self._tick) if self._calls and self._open else None
