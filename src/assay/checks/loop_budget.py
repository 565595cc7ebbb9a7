"""
Limits the time for which an event loop reads checks in place.

A pattern of sixty characters takes `re` up to 40 ms to compile, and a request has a thousand checks. So `bind` looks at the
clock before each check. Past the deadline it raises `OverBudget`, and the caller does the work again in a thread.
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
    The checks take too long for an event loop.

    Not an Exception, so that handlers for faults of foreign checks do not catch it.
    """


def with_budget(seconds: float, call: Callable[[], T]) -> T:
    """Call `work`. Raises OverBudget when reading its checks takes longer than this."""
    token = _deadline.set(time.perf_counter() + seconds)
    try:
        return call()
    finally:
        _deadline.reset(token)


def spend(length: int = 0) -> None:
    """Raise OverBudget if the time is over, or if a pattern of this length takes too long for an event loop."""
    deadline = _deadline.get()
    if deadline != math.inf and (length > LONG_PATTERN or time.perf_counter() > deadline):
        raise OverBudget
