"""Runs units one after another, where they are requested: the plain form of the Engine port."""

from collections.abc import AsyncIterator

from assay.ports.kinds import Perform, watched


class InlineEngine:
    """
    Runs `perform(work, unit)` for one unit at a time. A unit is drawn after the result of the one before was taken.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = watched(perform)

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for unit in units:
            yield await self._perform(work, unit)
