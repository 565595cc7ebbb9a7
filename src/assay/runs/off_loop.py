"""Work on large values: in a thread, while the event loop serves other requests."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
LARGE = 64 * 1024  # bytes as JSON


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """The result of `work` on a value of this many bytes: of a large one, from a thread."""
    return await asyncio.to_thread(work) if size > LARGE else work()


def json_size(value: Any) -> int:
    """How many bytes a value has as JSON; a value that is not JSON counts as large."""
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return LARGE + 1
