"""
Places in a limit of concurrency. Work that waits for hours gives its place up, and takes it again when it goes on.

A limiter sets `parking` in the context of each piece of work; code that waits calls `parked()`. It sets `holding` too:
code that keeps much in memory while it waits calls `hold()`.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

parking: ContextVar[Callable[[int], None] | None] = ContextVar("parking", default=None)
holding: ContextVar[Callable[[int], None] | None] = ContextVar("holding", default=None)


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


def hold(size: int) -> None:
    """The work in this context keeps so many bytes until it ends. Work that has not begun may wait for them."""
    add = holding.get()
    if add is not None:
        add(size)
