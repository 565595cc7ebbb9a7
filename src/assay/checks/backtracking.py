"""
What a pattern may cost: how large it becomes when its repeats are written out, and how long a text may be so that
searching it stays quick, however the engine backtracks.

A pattern made of single characters, groups, alternatives and repeats of one-character items has, from any start,
at most (ways of its bounded parts) × length ^ (its unbounded repeats) attempts. Anything else gets no promise.
"""

import importlib
import warnings
from collections.abc import Iterable
from math import floor
from typing import Any

# the parser of `re` itself: what it reads is what a pattern means
parser: Any = importlib.import_module("re._parser")
op: Any = importlib.import_module("re._constants")

STEPS = 2_000_000  # some tens of milliseconds
_UNBOUNDED = 100  # a repeat that may go on longer than this counts with the length of the text

Cost = tuple[int, int]  # ways, degree


class _NoPromise(Exception):
    pass


def written_out(pattern: str, flags: int) -> int:
    """How many items the pattern has once `a{3}` is `aaa`, which is what `regex` does before any deadline counts."""
    return _size(_parsed(pattern, flags))


def longest_safe_text(pattern: str, flags: int) -> int:
    """-1 where nothing can be promised."""
    try:
        ways, degree = _sequence(_parsed(pattern, flags))
    except _NoPromise:
        return -1
    size = max(len(pattern), 1) * ways
    return floor((STEPS / size) ** (1 / (degree + 1))) if size <= STEPS else -1


def _parsed(pattern: str, flags: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.parse(pattern, flags)


def _size(parts: Iterable[tuple[Any, Any]]) -> int:
    size = 0
    for code, what in parts:
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, item = what
            size += _size(item) * (least + (most > least))
        elif code is op.BRANCH:
            size += sum(_size(one) for one in what[1])
        elif code in (op.SUBPATTERN, op.ATOMIC_GROUP, op.ASSERT, op.ASSERT_NOT):
            size += _size(what if code is op.ATOMIC_GROUP else what[-1])
        elif code is op.GROUPREF_EXISTS:
            size += _size(what[1]) + _size(what[2] or [])
        else:
            size += 1
    return size


def _sequence(parts: Iterable[tuple[Any, Any]]) -> Cost:
    ways, degree = 1, 0
    for code, what in parts:
        more, higher = _part(code, what)
        ways, degree = ways * more, degree + higher
        if ways > STEPS:
            raise _NoPromise
    return ways, degree


def _part(code: Any, what: Any) -> Cost:
    if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN, op.AT):
        return 1, 0
    if code is op.SUBPATTERN:
        return _sequence(what[3])
    if code is op.BRANCH:
        costs = [_sequence(one) for one in what[1]]
        return sum(ways for ways, _ in costs), max(degree for _, degree in costs)
    if code in (op.MAX_REPEAT, op.MIN_REPEAT):
        return _repeat(*what)
    raise _NoPromise  # back-references, look-around, conditionals


def _repeat(least: int, most: int, item: Any) -> Cost:
    ways, degree = _sequence(item)
    if (ways, degree) != (1, 0):
        raise _NoPromise  # a repeat of something that can itself be matched in several ways
    if most - least > _UNBOUNDED:
        return max(least, 1), 1
    return max(most, 1), 0
