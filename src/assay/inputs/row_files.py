"""Reads a file whose documents may be rows of a table."""

from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from assay.errors import BadLine, Problem, UsageError
from assay.inputs.cells import Cells
from assay.inputs.files import (
    BLOCK,
    SourceItem,
    check_readable,
    format_of,
    open_file,
    portion_start,
    read_items,
    table_columns,
)
from assay.inputs.places import InputTable
from assay.inputs.portions import Portion
from assay.inputs.rows import ROW_KINDS, ColumnMap, Part, find_columns, is_row
from assay.ports import Limits
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_object

MEMBERS: dict[Part, str | None] = {"context": None, "case": "test_cases", "output": "outputs"}
_encode = msgspec.json.Encoder().encode


def items_of(
    name: str,
    limits: Limits,
    part: Part,
    columns: Mapping[str, str] | None = None,
    table: InputTable | None = None,
    portion: Portion | None = None,
) -> Iterator[SourceItem]:
    """The documents of a file; those that are rows become contexts, cases or outputs. `table` gets their columns."""
    form, _ = format_of(name, "jsonl")
    pieces = read_items(name, limits, member=MEMBERS[part], portion=portion)
    first = next(pieces, None)
    kind = ROW_KINDS.get(form, "json")
    if first is None:
        if table is not None and (names := table_columns(name, limits)):
            table.note(names, find_columns(names, columns or {}, part, name, kind=kind), nested=True)
        return
    if kind == "json" and not columns and not is_row(_document(first), part):
        yield first
        yield from pieces
        return
    mapping: ColumnMap | None = None
    start = 1 if portion is None else 1 + portion_start(name, first, portion)
    for number, piece in enumerate(chain([first], pieces), start):
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
            names = piece.columns or tuple(document)
            mapping = find_columns(names, columns or {}, part, name, kind=kind)
            if table is not None:
                table.note(names, mapping, nested=kind != "json")
        result, problems = mapping.apply(Cells(document, piece.infinite), number)
        yield piece._replace(raw=b"" if problems else _encode(result), problems=tuple(problems))


def has_rows(
    name: str,
    limits: Limits,
    part: Part,
    columns: Mapping[str, str] | None = None,
    table: InputTable | None = None,
) -> bool:
    """Whether a file has rows of a table. Raises UsageError, before anything runs, if a column is not found."""
    form, _ = format_of(name, "jsonl")
    check_readable(name)
    if name == "-" or form in ("json", "yaml"):
        return bool(columns)
    check_encoding(name)
    with suppress(BadLine):  # reported by the run, with what comes before it
        next(items_of(name, limits, part, columns, table), None)
    if form in ROW_KINDS or columns:
        return True
    with suppress(BadLine):
        first = next(read_items(name, limits), None)
        return first is not None and is_row(_document(first), part)
    return False


def _document(piece: SourceItem) -> Any:
    try:
        return None if piece.problems else msgspec.json.decode(piece.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def check_encoding(name: str) -> None:
    """Raise UsageError for a CSV that is not UTF-8. What is no file on disk is not read here."""
    form, compressed = format_of(name, "jsonl")
    if form != "csv" or name == "-" or not Path(name).is_file():
        return
    decoder, line, block = getincrementaldecoder("utf-8")(), 1, b"-"
    with open_file(name, compressed=compressed) as file:
        while block:
            block = file.read(BLOCK)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as wrong:
                line += wrong.object[: wrong.start].count(b"\n")
                raise UsageError(
                    f"{name}:{line}: not UTF-8; save it as CSV UTF-8, or convert it, if it is of Windows (cp1252):",
                    f"next: iconv -f CP1252 -t UTF-8 {quote(name)} > utf8.csv",
                ) from None
            line += block.count(b"\n")
