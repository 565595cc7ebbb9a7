"""The memory of this process, and how it is given back: the allocator keeps the free blocks of every thread."""

import ctypes
import gc
import os
from pathlib import Path
from typing import Any

GROWTH = 32 << 20  # bytes; a full collection takes 10 to 50 ms, so it is worth that much
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
