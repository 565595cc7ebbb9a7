"""
I-Regexp (RFC 9485), what match() and search() take: a checked text → a pattern of the module `regex`.

Our own check, since iregexp_check 0.1.4 refuses `a{10}` and overflows the stack on deep nesting; and with a limit,
since `regex` writes repeats out when it compiles: `((a{999}){999}){999}`, or thirty `+` one in another, would
take all memory there is.
"""

import re
from functools import lru_cache

import regex

from assay.errors import PathFault

MAX_PATTERN = 2_000  # characters
MAX_STEPS = 10_000  # once repeats are written out

_ESCAPED = r"\\[()*+\-.?\[\\\]^nrt{|}]"
_CATEGORY = r"\\[pP]\{(?:L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|Z[lps]?|S[ckmo]?|C[cfno]?)\}"
_MEMBER = rf"(?:[^\-\[\\\]\ud800-\udfff]|{_ESCAPED})"
_MEMBERS = rf"{_MEMBER}(?:-{_MEMBER})?|{_CATEGORY}"
_CLASS = rf"\[\^?(?:-|{_MEMBERS})(?:{_MEMBERS})*-?\]"
_NORMAL = r"[^()*+.?\[\\\]{|}\ud800-\udfff]"
_REPEAT = r"[*?]|(?P<plus>\+)|\{(?P<least>[0-9]+)(?:,[0-9]*)?\}"
_PIECE = re.compile(rf"(?:(?P<atom>\.|{_NORMAL}|{_ESCAPED}|{_CATEGORY}|{_CLASS})|\))(?:{_REPEAT})?|[(|]")


@lru_cache(maxsize=64)
def pattern(text: str) -> "regex.Pattern[str] | None":
    """The pattern, or None if the text is no I-Regexp; PathFault if it is too large a one."""
    if len(text) > MAX_PATTERN:
        raise PathFault(f"a pattern has at most {MAX_PATTERN} characters")
    translated = _translate(text)
    try:
        return None if translated is None else regex.compile(translated, cache_pattern=False)
    except regex.error:  # well-formed and meaningless: [b-a], a{2,1}
        return None


def _translate(text: str) -> str | None:
    parts: list[str] = []
    steps = [0]  # of each group that is open
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        at = piece.end()
        if piece[0] == "(":
            steps.append(0)
            parts.append("(?:")  # nobody asks what a group caught
            continue
        if piece[0] != "|":
            if piece["atom"] is None and len(steps) == 1:
                return None  # a ) without its (
            once = 1 if piece["atom"] else steps.pop() + 1
            least = 1 if piece["plus"] else int(piece["least"] or 0)
            steps[-1] += once * (least + 1)  # so many copies, and the loop
        parts.append(r"[^\r\n]" + piece[0][1:] if piece["atom"] == "." else piece[0])
    if max(steps) > MAX_STEPS:
        raise PathFault(f"a pattern has at most {MAX_STEPS} steps, its repeats written out")
    return "".join(parts) if len(steps) == 1 else None
