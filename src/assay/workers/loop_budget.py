"""
Limits the time for which an event loop reads a request in place.

A pattern of sixty characters takes `re` up to 40 ms to compile, and a request has a thousand checks; a request of 18 kB
has thousands of problems. So `spend` looks at the clock before each check and each problem. Past the deadline it raises
`OverBudget`, and the caller does the work again in a thread.
"""

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
SECONDS = 0.01
LONG_PATTERN = 1_000  # characters; one pattern of the longest takes up to 0.3 s
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class OverBudget(BaseException):
    """
    A request takes too long for an event loop.

    Not an Exception, so that handlers for faults of foreign checks do not catch it.
    """


def with_budget(seconds: float, call: Callable[[], T]) -> T:
    """The result of `call`. Raises OverBudget if `spend` is called after this time."""
    token = _deadline.set(time.perf_counter() + seconds)
    try:
        return call()
    finally:
        _deadline.reset(token)


def spend(length: float = 0) -> None:
    """Raise OverBudget if the time is over, or if reading a text of this length takes too long for an event loop."""
    deadline = _deadline.get()
    if deadline != math.inf and (length > LONG_PATTERN or time.perf_counter() > deadline):
        raise OverBudget
