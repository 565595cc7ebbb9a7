"""Reads JSON, JSON lines, YAML, CSV and Parquet, plain or gzipped, as streams of documents with places."""

import gzip
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec

from assay.errors import BadLine, EnvironmentFailure, InvalidRequest, Problem, UsageError
from assay.inputs.context import CONTAINERS, not_json, to_json_document
from assay.inputs.portions import Portion, items_before, lines_of_portion
from assay.inputs.table_files import (
    BOM,
    csv_columns,
    csv_rows,
    is_nested,
    nested_row,
    parquet_columns,
    parquet_rows,
)
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
    while 0 < len(block) < len(BOM) and (more := read(BLOCK)):  # the mark is in the first block
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
        if end == 0 and number == 0 and not held and block.startswith(BOM):
            text, end = block.removeprefix(BOM), len(BOM)
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

    def __init__(self, name: str, limits: Limits, portion: Portion | None = None) -> None:
        self.name, self._limits, self._portion = name, limits, portion

    def lines(self) -> Iterator[tuple[int, bytes, int]]:
        """The number of each line, its text, and the offset in the file after it."""
        _, compressed = format_of(self.name, "jsonl")
        with open_file(self.name, compressed=compressed) as file:
            yield from portion_lines(file, self._limits, self._portion)

    def __iter__(self) -> Iterator[SourceItem]:
        for number, line, end in self.lines():
            yield SourceItem(f"{self.name}:", number, line, end)


def portion_lines(
    file: IO[bytes], limits: Limits, portion: Portion | None
) -> Iterator[tuple[int, bytes, int]]:
    """The lines of a file, or of a portion of it."""
    if portion is None:
        return lines_of(file, limits)
    return lines_of_portion(file, limits.max_line_bytes, portion)


def read_items(
    name: str,
    limits: Limits,
    default: Format = "jsonl",
    member: str | None = None,
    *,
    flat: bool = False,
    portion: Portion | None = None,
) -> Iterator[SourceItem]:
    """
    The documents of a file: the lines of JSONL, the items of a JSON or YAML list, the rows of a CSV.

    With `member`, the list may also be this member of an object; its other members are not read. `flat`: a dot in the
    name of a column is one like any other. `portion`: only the lines or row groups of it.
    """
    form, compressed = format_of(name, default)
    with open_file(name, compressed=compressed) as file:
        if form == "jsonl":
            for number, line, end in portion_lines(file, limits, portion):
                yield SourceItem(f"{name}:", number, line, end)
        elif form == "csv":
            for number, row, problems, columns in csv_rows(file, name, limits, flat=flat):
                raw = b"" if problems else msgspec.json.encode(row)
                yield SourceItem(f"{name}:", number, raw, 0, problems, columns)
        elif form == "parquet":
            for at, (row, infinite), columns in parquet_rows(file, name, portion):
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


def portion_start(name: str, first: SourceItem, portion: Portion) -> int:
    """The number of documents before a portion of a file, whose first document is `first`."""
    if format_of(name, "jsonl")[0] == "parquet":
        return first.number - 1
    with open_file(name, compressed=False) as file:
        return items_before(file, portion)


def table_columns(name: str, limits: Limits) -> tuple[str, ...]:
    """The columns of a file that is a table, also without rows; none for another file."""
    form, compressed = format_of(name, "jsonl")
    if name == "-" or form not in ("csv", "parquet"):
        return ()
    with open_file(name, compressed=compressed) as file:
        return csv_columns(file, name, limits) if form == "csv" else parquet_columns(file, name)


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
    data = bytes(held).removeprefix(BOM)
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
