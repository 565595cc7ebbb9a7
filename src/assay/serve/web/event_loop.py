"""
The event loop of a server: uvloop if it is installed, which is a little faster per request; otherwise asyncio's own.
"""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(main)


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes the event loop; None: asyncio's default."""
    try:
        return import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
