"""Regular expressions of JavaScript as those of Python's `re`."""

import re

from assay.interchange.imported import CannotCarry

_DIGIT, _WORD = "0-9", "A-Za-z0-9_"
_LINE_END = r"\n\r\u2028\u2029"
SPACE = (
    r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"  # not all that Python takes for it
)
_NO_SPACE = (
    r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    r"\u3001-\ufefe\uff00-\U0010ffff"
)
_OUTSIDE = {
    "d": f"[{_DIGIT}]",
    "D": f"[^{_DIGIT}]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "s": f"[{SPACE}]",
    "S": f"[^{SPACE}]",
    "b": r"(?a:\b)",
    "B": r"(?a:\B)",
    "/": "/",
    "-": "-",
}
_INSIDE = {"d": _DIGIT, "w": _WORD, "s": SPACE, "S": _NO_SPACE, "b": r"\x08", "/": "/"}
_SAME = frozenset("nrtfv0123456789ux\\^$.*+?()[]{}|")
_HEX = re.compile(r"u\{([0-9a-fA-F]{1,6})\}")


def python_pattern(pattern: str) -> str:
    """The same pattern for Python. Raises CannotCarry for one that has no equal there."""
    made = _translated(pattern)
    try:
        re.compile(made)
    except (re.error, OverflowError, RecursionError) as wrong:
        raise CannotCarry(f"the pattern is none of Python's: {wrong}") from None
    return made


def _translated(pattern: str) -> str:
    done: list[str] = []
    at, inside = 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\" and at + 1 < len(pattern):
            text, at = _escape(pattern, at + 1, inside=inside)
            done.append(text)
            continue
        if inside:
            inside = character != "]"
            done.append("\\[" if character == "[" else character)
        elif character == "[":
            inside = True
            empty = next((one for one in ("[^]", "[]") if pattern.startswith(one, at)), None)
            if empty is not None:  # any character, and none
                done.append(r"[\s\S]" if empty == "[^]" else r"(?!)")
                at, inside = at + len(empty), False
                continue
            done.append("[")
        elif character == "$":
            done.append(r"\Z")
        elif character == ".":
            done.append(f"[^{_LINE_END}]")
        elif pattern.startswith("(?<", at) and pattern[at + 3 : at + 4] not in ("=", "!"):
            done.append("(?P<")
            at += 3
            continue
        else:
            done.append(character)
        at += 1
    return "".join(done)


def _escape(pattern: str, at: int, *, inside: bool) -> tuple[str, int]:
    """The translation of what follows a backslash, and the place after it."""
    letter = pattern[at]
    table = _INSIDE if inside else _OUTSIDE
    if letter in table:
        return table[letter], at + 1
    if letter == "k" and (name := re.compile(r"k<(\w+)>").match(pattern, at)):
        return f"(?P={name[1]})", name.end()
    if letter == "u" and (code := _HEX.match(pattern, at)):
        return f"\\U{int(code[1], 16):08x}", code.end()
    if letter in _SAME:
        return f"\\{letter}", at + 1
    if letter.isascii() and letter.isalpha():
        raise CannotCarry(f"the pattern has \\{letter}, which Python's patterns do not have")
    return f"\\{letter}" if inside or not letter.isalnum() else letter, at + 1
