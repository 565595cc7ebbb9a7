"""
Sets of characters as bit masks: the characters that the items of a pattern can match.

The bits are the first 256 characters, the other characters that the pattern names, the end of the text, and four
classes for all other characters (decimal digits, other word characters, white space, other). A set is a pair of masks:
what it may contain and what it must contain. They differ only in the classes, if a range contains a part of one.
"""

import importlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

# the parser of `re` itself, so that both read a pattern in the same way
parser: Any = importlib.import_module("re._parser")
compiler: Any = importlib.import_module("re._compiler")
op: Any = importlib.import_module("re._constants")

LATIN = "".join(map(chr, range(256)))
END, DIGITS, WORDS, SPACES, OTHERS = (1 << bit for bit in range(256, 261))
REST = DIGITS | WORDS | SPACES | OTHERS
NAMED = 261  # the first bit of a character that the pattern names
LINE_FEED = 1 << 10
MOST_TESTS = 500_000  # of a character against an item, for one pattern: 0.2 s

_CATEGORIES = {
    op.CATEGORY_DIGIT: DIGITS,
    op.CATEGORY_NOT_DIGIT: REST & ~DIGITS,
    op.CATEGORY_SPACE: SPACES,
    op.CATEGORY_NOT_SPACE: REST & ~SPACES,
    op.CATEGORY_WORD: DIGITS | WORDS,
    op.CATEGORY_NOT_WORD: SPACES | OTHERS,
}
_NEGATIVE = {op.CATEGORY_NOT_DIGIT, op.CATEGORY_NOT_SPACE, op.CATEGORY_NOT_WORD}


class NoBound(Exception):
    """The pattern has no bound, or it takes too long to find one."""


class Set(NamedTuple):
    may: int
    must: int


class Alphabet:
    """The characters of one pattern."""

    def __init__(self, characters: Iterable[str]) -> None:
        self.named = "".join(sorted({one for one in characters if one > "ÿ"}))
        self.all = (1 << (NAMED + len(self.named))) - 1
        self._sets: dict[Any, Set] = {}
        self._tests = 0

    def of(self, code: Any, argument: Any, flags: int) -> Set:
        """
        The set of characters that an item of one character matches. The members of a class are a tuple.

        Raises NoBound if the pattern has too many different items for so many characters.
        """
        key = code, argument, flags
        found = self._sets.get(key)
        if found is None:
            may, must = rest_of(code, argument, flags)
            exact = self._exact(code, argument, flags)
            found = self._sets[key] = Set(exact | may, exact | must)
        return found

    def _exact(self, code: Any, argument: Any, flags: int) -> int:
        """The mask of the characters that have a bit of their own, computed with `re`."""
        if code is op.LITERAL and not flags & re.IGNORECASE:
            return 1 << argument if argument < 256 else 1 << (NAMED + self.named.index(chr(argument)))
        self._tests += NAMED + len(self.named)
        if self._tests > MOST_TESTS:
            raise NoBound
        one = alone([(code, argument)], flags)
        mask = sum(1 << ord(char) for char in one.findall(LATIN))
        if self.named:
            mask |= sum(1 << (NAMED + at) for at, char in enumerate(self.named) if one.match(char))
        return mask


def alone(items: list[Any], flags: int) -> "re.Pattern[str]":
    """Compile items of a parsed pattern as a pattern of their own. They contain no group; lists are sequences."""
    state = parser.State()
    state.flags, state.str = flags, ""
    return compiler.compile(_sequence(state, items), flags)


def _sequence(state: Any, items: list[Any]) -> Any:
    made: list[Any] = []
    for code, what in items:
        if code is op.IN:
            made.append((code, list(what)))
        elif isinstance(what, tuple) and isinstance(what[-1], list):
            made.append((code, (*what[:-1], _sequence(state, what[-1]))))  # pyright: ignore[reportUnknownArgumentType]
        else:
            made.append((code, what))
    return parser.SubPattern(state, made)


def rest_of(code: Any, argument: Any, flags: int) -> tuple[int, int]:
    """
    The classes that an item may match, and those it matches completely. The lower case of a character is in the same
    class.
    """
    if code is op.ANY:
        return REST, REST
    if code is op.NOT_LITERAL:
        may, _ = _part(op.LITERAL, argument, flags)
        return REST, REST & ~may
    if code is not op.IN:
        return _part(code, argument, flags)
    may = must = 0
    negated = False
    for part, value in argument:
        if part is op.NEGATE:
            negated = True
        else:
            more, surely = _part(part, value, flags)
            may, must = may | more, must | surely
    return (REST & ~must, REST & ~may) if negated else (may, must)


def _part(code: Any, argument: Any, flags: int) -> tuple[int, int]:
    if code is op.CATEGORY:
        mask = _CATEGORIES[argument]
        if flags & re.ASCII:
            mask = REST if argument in _NEGATIVE else 0
        return mask, mask
    highest = argument[1] if code is op.RANGE else argument
    if flags & re.IGNORECASE:
        return (REST, 0) if highest > 255 else (WORDS, 0)  # ſ is an s, the sign of kelvin a k
    return (REST, 0) if code is op.RANGE and highest > 255 else (0, 0)


@lru_cache(maxsize=1)
def categories() -> dict[str, str]:
    """Each general category of Unicode, `L` and `Lu` alike, as the inside of a character class of `re`."""
    from itertools import groupby  # deferred import
    from unicodedata import category  # deferred import: few patterns name one

    known: dict[str, list[str]] = {}
    names = list(map(category, map(chr, range(0x110000))))
    for column in (names, [name[0] for name in names]):
        code = 0
        for name, many in groupby(column):
            first, code = code, code + sum(1 for _ in many)
            last = f"-{re.escape(chr(code - 1))}" if code - 1 > first else ""
            known.setdefault(name, []).append(re.escape(chr(first)) + last)
    return {name: "".join(ranges) for name, ranges in known.items()}
