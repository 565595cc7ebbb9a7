"""Notifies waiting readers of new events: at once for commits of this process, by polling for other processes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from assay.concurrency.event_loop import run_guarded
from assay.errors import EnvironmentFailure, Refusal


class RunPosition(NamedTuple):
    """A run's number of events, and whether it is closed."""

    events: int
    closed: bool


INTERVAL = 0.2  # seconds between two looks


class RunNotifier:
    """
    Tells all waiters of a run about new events, with one query for all of them.

    `read_positions` returns the runs that exist. A waiter for any other run is released at once.
    """

    def __init__(self, read_positions: Callable[[Sequence[str]], Awaitable[dict[str, RunPosition]]]) -> None:
        self._read_positions = read_positions
        self._waiting: dict[str, dict[asyncio.Future[None], int]] = {}
        self._positions: dict[str, RunPosition | None] = {}  # of the runs waited for, what the last look said
        self._news = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    async def wait(self, run: str, after: int, timeout: float) -> bool:
        if run in self._positions and _has_news(self._positions[run], after):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if run not in self._waiting:
            self._waiting[run] = {}
            self._news.set()  # a new run: poll now
        self._waiting[run][future] = after
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._keep_looking())
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            self._forget(run, future)
        return True

    def notify(self, run: str, tally: RunPosition | None) -> None:
        """Report a run's position; None: there is no such run."""
        waiting = self._waiting.get(run)
        if waiting is None:
            return
        seen = self._positions.get(run)
        if tally and seen and tally.events < seen.events:
            return  # a look that began before a commit ended
        self._positions[run] = tally
        for future, after in waiting.items():
            if _has_news(tally, after) and not future.done():
                future.set_result(None)

    def fail(self, error: BaseException) -> None:
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(error)

    async def close(self) -> None:
        if self._watch:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    async def _keep_looking(self) -> None:
        while self._waiting:
            self._news.clear()
            runs = list(self._waiting)
            trouble = await run_guarded("bell", self._poll(runs), Refusal)
            if trouble is not None:  # the followers get it, and may follow again
                self.fail(
                    trouble
                    if isinstance(trouble, Refusal)
                    else EnvironmentFailure("the record could not be read")
                )
                return
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _poll(self, runs: Sequence[str]) -> None:
        tallies = await self._read_positions(runs)
        for run in runs:
            self.notify(run, tallies.get(run))

    def _forget(self, run: str, future: asyncio.Future[None]) -> None:
        self._waiting[run].pop(future)
        if not self._waiting[run]:
            del self._waiting[run]
            self._positions.pop(run, None)


def _has_news(tally: RunPosition | None, after: int) -> bool:
    return tally is None or tally.closed or tally.events > after + 1
