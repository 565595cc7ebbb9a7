"""The event loop of a server: libuv's where it is installed, which costs a request a little less; else Python's own."""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(main)


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes one; None: what Python itself takes."""
    try:
        return import_module("uvloop").new_event_loop
    except ModuleNotFoundError:
        return None
