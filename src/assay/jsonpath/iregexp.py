"""
Converts an I-Regexp (RFC 9485), the pattern of match() and search(), to a pattern of `re` (FEP-47).

It has its own validation, because iregexp_check 0.1.4 refuses `a{10}` and overflows the stack on deep nesting. `re`
does not support `\\p{…}`: a category is written out as the ranges of its characters.
"""

import re
from time import monotonic
from typing import NamedTuple

from assay.cache import memoize
from assay.concurrency.workers import batch
from assay.errors import PathFault
from assay.patterns.charsets import categories
from assay.patterns.search import PatternTooLarge, Search, common, estimated_bytes

MAX_PATTERN = 2_000  # characters
CACHED = 16 << 20  # bytes of all cached patterns
MAX_CATEGORIES = 16  # each has a few hundred ranges

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
_PART = re.compile(rf"{_CATEGORY}|{_ESCAPED}|-|[^\\]")  # a part of the inside of a class


class Pattern(NamedTuple):
    search: Search
    common: bytes  # the pattern as a worker process receives it


def prepare(text: str) -> float:
    """Load the Unicode categories. Returns the seconds it took; 0 after the first call."""
    began = monotonic()
    if re.search(_CATEGORY, text):
        categories()
    return monotonic() - began


def _estimated_bytes(text: str, full_match: bool) -> int:
    """The memory of a pattern. Measured: 47 kB for a category."""
    return estimated_bytes(text) + 60_000 * text.lower().count("\\p")


@memoize(CACHED, _estimated_bytes, batch.owner.get)
def pattern(text: str, full_match: bool) -> Pattern | None:
    """
    The pattern, for a search or a match of the whole text; None if it is not an I-Regexp. Raises PathFault if it is too
    large.
    """
    if len(text) > MAX_PATTERN:
        raise PathFault(f"a pattern is too long; the limit is {MAX_PATTERN} characters")
    translated = _translate(text)
    if translated is None:
        return None
    if full_match:
        translated = rf"\A(?:{translated})\Z"
    try:
        return Pattern(Search(translated), common(translated, 0))
    except PatternTooLarge:
        raise PathFault("a pattern is too large or nested too deeply") from None
    except ValueError:  # well-formed but invalid: [b-a], a{2,1}
        return None


def _translate(text: str) -> str | None:
    if len(re.findall(_CATEGORY, text)) > MAX_CATEGORIES:
        raise PathFault(f"a pattern names too many categories; the limit is {MAX_CATEGORIES}")
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
            parts.append("(?:")  # captures are not used
        elif piece[0] == "|":
            parts.append("|")
        elif atom is None:
            depth -= 1
            if depth < 0:
                return None  # a ) without a (
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
    """The inside of a class. A `-` is a character only at the beginning or the end."""
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
    """A category or its complement as the inside of a class."""
    name, known = category[3:-1], categories()
    if category[1] == "p":
        return known.get(name, "")
    size = len(name)
    return "".join(ranges for other, ranges in known.items() if len(other) == size and other != name)
