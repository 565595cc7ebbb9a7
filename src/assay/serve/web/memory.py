"""
Gives back memory that a server no longer needs (ADR-0031).

Garbage in reference cycles that has become old waits for twenty million allocations, and the allocator keeps the free
blocks of every thread. So when the memory of the process has grown, all garbage is collected and free blocks go back to
the system.
"""

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.concurrency.event_loop import run_guarded
from assay.concurrency.threads import in_thread

EVERY = 5.0  # seconds between two looks
GROWTH = 32 << 20  # bytes; a full collection takes 10 to 50 ms, so it is worth that much
HELD = (
    8 << 20
)  # bytes that bodies hold; a collection would look at all they have become, for 0.3 s if they hold 240 MB
POSTPONED = 12  # looks; so long a collection waits for bodies that come one after the other
ARENAS = 2  # of glibc, for all threads; by default each thread has its own, with its own free blocks
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """The memory of this process; 0 if the system does not say."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def limit_arenas() -> None:
    _call("mallopt", _ARENA_MAX, ARENAS)


def release_memory() -> None:
    """Collect all garbage, and return free blocks to the system."""
    gc.collect()
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> None:
    """A function of glibc; other libraries do not have it."""
    function: Any = getattr(ctypes.CDLL(None), name, None)
    if function is not None:
        function(*arguments)


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
