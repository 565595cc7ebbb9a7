"""Reads JSON, JSON lines, YAML, CSV and Parquet, plain or gzipped, as streams of documents with places."""

import csv
import gzip
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec

from assay.errors import BadLine, EnvironmentFailure, InvalidRequest, Problem, UsageError
from assay.extras import require
from assay.inputs.cells import Cells, read_cells
from assay.inputs.context import CONTAINERS, not_json, to_json_document, too_long
from assay.inputs.yaml_reader import read_yaml
from assay.ports import Limits
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_list, is_object, kind_of

Format = Literal["json", "jsonl", "yaml", "csv", "parquet"]
FORMATS: dict[str, Format] = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
BLOCK = 1 << 18
_BOM = b"\xef\xbb\xbf"


class SourceItem(NamedTuple):
    """One document of a file, as JSON bytes, and its place: `cases.jsonl:7`, `cases.yaml[2]`."""

    prefix: str  # the place up to the number: `cases.jsonl:`, `cases.yaml[`
    number: int
    raw: bytes
    end: int = 0  # the offset in the file after it
    problems: tuple[Problem, ...] = ()  # why it is not JSON; `raw` is then empty
    columns: tuple[str, ...] = ()  # of the table that it is a row of, also those whose cell is empty
    suffix: str = ""  # of the place, such as the place of the output that belongs to a case
    infinite: tuple[str, ...] = ()  # of a row with types: where a text stands for an infinite number

    @property
    def location(self) -> str:
        return self.location_of(self.number) + self.suffix

    def location_of(self, number: int) -> str:
        """The place of another document of the file."""
        return f"{self.prefix}{number}{']' if self.prefix.endswith('[') else ''}"


def format_of(name: str, default: Format) -> tuple[Format, bool]:
    """The format of a file by its extension, and whether it is gzipped. `-` has the default format."""
    if name == "-":
        return default, False
    path = Path(name.lower())
    compressed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if compressed else path.suffix
    if suffix not in FORMATS:
        advice = "save the sheet as CSV (UTF-8), or read it with pandas.read_excel and assay.evaluate"
        raise UsageError(
            f"{name}: expected a file that ends in {', '.join(FORMATS)}, or in one of these and .gz",
            *([advice] if suffix in (".xlsx", ".xls", ".ods") else []),
        )
    return FORMATS[suffix], compressed


@contextmanager
def open_file(name: str, *, compressed: bool) -> Generator[IO[bytes]]:
    """Open a file to read. An error becomes a UsageError or EnvironmentFailure with a message of one line."""
    try:
        if name == "-":
            yield sys.stdin.buffer
        else:
            with gzip.open(name, "rb") if compressed else Path(name).open("rb") as file:
                yield file  # pyright: ignore[reportReturnType]
    except FileNotFoundError:
        raise UsageError(f"{name}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{name}: expected a file, got a folder") from None
    except PermissionError:
        raise UsageError(f"{name}: expected a file that can be read, got Permission denied") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as wrong:
        raise EnvironmentFailure(f"{name}: the gzip data is broken: {wrong}") from None
    except OSError as wrong:
        raise EnvironmentFailure(
            f"{name}: expected a file that can be read, got {wrong.strerror or wrong}"
        ) from None


def check_readable(name: str) -> None:
    """Raise an error for a file that cannot be opened. Call it before other work starts."""
    _, compressed = format_of(name, "jsonl")
    with open_file(name, compressed=compressed):
        pass


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """
    The content as it comes, in blocks of one read each.

    `file.read` would wait for a whole block, and a signal between two reads of a pipe would wait with it.
    """
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    block = read(BLOCK)
    while 0 < len(block) < len(_BOM) and (more := read(BLOCK)):  # the mark is in the first block
        block += more
    while block:
        yield block
        block = read(BLOCK)


