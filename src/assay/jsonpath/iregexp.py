"""
I-Regexp (RFC 9485), what match() and search() take: a checked text → a pattern of `re` (decision 47).

Our own check, since iregexp_check 0.1.4 refuses `a{10}` and overflows the stack on deep nesting. `re` knows no `\\p{…}`:
a category is written out as the ranges of its characters.
"""

import re
from functools import lru_cache
from time import monotonic
from typing import NamedTuple

from assay.errors import PathFault
from assay.patterns.charsets import categories
from assay.patterns.search import Search, TooLarge, common

MAX_PATTERN = 2_000  # characters
MAX_CATEGORIES = 16  # each is some hundred ranges

_ESCAPED = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_MEMBER = rf"(?:[^\-\[\\\]\ud800-\udfff]|{_ESCAPED})"
_MEMBERS = rf"{_MEMBER}(?:-{_MEMBER})?|{_CATEGORY}"
_CLASS = rf"\[\^?(?:-|{_MEMBERS})(?:{_MEMBERS})*-?\]"
_NORMAL = r"[^()*+.?\[\\\]{|}\ud800-\udfff]"
_REPEAT = r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}"
_PIECE = re.compile(
    rf"(?:(?P<atom>\.|{_NORMAL}|{_ESCAPED}|{_CATEGORY}|{_CLASS})|\))(?P<repeat>{_REPEAT})?|[(|]"
)
_PART = re.compile(rf"{_CATEGORY}|{_ESCAPED}|-|[^\\]")  # of the inside of a class


class Pattern(NamedTuple):
    search: Search
    common: bytes  # what a worker process is given of it


def prepare(text: str) -> float:
    """The seconds it took to load what all patterns with categories need; nothing after the first."""
    began = monotonic()
    if re.search(_CATEGORY, text):
        categories()
    return monotonic() - began


@lru_cache(maxsize=64)
def pattern(text: str, *, whole: bool) -> Pattern | None:
    """The pattern, to be searched for or to match the whole text; None if it is no I-Regexp; PathFault if it is too large a one."""
    if len(text) > MAX_PATTERN:
        raise PathFault(f"a pattern has at most {MAX_PATTERN} characters")
    translated = _translate(text)
    if translated is None:
        return None
    if whole:
        translated = rf"\A(?:{translated})\Z"
    try:
        return Pattern(Search(translated), common(translated, 0))
    except TooLarge:
        raise PathFault("a pattern is too large or nested too deep") from None
    except ValueError:  # well-formed and meaningless: [b-a], a{2,1}
        return None


def _translate(text: str) -> str | None:
    if len(re.findall(_CATEGORY, text)) > MAX_CATEGORIES:
        raise PathFault(f"a pattern names at most {MAX_CATEGORIES} categories")
    parts: list[str] = []
    depth = at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        at = piece.end()
        atom = piece["atom"]
        if piece[0] == "(":
            depth += 1
            parts.append("(?:")  # no group is asked what it caught
        elif piece[0] == "|":
            parts.append("|")
        elif atom is None:
            depth -= 1
            if depth < 0:
                return None  # a ) without its (
            parts.append(piece[0])
        else:
            parts.append(_atom(atom) + (piece["repeat"] or ""))
    return "".join(parts) if depth == 0 else None


def _atom(atom: str) -> str:
    if atom == ".":
        return r"[^\r\n]"
    if atom[0] == "[" and len(atom) > 1:
        negated = "^" if atom[1] == "^" else ""
        return f"[{negated}{_members(atom[1 + len(negated) : -1])}]"
    if atom[:2] in (r"\p", r"\P"):
        return f"[{_ranges(atom)}]"
    return atom if atom[0] in "\\^$" else re.escape(atom)  # ^ and $ are anchors in the compliance suite


def _members(text: str) -> str:
    """The inside of a class; a `-` is a sign of its own only at either end."""
    parts = _PART.findall(text)
    last = len(parts) - 1
    return "".join(
        _ranges(part)
        if part[:2] in (r"\p", r"\P")
        else part
        if part[0] == "\\" or (part == "-" and 0 < at < last)
        else re.escape(part)
        for at, part in enumerate(parts)
    )


def _ranges(category: str) -> str:
    """What a category is, or is not, as the inside of a class."""
    name, known = category[3:-1], categories()
    if category[1] == "p":
        return known.get(name, "")
    size = len(name)
    return "".join(ranges for other, ranges in known.items() if len(other) == size and other != name)
