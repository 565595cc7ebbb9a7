"""
Gives back memory that a server no longer needs (ADR-0031).

Garbage in reference cycles that has become old waits for twenty million allocations, and the allocator keeps the free
blocks of every thread. So when the memory of the process has grown, all garbage is collected and free blocks go back to
the system.
"""

import asyncio
from collections.abc import Callable

from assay.concurrency.event_loop import run_guarded
from assay.concurrency.memory import GROWTH, release_memory, resident_bytes
from assay.concurrency.threads import in_thread

EVERY = 5.0  # seconds between two looks
# bytes that bodies hold; a collection would look at all they have become, for 0.3 s if they hold 240 MB
HELD = 8 << 20
POSTPONED = 12  # looks; so long a collection waits for bodies that come one after the other


class MemoryKeeper:
    """
    Looks at the memory of the process, and gives memory back when it has grown since the last time.

    `held` returns the bytes of bodies of requests that are being answered.
    """

    def __init__(
        self, resident: Callable[[], int] = resident_bytes, held: Callable[[], int] = lambda: 0
    ) -> None:
        self._resident, self._held = resident, held
        self._level = resident()
        self._postponed = 0

    async def look(self) -> bool:
        """Whether memory was given back."""
        now = self._resident()
        self._level = min(self._level, now)
        if now - self._level <= GROWTH:
            return False
        if self._held() > HELD and self._postponed < POSTPONED:
            self._postponed += 1
            return False
        self._postponed = 0
        await in_thread(release_memory)
        self._level = self._resident()
        return True

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await run_guarded("memory", self.look())
