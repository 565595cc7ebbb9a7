"""
An alarm for a loop that stands still, because an async check blocks it and no timer of the loop can end that.

The alarm rings in the middle of whatever runs, and ends it only where that is a check (decision 32). It needs the
main thread and SIGALRM, and stays away where somebody else uses it; a check that blocks in C code without looking
at signals is not reached. `isolate = True` is for those.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

AGAIN = 1.0  # seconds until it rings again, for a check that catches everything
in_check: ContextVar[bool] = ContextVar("in_check", default=False)  # tasks that a check starts inherit it


class LoopBlocked(BaseException):
    """Raised inside a check that blocks. No Exception: a check that catches those and tries again would go on."""


class LoopWatchdog:
    """Rings when the loop was not heard of for so many seconds; `spare` is told first, for those who were in its way."""

    def __init__(self, seconds: float, spare: Callable[[], None]) -> None:
        self._seconds, self._spare = seconds, spare
        self._loop = asyncio.get_running_loop()
        self._beat: asyncio.TimerHandle | None = None
        self._usable = (
            hasattr(signal, "setitimer")
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        )

    def set(self) -> None:
        if self._usable and self._beat is None:
            signal.signal(signal.SIGALRM, self._ring)
            self._wind()

    def close(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._usable, self._beat = False, None

    def _wind(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds, AGAIN)
        self._beat = self._loop.call_later(min(self._seconds / 4, 1), self._wind)

    def _ring(self, *_: Any) -> None:
        if in_check.get():
            self._spare()
            raise LoopBlocked
