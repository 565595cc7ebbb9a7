"""
Places in a limit of concurrency. Work that waits for hours gives its place up, and takes it again when it goes on.

A limiter sets `parking` in the context of each piece of work; code that waits calls `parked()`.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

parking: ContextVar[Callable[[int], None] | None] = ContextVar("parking", default=None)


@contextmanager
def parked() -> Generator[None]:
    """The work in this context waits, and does not count in the limit that it runs under."""
    change = parking.get()
    if change is None:
        yield
        return
    change(1)
    try:
        yield
    finally:
        change(-1)
