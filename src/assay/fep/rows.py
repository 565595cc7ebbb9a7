"""
Turns the rows of a table into contexts, cases or outputs, with the columns that `--map` names or that are recognised.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec

from assay.errors import BadLine, Problem
from assay.fep.column_map import ColumnMap, Part, find_columns, is_row
from assay.fep.files import SourceItem, check_readable, format_of, read_items
from assay.ports import Limits
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_object

TABLES = ("csv", "parquet")
MEMBERS: dict[Part, str | None] = {"context": None, "case": "test_cases", "output": "outputs"}
_encode = msgspec.json.Encoder().encode


def items_of(
    name: str, limits: Limits, part: Part, columns: Mapping[str, str] | None = None
) -> Iterator[SourceItem]:
    """The documents of a file; those that are rows become contexts, cases or outputs."""
    form, _ = format_of(name, "jsonl")
    pieces = read_items(name, limits, member=MEMBERS[part])
    first = next(pieces, None)
    if first is None:
        return
    table = form in TABLES
    if not table and not columns and not is_row(_document(first), part):
        yield first
        yield from pieces
        return
    mapping: ColumnMap | None = None
    for number, piece in enumerate(chain([first], pieces), 1):
        document = _document(piece)
        if not is_object(document):
            yield piece  # its problems are reported by the reader of contexts
            continue
        try:
            twice = duplicate_member(piece.raw, document) if piece.end else None  # others are not JSON lines
        except RecursionError:
            yield piece
            continue
        if twice is not None:
            yield piece._replace(raw=b"", problems=(Problem(twice, TWICE),))
            continue
        if mapping is None:
            mapping = find_columns(piece.columns or tuple(document), columns or {}, part, name, table=table)
        result, problems = mapping.apply(document, number)
        yield piece._replace(raw=b"" if problems else _encode(result), problems=tuple(problems))


def has_rows(name: str, limits: Limits, part: Part, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file has rows of a table. Raises UsageError, before anything runs, if a column is not found."""
    form, _ = format_of(name, "jsonl")
    check_readable(name)
    if name == "-" or form in ("json", "yaml"):
        return bool(columns)
    with suppress(BadLine):  # reported by the run, with what comes before it
        next(items_of(name, limits, part, columns), None)
    if form in TABLES or columns:
        return True
    with suppress(BadLine):
        first = next(read_items(name, limits), None)
        return first is not None and is_row(_document(first), part)
    return False


def split_columns(columns: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The columns of the cases, and those of the outputs."""
    every = columns or {}
    of_output = {target: column for target, column in every.items() if target == "output"}
    return {target: column for target, column in every.items() if target != "output"}, of_output


def _document(piece: SourceItem) -> Any:
    try:
        return None if piece.problems else msgspec.json.decode(piece.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
