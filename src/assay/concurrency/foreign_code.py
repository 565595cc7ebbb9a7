"""Foreign code on an event loop: its deadlines (FEP-32), its exceptions, and a watchdog for code that blocks."""

import asyncio
import math
import signal
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Any

from assay.ports.agents import AgentContext
from assay.protocol.agents import InvocationResult


def detach_task(task: "asyncio.Future[Any]") -> None:
    """
    Unregister a task, so that closing the event loop does not wait for it; asyncio documents this for third-party
    tasks.
    """
    if isinstance(task, asyncio.Task):
        asyncio.tasks._unregister_task(task)  # pyright: ignore[reportPrivateUsage, reportUnknownArgumentType]
        task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]


def exception_text(surprise: BaseException) -> str:
    """`KeyError: 'id' (shop.py:12 in answer)`: the exception, and the last line of foreign code that raised it."""
    try:
        text = f"{type(surprise).__name__}: {surprise}"
    except Exception as another:  # noqa: BLE001  # its message is foreign code too
        text = f"{type(surprise).__name__} (no message: its text raised {type(another).__name__})"
    return f"{text}{_location(surprise)}"


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of the standard library, of installed packages and of assay."""
    import sysconfig  # deferred import: only an exception of foreign code needs it

    paths = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
    return tuple({*paths, str(Path(__file__).parents[1])})


def _location(surprise: BaseException) -> str:
    """
    The innermost frame that is not of a library or of assay. A path outside of the working directory is only its name.
    """
    frames = [
        (frame.f_code, line)
        for frame, line in walk_tb(surprise.__traceback__)
        if not frame.f_code.co_filename.startswith(("<", *_libraries()))
    ]
    if not frames:
        return ""
    code, line = frames[-1]
    path, folder = Path(code.co_filename), Path.cwd()
    name = path.relative_to(folder) if path.is_relative_to(folder) else path.name
    return f" ({name}:{line} in {code.co_qualname})"


# Deadlines of invocations (FEP-32).

MOMENT = 0.5  # seconds to clean up after a deadline


async def with_deadline(
    context: AgentContext, seconds: float | None, work: Awaitable[InvocationResult]
) -> InvocationResult:
    """
    Await an invocation; at its deadline the result is `failed`. A task that ignores its cancellation is left behind.
    """
    left = min(context.remaining_seconds, math.inf if seconds is None else seconds)
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait([task], timeout=None if left == math.inf else max(0.0, left))
        if done:
            return task.result()
        task.cancel()
        await asyncio.wait([task], timeout=MOMENT)
        return InvocationResult(outcome="failed", error=f"no result within {left:.3g} s")
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=MOMENT)
        if not task.done():
            detach_task(task)
        elif not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it


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
        self._on_blocked = _ignore  # its owner has this watchdog: a cycle

    def _rearm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds, REPEAT_SECONDS)
        self._timer = self._loop.call_later(min(self._seconds / 4, 1), self._rearm)

    def _on_alarm(self, *_: Any) -> None:
        if in_check.get():
            self._on_blocked()
            raise LoopBlocked


def _ignore() -> None: ...
