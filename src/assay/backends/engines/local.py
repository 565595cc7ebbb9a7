"""Runs units in this process, several at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from assay.concurrency.parking import holding, parking
from assay.ports.kinds import Perform, watched

MAX_RUNNING = 10_000  # units at once, with those that wait for hours
MAX_HELD = 64 * 1024 * 1024  # bytes that those keep: none begins beyond it


class LocalEngine:
    """
    Runs `perform(work, unit)` on this event loop, with `concurrency` units in flight.

    A unit is drawn only when it can start.

    A place that becomes free is taken before results are handed out: the caller may need time for each of them.
    """

    def __init__(self, perform: Perform, concurrency: int, *, elsewhere: bool = False) -> None:
        """`elsewhere`: `perform` only waits for other processes, which execute the units."""
        self._perform, self._concurrency = perform if elsewhere else watched(perform), concurrency

    def _has_place(self, running: int, places: "_Places", results: int) -> bool:
        free = running < MAX_RUNNING and places.held < MAX_HELD
        return free and max(running - places.parked, results) < self._concurrency

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        running: set[asyncio.Task[bytes]] = set()
        places = _Places()
        results: deque[asyncio.Task[bytes]] = deque()
        news, room = asyncio.Event(), asyncio.Event()

        def end(task: asyncio.Task[bytes]) -> None:
            running.discard(task)
            results.append(task)
            news.set()

        def has_place() -> bool:
            return self._has_place(len(running), places, len(results))

        async def draw() -> None:
            """Start each unit as soon as there is a place. The next one may wait for the result of an earlier one."""
            while (unit := await anext(units, None)) is not None:
                begun = asyncio.create_task(places.run(partial(self._perform, work, unit), news))
                running.add(begun)
                begun.add_done_callback(end)
                while not has_place():
                    room.clear()
                    await room.wait()

        drawing = asyncio.create_task(draw())
        drawing.add_done_callback(lambda _: news.set())
        try:
            while not drawing.done() or running or results:
                if has_place() and not room.is_set():
                    room.set()
                    await asyncio.sleep(0)  # most units are there at once
                if drawing.done():
                    drawing.result()  # raises what the units raised
                if results:
                    yield results.popleft().result()
                else:
                    await news.wait()
                news.clear()
            drawing.result()
        finally:
            await _cancel({*running, *results, drawing})


class _Places:
    """Counts the units that wait for hours, and the bytes that they keep: meanwhile others take their places."""

    def __init__(self) -> None:
        self.parked = self.held = 0

    async def run(self, perform: Callable[[], Awaitable[bytes]], news: asyncio.Event) -> bytes:
        depth = own = 0

        def add(size: int) -> None:
            nonlocal own
            own += size
            self.held += size

        def change(by: int) -> None:
            nonlocal depth
            before, depth = depth, depth + by
            self.parked += (depth > 0) - (before > 0)
            news.set()

        parking.set(change)
        holding.set(add)
        try:
            return await perform()
        finally:
            self.parked -= depth > 0
            self.held -= own


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# Runs units one after another, where they are requested: the plain form of the Engine port.


class InlineEngine:
    """Runs `perform(work, unit)` for one unit at a time, each after the result of the one before was taken."""

    def __init__(self, perform: Perform) -> None:
        self._perform = watched(perform)

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for unit in units:
            yield await self._perform(work, unit)