def lines_of(file: IO[bytes], limits: Limits) -> Iterator[tuple[int, bytes, int]]:
    """
    Yield the lines that are not blank: the number, the stripped text, and the offset in the file after it.

    A line over the limit is not held in full. The part that is yielded is also over the limit.
    """
    held: list[bytes] = []
    size, number, end = 0, 0, 0
    for block in _blocks(file):
        text = block
        if end == 0 and number == 0 and not held and block.startswith(_BOM):
            text, end = block.removeprefix(_BOM), len(_BOM)
        lines = text.split(b"\n")
        tail = lines.pop()
        if lines and held:
            lines[0] = b"".join((*held, lines[0]))
            held, size = [], 0
        for line in lines:
            number += 1
            end += len(line) + 1
            if line := line.strip():
                yield number, line, end
        if size <= limits.max_line_bytes:
            held.append(tail)
        size += len(tail)
    if line := b"".join(held).strip():
        yield number + 1, line, end + size


class LineItems:
    """The lines of a plain or gzipped file as items. A reader that needs only their texts iterates over `lines`."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name, self._limits = name, limits

    def lines(self) -> Iterator[tuple[int, bytes, int]]:
        """The number of each line, its text, and the offset in the file after it."""
        _, compressed = format_of(self.name, "jsonl")
        with open_file(self.name, compressed=compressed) as file:
            yield from lines_of(file, self._limits)

    def __iter__(self) -> Iterator[SourceItem]:
        for number, line, end in self.lines():
            yield SourceItem(f"{self.name}:", number, line, end)


def read_items(
    name: str, limits: Limits, default: Format = "jsonl", member: str | None = None, *, flat: bool = False
) -> Iterator[SourceItem]:
    """
    The documents of a file: the lines of JSONL, the items of a JSON or YAML list, the rows of a CSV.

    With `member`, the list may also be this member of an object; its other members are not read. `flat`: a dot in the
    name of a column is one like any other.
    """
    form, compressed = format_of(name, default)
    with open_file(name, compressed=compressed) as file:
        if form == "jsonl":
            for number, line, end in lines_of(file, limits):
                yield SourceItem(f"{name}:", number, line, end)
        elif form == "csv":
            for number, row, problems, columns in _rows(file, name, limits, flat=flat):
                raw = b"" if problems else msgspec.json.encode(row)
                yield SourceItem(f"{name}:", number, raw, 0, problems, columns)
        elif form == "parquet":
            for at, ((row, infinite), columns) in enumerate(parquet_rows(file, name), 1):
                nested, wrong = nested_row(row) if not flat and any(map(is_nested, row)) else (row, ())
                _, encoded, unlike_json = to_json_document(nested, "", limits)
                wrong += tuple(unlike_json)
                raw = b"" if wrong else encoded
                yield SourceItem(f"{name}:", at, raw, 0, wrong, columns, infinite=infinite)
        else:
            location, items = _list_items(_read_document(file, name, form, limits), name, member)
            for at, item in enumerate(items):
                _, encoded, problems = to_json_document(item, "", limits)
                raw = b"" if problems else encoded
                yield SourceItem(f"{location}[", at, raw, 0, tuple(problems))


def _list_items(document: Any, name: str, member: str | None) -> tuple[str, list[Any]]:
    """The items of a document, and the place of their list."""
    if document is None:
        return name, []  # an empty YAML file
    if is_list(document):
        return name, document
    if member is not None and is_object(document) and member in document:
        inner = document[member]
        if is_list(inner):
            return f"{name}: {member}", inner
        raise BadLine(name, [Problem(member, f"expected a list, got {kind_of(inner)}")])
    within = "" if member is None else f", an object with the member {member}"
    expected = f"expected a list{within}, or one document a line in a .jsonl file"
    raise BadLine(name, [Problem("", f"{expected}, got {kind_of(document)}")])


def document_of(name: str, limits: Limits, default: Format = "json") -> Any:
    """Read a file as one document. A file of JSON lines or CSV is a list of its items."""
    form, compressed = format_of(name, default)
    try:
        if form in ("jsonl", "csv", "parquet"):
            return [_decode_item(item) for item in read_items(name, limits, default)]
        with open_file(name, compressed=compressed) as file:
            return _read_document(file, name, form, limits)
    except BadLine as bad:  # the document is refused as a whole: no part of it was used
        raise InvalidRequest(bad.problems) from None


def _decode_item(item: SourceItem) -> Any:
    if item.problems:
        raise BadLine(item.location, item.problems)
    return _parse_json(item.raw, item.location)


def _read_document(file: IO[bytes], name: str, form: Format, limits: Limits) -> Any:
    held = bytearray()  # one read of the limit would allocate all of it beforehand
    for block in _blocks(file):
        held += block
        if len(held) > limits.max_request_bytes:
            break
    if len(held) > limits.max_request_bytes:
        raise UsageError(
            f"{name}: more than {limits.max_request_bytes} bytes, which is the limit for one document"
            " (raise it with ASSAY_MAX_REQUEST_BYTES, or give a .jsonl file, which is read line by line)"
        )
    data = bytes(held).removeprefix(_BOM)
    if form != "json":
        return read_yaml(data, name)
    return _json_or_yaml(data, name) if name == "-" else _parse_json(data, name)


def _json_or_yaml(data: bytes, name: str) -> Any:
    """Read data without a file extension: as JSON, or as YAML if it does not start with `{` or `[`."""
    try:
        return _parse_json(data, name)
    except BadLine:
        if data.lstrip()[:1] in (b"{", b"["):
            raise
        document = read_yaml(data, name)
        if not isinstance(document, CONTAINERS):
            raise
        return document


def _parse_json(data: bytes, path: str) -> Any:
    try:
        document = msgspec.json.decode(data)
        twice = duplicate_member(data, document)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        line = data[: _byte_offset(wrong)].rstrip().count(b"\n") + 1
        raise BadLine(f"{path}:{line}" if line > 1 else path, [Problem("", not_json(data, wrong))]) from None
    except RecursionError:
        raise BadLine(path, [Problem("", "expected a value that is not nested so deeply")]) from None
    if twice is not None:
        raise BadLine(path, [Problem(twice, TWICE)])
    return document


def _byte_offset(error: Exception) -> int:
    """The offset of a JSON error. The error of a truncated document is at its end."""
    _, _, rest = str(error).partition("(byte ")
    return int(rest.rstrip(")")) if rest.rstrip(")").isdigit() else sys.maxsize


def _rows(
    file: IO[bytes], name: str, limits: Limits, *, flat: bool
) -> Iterator[tuple[int, dict[str, Any], tuple[Problem, ...], tuple[str, ...]]]:
    """
    Yield rows as objects, with the columns.

    A row of empty cells is left out. Column `a.b` is the member `b` of the member `a`. Cells are text; an empty cell is
    absent.

    The cells of a column that ends in `:json` are JSON: numbers, lists, true and false.
    """
    csv.field_size_limit(min(limits.max_line_bytes, sys.maxsize))
    lines = _text_lines(file, name, limits)
    first = next(lines, "")
    reader = csv.reader(chain([first], lines), strict=True, delimiter=_delimiter(first))
    try:
        header = [column.strip() for column in next(reader, list[str]())]
        duplicate = next(
            (column for at, column in enumerate(header) if column and column in header[:at]), None
        )
        if duplicate is not None:
            raise BadLine(f"{name}:1", [Problem("", f"expected different columns, got {duplicate!r} twice")])
        # without those of a spreadsheet after the last name; a table of pandas has its index in one without a name
        columns = tuple(
            dict.fromkeys(header[: max((at for at, one in enumerate(header, 1) if one), default=0)])
        )
        for row in reader:
            if any(row):
                yield reader.line_num, *_row(header, row, flat=flat), columns
    except csv.Error as wrong:
        raise BadLine(f"{name}:{reader.line_num}", [Problem("", f"not CSV: {wrong}")]) from None


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
            yield (line.removeprefix(_BOM) if number == 1 else line).decode()
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


def parquet_rows(file: IO[bytes], name: str) -> Iterator[tuple[Cells, tuple[str, ...]]]:
    """Yield rows with the columns of the file. A null, or a number that is missing (NaN), is absent."""
    require(name, "tables", package="pyarrow")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        table = parquet.ParquetFile(file)
        columns = tuple(table.schema_arrow.names)
        for batch in table.iter_batches(batch_size=BATCH):
            for row in batch.to_pylist():
                yield read_cells(row), columns
    except arrow.ArrowException as wrong:
        raise EnvironmentFailure(f"{name}: expected a Parquet file, got {wrong}") from None
