"""Reads the rows of CSV and Parquet files as objects, with the columns of their table."""

import csv
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from itertools import chain
from typing import IO, Any

import msgspec

from assay.errors import BadLine, EnvironmentFailure, Problem
from assay.extras import require
from assay.inputs.cells import Cells, read_cells
from assay.inputs.context import not_json, too_long
from assay.inputs.portions import Portion
from assay.ports import Limits
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_object

BOM = b"\xef\xbb\xbf"


def csv_rows(
    file: IO[bytes], name: str, limits: Limits, *, flat: bool
) -> Iterator[tuple[int, dict[str, Any], tuple[Problem, ...], tuple[str, ...]]]:
    """
    Yield rows as objects, with the columns.

    A row of empty cells is left out. Column `a.b` is the member `b` of the member `a`. Cells are text; an empty cell is
    absent.

    The cells of a column that ends in `:json` are JSON: numbers, lists, true and false.
    """
    header, reader = _open_csv(file, name, limits)
    columns = _columns(header)
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, *_row(header, row, flat=flat), columns
    except csv.Error as wrong:
        raise BadLine(f"{name}:{reader.line_num}", [Problem("", f"not CSV: {wrong}")]) from None


def csv_columns(file: IO[bytes], name: str, limits: Limits) -> tuple[str, ...]:
    """The columns of a CSV, also of one without rows."""
    header, _ = _open_csv(file, name, limits)
    return _columns(header)


def _open_csv(file: IO[bytes], name: str, limits: Limits) -> tuple[list[str], Any]:
    """The header, and a reader of the rows after it."""
    csv.field_size_limit(min(limits.max_line_bytes, sys.maxsize))
    lines = _text_lines(file, name, limits)
    first = next(lines, "")
    reader = csv.reader(chain([first], lines), strict=True, delimiter=_delimiter(first))
    try:
        header = [column.strip() for column in next(reader, list[str]())]
    except csv.Error as wrong:
        raise BadLine(f"{name}:{reader.line_num}", [Problem("", f"not CSV: {wrong}")]) from None
    duplicate = next((column for at, column in enumerate(header) if column and column in header[:at]), None)
    if duplicate is not None:
        raise BadLine(f"{name}:1", [Problem("", f"expected different columns, got {duplicate!r} twice")])
    return header, reader


def _columns(header: list[str]) -> tuple[str, ...]:
    """Without those of a spreadsheet after the last name; a table of pandas has its index in one without a name."""
    return tuple(dict.fromkeys(header[: max((at for at, one in enumerate(header, 1) if one), default=0)]))


def _delimiter(header: str) -> str:
    """A comma. If the header has none: a semicolon, as Excel writes in many countries, or a tab."""
    return next((one for one in ",;\t" if one in header), ",")


def _text_lines(file: IO[bytes], name: str, limits: Limits) -> Iterator[str]:
    """Decode line by line, so that an error has its line number and the lines before it are still read."""
    number = 0
    while line := file.readline(limits.max_line_bytes + 1):
        number += 1
        if len(line) > limits.max_line_bytes:
            raise BadLine(f"{name}:{number}", [Problem("", too_long(limits))])
        try:
            yield (line.removeprefix(BOM) if number == 1 else line).decode()
        except UnicodeDecodeError as wrong:
            raise BadLine(f"{name}:{number}", [Problem("", f"not UTF-8 (byte {wrong.start})")]) from None


def _row(header: list[str], row: list[str], *, flat: bool) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    if len(row) > len(header):
        return {}, (Problem("", f"expected {len(header)} cells, as in the header, got {len(row)}"),)
    document: dict[str, Any] = {}
    cells = [(column, cell) for column, cell in zip(header, row, strict=False) if cell]
    if flat:
        return dict(cells), ()
    problems = (_set_cell(document, column, cell) for column, cell in cells)
    return document, tuple(problem for problem in problems if problem is not None)


def is_nested(column: str) -> bool:
    """Whether a column is a member of an object, or a text that is JSON."""
    return "." in column or column.endswith(":json")


def nested_row(row: dict[str, Any]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """A row of a table with types, with the objects that the names of its columns address, as in CSV."""
    document: dict[str, Any] = {}
    cells = ((column, deepcopy(cell) if is_object(cell) else cell) for column, cell in row.items())
    problems = [_set_cell(document, column, cell) for column, cell in cells]
    return document, tuple(problem for problem in problems if problem is not None)


def _set_cell(document: dict[str, Any], column: str, value: Any) -> Problem | None:
    text = value if column.endswith(":json") else None
    column = column.removesuffix(":json")
    if isinstance(text, str):
        try:
            value = msgspec.json.decode(text.encode())
            twice = duplicate_member(text.encode(), value, column)
        except (msgspec.DecodeError, RecursionError) as wrong:
            return Problem(column, not_json(text.encode(), wrong))
        if twice is not None:
            return Problem(twice, TWICE)
    *outer, last = column.split(".")
    for name in outer:
        inner = document.setdefault(name, {})
        if not is_object(inner):
            return Problem(column, f"expected a column {name!r} or columns for its members, got both")
        document = inner
    if last in document:
        return Problem(column, "expected one column for this member, got two")
    document[last] = value
    return None


# Reads the rows of a Parquet file, batch by batch. It needs the extra `tables`.

BATCH = 1_024  # rows in memory


def parquet_rows(
    file: IO[bytes], name: str, portion: Portion | None = None
) -> Iterator[tuple[int, Cells, tuple[str, ...]]]:
    """
    Yield rows with their numbers and the columns of the file. A null, or a number that is missing (NaN), is absent.

    `portion`: only its row groups.
    """
    with _open_parquet(file, name) as table:
        columns = tuple(table.schema_arrow.names)
        first, last = (portion or Portion(1, 1)).range_of(table.num_row_groups)
        number = sum(table.metadata.row_group(at).num_rows for at in range(first))
        for batch in table.iter_batches(batch_size=BATCH, row_groups=list(range(first, last))):
            for row in batch.to_pylist():
                number += 1
                yield number, read_cells(row), columns


def parquet_columns(file: IO[bytes], name: str) -> tuple[str, ...]:
    """The columns of a Parquet file, also of one without rows."""
    with _open_parquet(file, name) as table:
        return tuple(table.schema_arrow.names)


@contextmanager
def _open_parquet(file: IO[bytes], name: str) -> Generator[Any]:
    require(name, "tables", package="pyarrow")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        yield parquet.ParquetFile(file)
    except arrow.ArrowException as wrong:
        raise EnvironmentFailure(f"{name}: expected a Parquet file, got {wrong}") from None
