r"""
Text for a terminal: a character that moves the cursor, or hides or reorders other characters, is shown as its escape,
`\x1b` for ESC.

Every text for a person passes `one_line` or `lines`. Every JSON document passes `as_json_escapes`, which keeps its
meaning.

In GitHub Actions, a line that begins with `::`, and a line with `##[`, is a command to the runner. There these are
escaped too.
"""

import os
import re

from assay.lazy_pattern import lazy_pattern

# Controls (C0, DEL, C1), line separators, bidirectional overrides, characters without a width, tags, lone surrogates.
_HOSTILE = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e00ff"
)
# Joiners and variation selectors belong to the character before them in many scripts and in emoji; after ASCII or each
# other they hide.
_JOINERS = "\u200c\u200d\ufe00-\ufe0e\U000e0100-\U000e01ef"
_ESCAPED = lazy_pattern(
    f"[{_HOSTILE}]|(?<![^\x00-\x7f{_JOINERS}])[{_JOINERS}]|(?<![^\x00-\x22\x24-\x29\x2b-\x2f\x3a-\x7f\ufe0f])\ufe0f"
)
_IN_JSON = lazy_pattern(f"(?![\x00-\x1f])[{_HOSTILE}]")  # JSON escapes controls below U+0020 already
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """
    The text with an escape for every character that could deceive its reader or the runner of a workflow, also for
    newlines.
    """
    escaped = escape_characters(text)
    if "##[" in escaped and _is_workflow():
        escaped = escaped.replace("##[", "#\\x23[")
    if "::" in escaped and escaped.lstrip().startswith("::") and _is_workflow():
        escaped = escaped.replace("::", "\\x3a:", 1)
    return escaped


def _is_workflow() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def escape_characters(text: str) -> str:
    """`one_line` for a line that is a command of assay to the runner of a workflow."""
    return text if text.isascii() and text.isprintable() else _ESCAPED.sub(_escape, text)


def lines(text: str, indent: str = "  ") -> str:
    """
    A text of several lines, escaped. Each line after the first is indented, so that none looks like a line of assay.
    """
    return f"\n{indent}".join(map(one_line, text.splitlines() or [""]))


def as_json_escapes(document: str) -> str:
    """The same JSON document with its hostile characters as escapes."""
    if "##[" in document and _is_workflow():
        document = document.replace("##[", "#\\u0023[")
    if document.isascii() and "\x7f" not in document:
        return document
    return _IN_JSON.sub(_json_escape, document)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _json_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def count_of(number: int, noun: str) -> str:
    """`1 case`, `2,000 cases`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"
