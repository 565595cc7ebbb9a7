"""
match() and search() (RFC 9535 §2.4.6, §2.4.7): an I-Regexp (RFC 9485) is converted to a pattern of `re` (FEP-47).

`re` does not support `\\p{…}`: a category is written out as the ranges of its characters.
"""

import re
from time import monotonic
from typing import Any, NamedTuple

from assay.cache import memoize
from assay.concurrency.workers import batch, pool
from assay.errors import Fault, PathFault, TimeFault
from assay.jsonpath.budget import Budget
from assay.patterns.bounded_search import TASK, PatternTooLarge, Search, common, estimated_bytes, item
from assay.patterns.charsets import categories

MAX_PATTERN = 2_000  # characters
CACHED = 16 << 20  # bytes of all cached patterns
MAX_CATEGORIES = 16  # each has a few hundred ranges
WAITED = 30.0  # limit of the seconds of waiting for a worker process, in addition to the time of the path

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


def is_match(text: Any, regexp: Any, full_match: bool, budget: Budget) -> bool:
    """Whether the I-Regexp matches: false if one of the two is not a text, or the second is not an I-Regexp."""
    if not isinstance(text, str) or not isinstance(regexp, str):
        return False
    budget.deadline += prepare(regexp)
    compiled = pattern(regexp, full_match)
    if compiled is None:
        return False
    left = budget.seconds_left()
    found = compiled.search.matches(text)
    return _match_in_worker(compiled, text, left, budget) if found is None else found


def _match_in_worker(pattern: Pattern, text: str, seconds: float, budget: Budget) -> bool:
    """Search in a worker process, which can be killed. This thread blocks."""
    future = pool.submit(batch.Batch(TASK, [item(text)], seconds, common=pattern.common))
    try:
        (outcome,) = future.result(seconds + WAITED)
    except TimeoutError:
        future.cancel()
        raise budget.too_slow() from None
    if isinstance(outcome, TimeFault):
        raise budget.too_slow()
    if isinstance(outcome, Fault):
        raise PathFault(f"a pattern: {outcome}")
    return bool(outcome)


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
