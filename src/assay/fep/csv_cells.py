"""Rows of CSV. A cell that a spreadsheet would read as a formula gets an apostrophe in front, as OWASP recommends."""

import re
from collections.abc import Iterable

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ORDINARY = "{[('_"  # a text that begins with one of these, with a letter or with a digit is not a formula


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
            encode_text(value) if type(value) is str else "" if value is None else str(escape_cell(value))
            for value in values
        ]
    )


def encode_text(text: str) -> str:
    """One cell with a text."""
    first = text[:1]
    if not first.isalnum() and first not in _ORDINARY:
        text = str(escape_cell(text))
    if '"' in text:
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return f'"{text}"' if "," in text or "\n" in text or "\r" in text else text
