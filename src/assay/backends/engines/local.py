"""Units done in this process, several at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

Perform = Callable[[str, bytes], Awaitable[bytes]]


class LocalEngine:
    """`perform(work, unit)` on this event loop; `concurrency` units in flight, no unit drawn before it has a place."""

    def __init__(self, perform: Perform, concurrency: int) -> None:
        self._perform, self._concurrency = perform, concurrency

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        running: set[asyncio.Task[bytes]] = set()
        drawing: asyncio.Task[bytes | None] | None = None
        more = True
        try:
            while more or running:
                if more and drawing is None and len(running) < self._concurrency:
                    drawing = asyncio.create_task(_next(units))
                awaited = running | {drawing} if drawing else running
                done, _ = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if drawing in done:
                    unit, drawing = drawing.result(), None
                    if unit is None:
                        more = False
                    else:
                        running.add(asyncio.ensure_future(self._perform(work, unit)))
                for task in [one for one in running if one in done]:
                    running.discard(task)
                    yield task.result()
        finally:
            await _dropped(running | {drawing} if drawing else running)


async def _next(units: AsyncIterator[bytes]) -> bytes | None:
    """The next unit, which may wait for what an earlier one comes to."""
    return await anext(units, None)


async def _dropped(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
