"""
A pattern of `re`, and the texts that may be searched in place: those for which the number of steps has a small bound.

For short texts the length decides. For longer texts it measures two things, each in linear time: the number of
positions at which a match can begin, and whether any repeat finds a long run of its characters.
"""

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from fnmatch import translate
from functools import lru_cache
from typing import Any

import msgspec

from assay.cache import memoize
from assay.concurrency.workers import batch
from assay.errors import ValueFault
from assay.patterns.backtracking import ONE, REPEATS, TextFacts, Tree, parse, walk
from assay.patterns.charsets import alone, compiler, op

STEPS = 600_000  # limit of a search in place: a few milliseconds
QUICK = 50_000  # limit of a search without the lock: less than a millisecond
LOOKED_AT = 1 << 17  # limit of the characters of a text that is measured before it is searched
RUNS = (1024, 512, 256, 64, 16)
WIDE = 200_000  # limit of the characters in the ranges of a pattern: with more, compiling takes too long
PREFIX = 16  # limit of the characters of a literal prefix
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
            wide = sum(spans(parts)) > WIDE
            self.pattern: re.Pattern[str] | None = None if wide else compiler.compile(parts, flags)
        except re.error as wrong:
            at = "" if wrong.pos is None else f" at position {wrong.pos}"
            raise ValueError(f"not a regular expression: {wrong.msg}{at}") from None
        except (OverflowError, RecursionError, MemoryError):
            raise PatternTooLarge("not a regular expression: it is too large or nested too deeply") from None
        self._costs: dict[tuple[int, int], float] = {}
        self._guards: dict[int, list[re.Pattern[str]]] = {}
        self.longest = 0  # any text up to this length may be searched in place…
        self.quick = 0  # …and any text up to this length without the lock
        if self.pattern is not None:
            _strip(parts)
            self._tree = Tree(parts, flags)
            self._places = _places(parts, flags)
            self.longest, self.quick = self._longest(STEPS), self._longest(QUICK)

    def matches(self, text: str) -> bool | None:
        """
        Whether the pattern is found; None: this text may not be searched in place.

        A search holds the GIL. So only one of the longer searches runs at a time, and an event loop waits for at most
        one search, however many threads search.
        """
        if self.pattern is None or not self.vouches(text):
            return None
        if len(text) <= self.quick:
            return self.pattern.search(text) is not None
        with _one_at_a_time:
            return self.pattern.search(text) is not None

    def vouches(self, text: str) -> bool:
        """Whether this text may be searched in place."""
        length = len(text)
        if length <= self.longest:
            return True
        if self.pattern is None or length > LOOKED_AT:
            return False
        size = _round_down(length)
        least = self._cost(size, RUNS[-1])
        if least > STEPS:
            return False  # for every text of this length
        starts = length
        if self._tree.anchored:
            starts = 1
        elif self._places is not None:
            starts = self._places(text)
        if not starts:
            return True
        left = (STEPS - length) / starts
        if self._cost(size, size) <= left:
            return True
        if least > left:
            return False
        run = next(run for run in RUNS if self._cost(size, run) <= left)
        return not any(one.search(text) for one in self._guards_of(run))

    @property
    def linear(self) -> float:
        """Steps per character, for texts up to `longest`."""
        return self._cost(self.longest, self.longest)

    def _longest(self, limit: int) -> int:
        """The longest text whose bound is within the limit, found by doubling and then by eighths."""
        length = 0
        for power in range(4, 27):
            if not self._fits(1 << power, limit):
                break
            length = 1 << power
        return max(
            (one for one in range(length, 2 * length, max(1, length // 8)) if self._fits(one, limit)),
            default=0,
        )

    def _fits(self, length: int, limit: int) -> bool:
        return length + (1 if self._tree.anchored else length) * self._cost(length, length) <= limit

    def _cost(self, length: int, run: int) -> float:
        """The bound for a search from one start."""
        found = self._costs.get((length, run))
        if found is None:
            found = self._costs[length, run] = 1 + self._tree.cost(TextFacts(length, run))
        return found

    def _guards_of(self, run: int) -> "list[re.Pattern[str]]":
        """A pattern for each repeat that finds more than `run` of its characters in a row."""
        found = self._guards.get(run)
        if found is None:
            items = {item: None for item, most in self._tree.repeats if most > run}
            found = self._guards[run] = [_guard(item, run) for item in items]
        return found


def _round_down(length: int) -> int:
    """Round up to the next eighth of a power of two, so that few lengths need a bound."""
    eighth = max(1, 1 << max(0, length.bit_length() - 4))
    return -(-length // eighth) * eighth


def spans(parts: Any) -> Iterator[int]:
    """For each range, the number of its characters beyond the first 256, which take time to compile."""
    for code, what in walk(parts):
        if code is op.IN:
            for part, value in what:
                if part is op.RANGE and value[1] > 255:
                    yield min(value[1], 0xFFFF) - min(value[0], 0xFFFF)


def _strip(parts: Any) -> None:
    """Remove repeats at the end that may be empty: they do not affect whether the pattern is found."""
    while len(parts) and parts[-1][0] in (op.MAX_REPEAT, op.MIN_REPEAT):
        least, _, item = parts[-1][1]
        if least or len(item) != 1 or item[0][0] not in ONE:
            return
        del parts[-1]


def _places(parts: Any, flags: int) -> Callable[[str], int] | None:
    """A function that counts the positions of a text at which a match can begin; None if a match can begin anywhere."""
    prefix = ""
    if not flags & re.IGNORECASE:
        for code, what in parts:
            if code is not op.LITERAL or len(prefix) == PREFIX:
                break
            prefix += chr(what)
    if prefix:
        overlaps = any(prefix.startswith(prefix[at:]) for at in range(1, len(prefix)))
        many = len(prefix) if overlaps else 1  # `count` skips overlapping occurrences
        return lambda text: text.count(prefix) * many
    first = _first(parts, flags)
    if first is None:
        return None
    begin = alone([first[:2]], first[2])
    return lambda text: len(begin.findall(text))


def _first(parts: Any, flags: int) -> tuple[Any, Any, int] | None:
    """The item that matches the first character of every match, or None if there are several."""
    for code, what in parts:
        if code in ONE:
            return code, what, flags
        if code is op.SUBPATTERN:
            _, more, less, inner = what
            return _first(inner, (flags | more) & ~less)
        if code in REPEATS:
            least, _, inner = what
            return _first(inner, flags) if least else None
        if code is not op.AT:
            return None
    return None


def _guard(item: tuple[Any, Any, int], run: int) -> "re.Pattern[str]":
    """
    A pattern that finds more than `run` characters in a row. It starts only at the beginning of a row, so it is linear.
    """
    code, what, flags = item
    return alone(
        [(op.ASSERT_NOT, (-1, [(code, what)])), (op.MAX_REPEAT, (run + 1, run + 1, [(code, what)]))], flags
    )


# Searches in a worker process.

SECONDS = 1.0
TASK = "assay.patterns.search:task"


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
