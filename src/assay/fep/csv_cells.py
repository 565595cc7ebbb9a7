"""Rows of CSV. A cell that a spreadsheet would read as a formula gets an apostrophe in front, as OWASP recommends."""

import csv
import io
import re
from collections.abc import Iterable

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def escape_cell(value: object) -> object:
    """`'=1+1` for `=1+1`; numbers are not changed."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def encode_row(values: Iterable[object]) -> bytes:
    """One encoded row with its line end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(
        [escape_cell(value) for value in values]
    )  # it also quotes a cell with a CR
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"
