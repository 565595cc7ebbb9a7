"""Units done in this process, several at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

Perform = Callable[[str, bytes], Awaitable[bytes]]


class LocalEngine:
    """`perform(work, unit)` on this event loop; `concurrency` units in flight, no unit drawn before it has a place."""

    def __init__(self, perform: Perform, concurrency: int) -> None:
        self._perform, self._concurrency = perform, concurrency

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        running: set[asyncio.Task[bytes]] = set()
        more = True
        try:
            while more or running:
                while more and len(running) < self._concurrency:
                    unit = await anext(units, None)
                    if unit is None:
                        more = False
                    else:
                        running.add(asyncio.ensure_future(self._perform(work, unit)))
                if not running:
                    break
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()
            for task in running:
                with suppress(asyncio.CancelledError):
                    await task
