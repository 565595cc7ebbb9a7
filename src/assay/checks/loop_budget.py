"""
How long an event loop reads checks in place.

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

    Not an Exception: what guards against a fault of a check's own code lets it pass.
    """


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, or OverBudget once its checks took this long."""
    token = _deadline.set(time.perf_counter() + seconds)
    try:
        return work()
    finally:
        _deadline.reset(token)


def spend(length: int = 0) -> None:
    """OverBudget where the time is over, or where a pattern of this length is not for an event loop."""
    deadline = _deadline.get()
    if deadline != math.inf and (length > LONG_PATTERN or time.perf_counter() > deadline):
        raise OverBudget
