"""Rows of CSV: a cell that a spreadsheet would take for a formula is text, by the apostrophe that OWASP recommends."""

import csv
import io
import re
from collections.abc import Iterable

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def cell(value: object) -> object:
    """`'=1+1` for `=1+1`; a number stays one."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def row(values: Iterable[object]) -> bytes:
    """One line of a file, with its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(
        [cell(value) for value in values]
    )  # which quotes a CR too
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"
