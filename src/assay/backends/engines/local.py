"""Runs units in this process, several at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

Perform = Callable[[str, bytes], Awaitable[bytes]]


class LocalEngine:
    """Runs `perform(work, unit)` on this event loop, with `concurrency` units in flight. A unit is drawn only when it can start."""

    def __init__(self, perform: Perform, concurrency: int) -> None:
        self._perform, self._concurrency = perform, concurrency

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        running: set[asyncio.Task[bytes]] = set()
        ended: deque[asyncio.Task[Any]] = deque()
        news = asyncio.Event()
        drawing: asyncio.Task[bytes | None] | None = None
        more = True

        def end(task: asyncio.Task[Any]) -> None:
            ended.append(task)
            news.set()

        try:
            while more or running:
                if more and drawing is None and len(running) < self._concurrency:
                    drawing = asyncio.create_task(_next(units))
                    drawing.add_done_callback(end)
                await news.wait()
                news.clear()
                while ended:
                    task = ended.popleft()
                    if drawing is None or task is not drawing:
                        running.discard(task)
                        yield task.result()
                        continue
                    unit, drawing = drawing.result(), None
                    if unit is None:
                        more = False
                    else:
                        begun = asyncio.ensure_future(self._perform(work, unit))
                        running.add(begun)
                        begun.add_done_callback(end)
        finally:
            await _cancel(running | {drawing} if drawing else running)


async def _next(units: AsyncIterator[bytes]) -> bytes | None:
    """The next unit. It may wait for the result of an earlier one."""
    return await anext(units, None)


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
