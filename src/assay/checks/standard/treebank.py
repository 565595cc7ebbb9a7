"""Words as the Penn Treebank separates them, in the way of js-rouge 3.2, which promptfoo measures ROUGE with."""

import re
from itertools import pairwise
from unicodedata import category, normalize

_SPACES = re.compile("[\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_QUOTES = re.compile("``|''|\"")
_RULES = [
    (re.compile(pattern, re.ASCII), into)
    for pattern, into in (
        (r"\.{3}", " ... "),
        (r"[;@#$%&]", r" \g<0> "),
        (r"([^.])(?<!\b[A-Za-z]\.[A-Za-z])(\.)([\])}>'\s]*)\Z", r"\1 \2\3 "),
        (r"[?!]", r" \g<0> "),
        (r"[\][(){}<>]", r" \g<0> "),
        (r"--", " -- "),
    )
]
_SEPARATORS = re.compile(r"[:,](?!\d)")  # a digit of any script
_ENDINGS = [
    (re.compile(pattern), into)
    for pattern, into in (
        (r"([^'])' ", r"\1 ' "),
        (r"'([sSmMdD]) ", r" '\1 "),
        (r"('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r" \1 "),
    )
]
_CONTRACTIONS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        "(can)(not)", "(d)('ye)", "(gim)(me)", "(gon)(na)", "(got)(ta)", "(lem)(me)", "(more)('n)", "(wan)(na)(?= )",
        "('t)(is)", "('t)(was)",
    )
]  # fmt: skip
_MARKER_END = re.compile(r"[\s.,;:!?\"'“‘”’\])}>]")


def treebank_words(text: str) -> list[str]:
    """The words and signs of a text."""
    text = _SPACES.sub(" ", text).strip(" ")
    if not text:
        return []
    text = _quotes(text)
    first, *others = _RULES
    text = _SEPARATORS.sub(r" \g<0> ", first[0].sub(first[1], text))
    for pattern, into in others:
        text = pattern.sub(into, text)
    text = f" {text} "
    for pattern, into in _ENDINGS:
        text = pattern.sub(into, text)
    for pattern in _CONTRACTIONS:
        text = pattern.sub(_parted, text)
    return [one for one in text.split(" ") if one] or [""]


def _parted(found: re.Match[str]) -> str:
    text, start, end = found.string, found.start(), found.end()
    if _continues(text[start - 1 : start]) or _continues(text[end : end + 1]):
        return found[0]
    return f" {found[1]} {found[2]} "


def _continues(character: str) -> bool:
    """Whether a character goes on with a word."""
    return character in ("\u200c", "\u200d") or (bool(character) and f"a{character}".isidentifier())


# Double quotes open or close what is quoted.


def _quotes(text: str) -> str:
    parts: list[str] = []
    at, inside = 0, False
    marks = list(_QUOTES.finditer(text))
    followed = {mark.start(): after[0] for mark, after in pairwise(marks)}
    for mark in marks:
        inside = mark[0] == "``" or (
            not inside
            and (mark.end() < len(text) or not mark.start() or _is_open(text[mark.start() - 1]))
            and _opens(text, mark.start())
            and text[mark.start() - 1 : mark.start()] not in (".", "!", "?")
            and (mark[0] == '"' or _opens_single(text, mark, followed.get(mark.start())))
        )
        parts += [text[at : mark.start()], " `` " if inside else " '' "]
        at = mark.end()
    return "".join([*parts, text[at:]])


def _is_open(character: str) -> bool:
    return character in " <" or category(character) == "Ps"


def _opens(text: str, at: int) -> bool:
    if not at or text[max(0, at - 2) : at] == "``":
        return True
    before = text[at - 1]
    return before in " <" or category(before).startswith("P") or _follows_marker(text, at)


def _opens_single(text: str, mark: re.Match[str], following: str | None) -> bool:
    """Two single quotes open if a word comes, and two single quotes end it."""
    if not mark.start() or mark.end() >= len(text):
        return False
    kind = category(text[mark.end()])
    return (kind[0] in "LN" or kind in ("Sc", "Ps")) and following == "''"


def _follows_marker(text: str, at: int) -> bool:
    """After a raised letter that marks a footnote behind the end of a sentence."""
    marker = text[at - 1]
    if category(marker) != "Lm" or normalize("NFKC", marker) == marker:
        return False
    if not _MARKER_END.match(text[at : at + 1] or " "):
        return False
    start = at - 1
    while start and category(text[start - 1]).startswith("N"):
        start -= 1
    return re.search(r"[.!?][\"'”’]\Z", text[max(0, start - 2) : start]) is not None
