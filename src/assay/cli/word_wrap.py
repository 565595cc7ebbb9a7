"""Lines for a terminal: they wrap at words, a number keeps its unit, and a later line is indented."""

import os
import re
import unicodedata
from typing import TextIO

MIN_WIDTH = 20
_BREAK = re.compile(
    r" +(?!(?:ms|s|min|h|%|of|MB|kB)\b)|(?<![0-9]) +"
)  # no break between a number and its unit


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal; None if the stream is not a terminal, so that lines of a file never wrap."""
    if not stream.isatty():
        return None
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    given = os.environ.get("COLUMNS", "")
    columns = int(given) if given.isdigit() and int(given) else columns
    return max(columns, MIN_WIDTH) if columns else None


def wrap(text: str, width: int | None, indent: str | None = None) -> list[str]:
    """
    The lines of one line of text. A word that is wider than the line, such as a command's id, stays whole.

    A later line begins with `indent`. Default: the indent of the text and two more columns.
    """
    if width is None or columns_of(text) <= width:
        return [text]
    starts = break_points(text, width, indent)
    own = later_indent(text) if indent is None else indent
    lines = [text[at:end].rstrip(" ") for at, end in zip([0, *starts], [*starts, len(text)], strict=True)]
    return [lines[0], *(own + line for line in lines[1:])]


def break_points(text: str, width: int, indent: str | None = None) -> list[int]:
    """Where the later lines of a text begin."""
    later = len(later_indent(text) if indent is None else indent)
    first = len(text) - len(text.lstrip(" "))
    points: list[int] = []
    start, last, room = 0, None, width
    for match in [*_BREAK.finditer(text, first), None]:
        end = len(text) if match is None else match.start()
        if columns_of(text[start:end]) > room and last is not None:
            points.append(last)
            start, room = last, max(width - later, MIN_WIDTH // 2)
        last = None if match is None else match.end()
    return points


def later_indent(text: str) -> str:
    """The indent of the lines after the first."""
    return " " * (len(text) - len(text.lstrip(" ")) + 2)


def columns_of(text: str) -> int:
    """The columns that a text takes: a wide character takes two."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
