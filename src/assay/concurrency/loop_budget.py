"""
Limits the time for which an event loop reads a request in place, and that for which a thread works without a pause.

A pattern of sixty characters takes `re` up to 40 ms to compile, and a request has a thousand checks; a request of 18 kB
has thousands of problems. So `spend` looks at the clock before each check and each problem. Past the deadline it raises
`OverBudget`, and the caller does the work again in a thread. In a thread of `threads.py`, `spend` lets other owners go
first.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
SECONDS = 0.01
PART = 1 << 12  # values of a long loop between two looks at the clock, and of one sort, which holds the GIL
LONG_PATTERN = 1_000  # characters; one pattern of the longest takes up to 0.3 s
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)
_turn: ContextVar["Callable[[], None] | None"] = ContextVar("turn", default=None)


class OverBudget(BaseException):
    """
    A request takes too long for an event loop.

    Not an Exception, so that handlers for faults of foreign checks do not catch it.
    """


def with_budget(seconds: float, call: Callable[[], T], turn: Callable[[], None] | None = None) -> T:
    """
    The result of `call`. Past this time, `spend` raises OverBudget.

    With `turn`, `spend` calls that instead each time that `seconds` have passed. It returns when the call may go on.
    """

    def take() -> None:
        assert turn is not None
        turn()
        _deadline.set(time.perf_counter() + seconds)

    tokens = _deadline.set(time.perf_counter() + seconds), _turn.set(turn and take)
    try:
        return call()
    finally:
        _deadline.reset(tokens[0])
        _turn.reset(tokens[1])


def paced(values: Iterable[T]) -> Iterator[T]:
    """The values of a loop that may be long, with a call of `spend` before each part."""
    for at, value in enumerate(values):
        if not at % PART:
            spend()
        yield value


def spend(length: float = 0) -> None:
    """
    Raise OverBudget if the time is over, or if reading a text of this length takes too long for an event loop.

    In a thread, let others go first if the time is over.
    """
    deadline = _deadline.get()
    if deadline == math.inf:
        return
    turn = _turn.get()
    if time.perf_counter() > deadline or (length > LONG_PATTERN and turn is None):
        if turn is None:
            raise OverBudget
        turn()
