"""
Sets of characters as bit masks: what the items of a pattern can match.

The bits are the first 256 characters, the end of the text, and four classes of all other characters: decimal digits,
other word characters, white space, other. A set may be too large, and is never too small.
"""

import importlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

# the parser of `re` itself, so that both read a pattern in the same way
parser: Any = importlib.import_module("re._parser")
compiler: Any = importlib.import_module("re._compiler")
op: Any = importlib.import_module("re._constants")

END, DIGITS, WORDS, SPACES, OTHERS = (1 << bit for bit in range(256, 261))
NOT_LATIN = DIGITS | WORDS | SPACES | OTHERS
ASCII = (1 << 128) - 1
CHARACTERS = (1 << 256) - 1 | NOT_LATIN
EVERY = CHARACTERS | END
LINE_FEED = 1 << 10


def _latin(test: Callable[[str], bool]) -> int:
    return sum(1 << code for code in range(256) if test(chr(code)))


LETTERS = _latin(str.isalpha)
_CATEGORIES = {
    op.CATEGORY_DIGIT: _latin(str.isdecimal) | DIGITS,
    op.CATEGORY_SPACE: _latin(str.isspace) | SPACES,
    op.CATEGORY_WORD: _latin(str.isalnum) | 1 << ord("_") | DIGITS | WORDS,
}
_NEGATIVE = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}


def bit_of(code: int) -> int:
    if code < 256:
        return 1 << code
    char = chr(code)
    return DIGITS if char.isdecimal() else WORDS if char.isalnum() else SPACES if char.isspace() else OTHERS


def characters(code: Any, argument: Any, flags: int) -> int:
    """The characters that an item of one character can match."""
    if code is op.ANY:
        return CHARACTERS if flags & re.DOTALL else CHARACTERS & ~LINE_FEED
    members = argument if code is op.IN else [(op.LITERAL, argument)]
    named = classes = surely = 0
    for part, value in members:
        if part is op.CATEGORY:
            classes |= _category(value, flags)
        elif part is not op.NEGATE:
            low, high = value if part is op.RANGE else (value, value)
            latin = (1 << min(high + 1, 256)) - (1 << min(low, 256))
            named |= latin | (0 if high < 256 else bit_of(high) if low == high else NOT_LATIN)
            surely |= latin
    if code is op.NOT_LITERAL or members[0][0] is op.NEGATE:
        return CHARACTERS & ~(surely | classes)
    return classes | (_both_cases(named) if flags & re.IGNORECASE else named)


def _category(category: Any, flags: int) -> int:
    if category in _NEGATIVE:
        return CHARACTERS & ~_category(_NEGATIVE[category], flags)
    return _CATEGORIES[category] & (ASCII if flags & re.ASCII else -1)


def _both_cases(mask: int) -> int:
    """Letters and their other case. ſ is an s and the sign of kelvin a k, so some are in other alphabets."""
    if mask & NOT_LATIN:
        return mask | LETTERS | NOT_LATIN
    letters = mask & LETTERS
    return mask | (letters << 32 | letters >> 32) & LETTERS | (WORDS if letters else 0)


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
