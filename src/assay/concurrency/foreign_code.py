"""Runs foreign code that may hang: threads that can be abandoned (FEP-32). Describes the exceptions of foreign code."""

import asyncio
import contextvars
import math
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Any

from assay.errors import ForeignFault
from assay.ports.agents import AgentContext
from assay.protocol.agents import InvocationResult

ABANDONED = 64  # hanging threads in one process

_abandoned = 0
_lock = threading.Lock()


async def run_in_thread(call: Callable[[], Any]) -> Any:
    """
    Run synchronous foreign code in a thread.

    A thread cannot be killed. If the caller is cancelled, the thread is abandoned. Once too many abandoned threads
    hang, a call raises ForeignFault.
    """
    if _abandoned >= ABANDONED:
        raise ForeignFault(
            f"{_abandoned} agents hang in threads, which cannot be killed, so no further agent is started;"
            " run such an agent as a command, which can be killed"
        )
    thread = AbandonableThread(call)
    thread.start()
    try:
        result, surprise = await thread.outcome
    except asyncio.CancelledError:
        thread.abandon()
        raise
    if surprise is not None:
        raise surprise
    return result


class AbandonableThread(threading.Thread):
    """A thread for one call. After `abandon` it reports nothing."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(name="assay-agent", daemon=True)
        self._call, self._context = call, contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._is_done = False  # it has finished, or it was abandoned
        self.outcome: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()

    def run(self) -> None:
        try:
            outcome = self._context.run(self._call), None
        except BaseException as surprise:  # noqa: BLE001  # foreign code may raise anything, SystemExit too
            outcome = None, surprise
        if self._settle(-1):
            return
        try:
            self._loop.call_soon_threadsafe(self._report, outcome)
        except RuntimeError:  # the event loop is closed
            return

    def abandon(self) -> None:
        self._settle(+1)

    def _settle(self, change: int) -> bool:
        """Return whether the other side was first. An abandoned thread counts as lost until it finishes."""
        global _abandoned  # noqa: PLW0603  # the threads this process has lost
        with _lock:
            before, self._is_done = self._is_done, True
            if (change > 0) != before:
                _abandoned += change
        return before

    def _report(self, outcome: tuple[Any, BaseException | None]) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


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
    return tuple({*paths, str(Path(__file__).parent)})


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
