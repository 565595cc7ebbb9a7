"""Rows of CSV. A cell that a spreadsheet would read as a formula gets an apostrophe in front, as OWASP recommends."""

import re
from collections.abc import Iterable
from functools import lru_cache

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r'[",\r\n]')
FEW = 64  # characters of a text that may come again, such as the type of a check


def escape_cell(value: object) -> object:
    """`'=1+1` for `=1+1`; numbers are not changed."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def encode_row(values: Iterable[object]) -> bytes:
    """One encoded row with its line end."""
    return encode_cells(values).encode() + b"\n"


def encode_cells(values: Iterable[object]) -> str:
    """
    Cells with commas between them, as `csv.writer` writes them: a test compares both.

    A part of a row that comes again is encoded once. A row of one empty cell is not written so.
    """
    return ",".join(
        [
            ""
            if value is None
            else _known(value)
            if type(value) is str and len(value) < FEW
            else _cell(value)
            for value in values
        ]
    )


def _cell(value: object) -> str:
    text = str(escape_cell(value))
    if _QUOTED.search(text) is None:
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def encode_text(text: str) -> str:
    """`encode_cells` of one text."""
    return _known(text) if len(text) < FEW else _cell(text)


_known = lru_cache(maxsize=4_096)(_cell)
