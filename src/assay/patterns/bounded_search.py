"""
A pattern of `re`, and the texts that may be searched in place: those for which the number of steps has a small bound.
All others are searched in a worker process, which can be killed.
"""

import re
import threading
import warnings
from bisect import bisect_right
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache
from typing import Any

import msgspec

from assay.cache import memoize
from assay.concurrency.workers import batch
from assay.errors import ValueFault
from assay.patterns.backtracking import Bound
from assay.patterns.charsets import compiler, op, parser

STEPS = 600_000  # limit of a search in place: a few milliseconds
QUICK = 50_000  # limit of a search without the lock: less than a millisecond
LENGTHS = [int(2 ** (power / 4)) for power in range(16, 105)]  # of texts for which the bound is computed
WIDE = 200_000  # limit of the characters in the ranges of a pattern: with more, compiling takes too long
NESTED = (parser.SubPattern, tuple, list)  # the parts of a parsed pattern that have parts
_one_at_a_time = threading.Lock()


def estimated_bytes(text: str) -> int:
    """The memory of a compiled pattern with its bounds. Measured: up to 220 bytes per character."""
    return 4_000 + 400 * len(text)


class PatternTooLarge(ValueError):
    """A pattern that is too large for `re`."""


class Search:
    """
    A pattern with its bounds. `pattern` is None if compiling takes too long. Raises ValueError if the text is not a
    pattern.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        try:
            parts = parse(text, flags)
            flags = parts.state.flags
            self.pattern: re.Pattern[str] | None = None if _is_wide(parts) else compiler.compile(parts, flags)
        except re.error as wrong:
            at = "" if wrong.pos is None else f" at position {wrong.pos}"
            raise ValueError(f"not a regular expression: {wrong.msg}{at}") from None
        except (OverflowError, RecursionError, MemoryError):
            raise PatternTooLarge("not a regular expression: it is too large or nested too deeply") from None
        bound = Bound(parts, flags)
        self.longest = _longest(bound, STEPS)  # any text up to this length may be searched in place…
        self.quick = _longest(bound, QUICK) if self.longest else 0  # …and up to this length without the lock
        self.linear = bound.steps(self.longest) / (
            self.longest or 1
        )  # steps per character of the longest text

    def matches(self, text: str) -> bool | None:
        """
        Whether the pattern is found; None: this text may not be searched in place.

        A search holds the GIL. So only one of the longer searches runs at a time, and an event loop waits for at most
        one search, however many threads search.
        """
        if self.pattern is None or len(text) > self.longest:
            return None
        if len(text) <= self.quick:
            return self.pattern.search(text) is not None
        with _one_at_a_time:
            return self.pattern.search(text) is not None


def parse(pattern: str, flags: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return parser.parse(pattern, flags)


def _is_wide(parts: Any) -> bool:
    """Whether it takes long to compile the ranges beyond the first 256 characters."""
    characters = 0
    stack: list[Any] = [parts]
    while stack:
        part: Any = stack.pop()
        if isinstance(part, NESTED):
            many = list[Any](part)
            if many and many[0] is op.RANGE:
                low, high = many[1]
                characters += min(high, 0xFFFF) - min(low, 0xFFFF) if high > 255 else 0
            stack += many
    return characters > WIDE


def _longest(bound: Bound, limit: int) -> int:
    """The longest text whose bound is within the limit."""
    if bound.steps(LENGTHS[0]) > limit:
        return 0
    return LENGTHS[bisect_right(LENGTHS, limit, key=bound.steps) - 1]


# Searches in a worker process.

SECONDS = 1.0
TASK = "assay.patterns.bounded_search:task"


def common(text: str, flags: int) -> bytes:
    return msgspec.msgpack.encode((text.encode("utf-8", "surrogatepass"), flags))


def item(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4)
def task(common: bytes) -> Callable[[bytes], bytes]:
    """Runs in a worker process: whether a pattern is found in a text."""
    text, flags = msgspec.msgpack.decode(common, type=tuple[bytes, int])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            parts = parse(text.decode("utf-8", "surrogatepass"), flags)
            search = compiler.compile(parts, parts.state.flags).search  # `re.compile` would keep it
        except re.error as wrong:
            raise ValueFault(f"not a regular expression: {wrong.msg}") from None

    def matches(item: bytes) -> bytes:
        return b"1" if search(item.decode("utf-8", "surrogatepass")) else b""

    return matches


# Wildcards of a shell: `*`, `?` and `[…]`. `fnmatch` keeps patterns of any length in caches that count entries.

CACHED = 4 << 20  # bytes of all compiled wildcards


def matches_wildcard(text: str, pattern: str) -> bool:
    """Whether the whole text matches the pattern; upper and lower case differ."""
    return _compile(pattern).match(text) is not None


@memoize(CACHED, estimated_bytes, batch.owner.get)
def _compile(text: str) -> "re.Pattern[str]":
    return compiler.compile(translate(text))
