"""The one door of the command's words: a line on standard output or standard error, and a document for a machine."""

import sys
from typing import TextIO

from assay.terminal import as_json_escapes, lines, one_line


def say(text: str) -> None:
    """One clear line on standard error."""
    _put(f"assay: {one_line(text)}", sys.stderr)


def note(text: str) -> None:
    """One line on standard error that needs no name before it."""
    _put(one_line(text), sys.stderr)


def tell(text: str, *, now: bool = False) -> None:
    """One line on standard output; `now` where a reader waits for it."""
    _put(one_line(text), sys.stdout)
    if now:
        sys.stdout.flush()


def tell_lines(text: str) -> None:
    """A text of several lines on standard output, the later ones indented."""
    _put(lines(text), sys.stdout)


def tell_rows(rows: list[tuple[str, ...]]) -> None:
    """A table of plain columns on standard output."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        _put("  ".join(map(str.ljust, row, widths)).rstrip(), sys.stdout)


def give(document: bytes | str, to: TextIO | None = None) -> None:
    """A JSON document on standard output."""
    text = document.decode() if isinstance(document, bytes) else document
    _put(as_json_escapes(text), to or sys.stdout)


def _put(text: str, to: TextIO) -> None:
    print(text, file=to)
