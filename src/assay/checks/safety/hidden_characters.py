"""Characters that hide or reorder text: bidirectional controls, zero-width characters, tags, variation selectors."""

import re
import unicodedata
from collections.abc import Iterator

Span = tuple[int, int, str]

_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
_WIDTHLESS = (
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
)
_RUN = re.compile(f"[{_WIDTHLESS}]+")
_JOINERS = "\u200c\u200d"
_QUICK = re.compile(f"[{_WIDTHLESS}\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f\U000e0000-\U000e01ef]")
# Scripts that write without spaces, where U+200B marks where a line may end.
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
# Scripts that need the joiners: Arabic, Syriac, N'Ko, the scripts of India and its neighbours, Mongolian.
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ua840-\ua87f\ua880-\ua9df\uaa00-\uaadf\ufb50-\ufdff\ufe70-\ufefc]"
)
_ISOLATES = "\u2066\u2067\u2068"
_EMBEDDINGS = "\u202a\u202b"


def hidden_spans(text: str) -> Iterator[Span]:
    """Start, end and rule of every hidden character that ordinary writing does not need."""
    if text.isascii() or _QUICK.search(text) is None:
        return
    yield from _reordered(text)
    flags = {match.start() + 1 for match in _FLAG.finditer(text)}
    for match in _TAGS.finditer(text):
        if match.start() not in flags:
            yield match.start(), match.end(), "tag-characters"
    for match in _SELECTORS.finditer(text):
        yield match.start(), match.end(), "variation-selectors"
    for match in _RUN.finditer(text):
        if not _is_ordinary(text, match.start(), match.end()):
            yield match.start(), match.end(), "zero-width"


def _reordered(text: str) -> Iterator[Span]:
    """Overrides, and embeddings or isolates that their line does not end."""
    stack = list[tuple[str, int]]()
    for match in re.finditer("[\u202a-\u202e\u2066-\u2069\n\r\u2029]", text):
        character, start = match[0], match.start()
        if character in "\n\r\u2029":
            yield from ((at, at + 1, "bidirectional-control") for _, at in stack)
            stack.clear()
        elif character in "\u202d\u202e":
            yield start, start + 1, "bidirectional-override"
        elif character in _ISOLATES + _EMBEDDINGS:
            stack.append((character, start))
        elif stack and (stack[-1][0] in _EMBEDDINGS) == (character == "\u202c"):
            stack.pop()
    yield from ((at, at + 1, "bidirectional-control") for _, at in stack)


def _is_ordinary(text: str, start: int, end: int) -> bool:
    """
    Whether writing needs these characters here: a joiner in a script or an emoji that uses it, a soft hyphen, a mark at
    the start of a file.
    """
    before, after = text[start - 1 : start], text[end : end + 1]
    if end - start > 1:
        return False
    character = text[start]
    if character == "\u00ad":
        return before.isalpha() and after.isalpha()
    if character == "\ufeff":
        return start == 0
    if character == "\u061c":
        return True
    if character in _JOINERS:
        joins = _JOINING.match(before) is not None or _JOINING.match(after) is not None
        return joins or (character == "\u200d" and _is_emoji(before) and _is_emoji(after))
    if character == "\u200b":
        return _SPACELESS.match(before) is not None or _SPACELESS.match(after) is not None
    if character == "\u180e":
        return "\u1800" <= before <= "\u18af"
    if character == "\u2060":
        return not (before.isalpha() and after.isalpha())
    return character in "\u115f\u1160" and "\u1100" <= (after or " ") <= "\u11ff"


def _is_emoji(character: str) -> bool:
    """An emoji, its skin tone or its variation selector."""
    return bool(character) and (
        character == "\ufe0f" or unicodedata.category(character) in ("So", "Sk", "Sm")
    )
