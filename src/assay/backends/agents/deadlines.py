"""An end for every invocation: in time, by force, and without the other invocations noticing (decision 32)."""

import asyncio
import contextvars
import math
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from assay.errors import ForeignFault
from assay.ports.agents import AgentContext
from assay.protocol.agents import InvocationResult

ABANDONED = 64  # threads that hang, in one process
MOMENT = 0.5  # seconds to tidy up after a deadline

_abandoned = 0
_lock = threading.Lock()


async def with_deadline(
    scene: AgentContext, seconds: float | None, work: Awaitable[InvocationResult]
) -> InvocationResult:
    """What comes of it, or `failed` when its time is over; one that does not let itself be cancelled is waited for no longer."""
    left = min(scene.left, math.inf if seconds is None else seconds)
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
            task.exception()  # whatever it still said, nobody waits for it


async def run_in_thread(work: Callable[[], Any]) -> Any:
    """
    What synchronous foreign code comes to. A thread cannot be killed: when nobody waits any more it is abandoned, and
    once too many hang no further one is started.
    """
    if _abandoned >= ABANDONED:
        raise ForeignFault(
            f"{_abandoned} agents still hang in threads that cannot be killed, and no more are started;"
            " run such an agent as a command, which can be"
        )
    hand = AbandonableThread(work)
    hand.start()
    try:
        result, surprise = await hand.ended
    except asyncio.CancelledError:
        hand.abandon()
        raise
    if surprise is not None:
        raise surprise
    return result


class AbandonableThread(threading.Thread):
    """A thread for one piece of work. Told to leave, it reports nothing more."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(name="assay-agent", daemon=True)
        self._work, self._context = work, contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._settled = False  # it is done, or it was abandoned
        self.ended: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()

    def run(self) -> None:
        try:
            outcome = self._context.run(self._work), None
        except BaseException as surprise:  # noqa: BLE001  # an agent is foreign code: SystemExit too
            outcome = None, surprise
        if self._settle(-1):
            return
        try:
            self._loop.call_soon_threadsafe(self._report, outcome)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            return

    def abandon(self) -> None:
        self._settle(+1)

    def _settle(self, change: int) -> bool:
        """Whether the other side had settled before. Who comes first decides if the thread counts as lost for a while."""
        global _abandoned  # noqa: PLW0603  # a count of what this process has lost
        with _lock:
            before, self._settled = self._settled, True
            if (change > 0) != before:
                _abandoned += change
        return before

    def _report(self, outcome: tuple[Any, BaseException | None]) -> None:
        if not self.ended.done():
            self.ended.set_result(outcome)


def detach_task(task: "asyncio.Future[Any]") -> None:
    """So that closing the loop does not wait for it: what asyncio documents for tasks that are not its own."""
    if isinstance(task, asyncio.Task):
        asyncio.tasks._unregister_task(task)  # pyright: ignore[reportPrivateUsage, reportUnknownArgumentType]
        task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
