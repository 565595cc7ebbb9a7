"""
A watchdog for an event loop that an async check blocks: no timer of the loop can end such a check.

SIGALRM interrupts the running code, and raises only inside a check (FEP-32). The watchdog needs the main thread, and is
off if the program uses SIGALRM itself. It does not reach a check that blocks in C code without handling signals: use
`isolate = True` for those.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

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
