"""Divides files of cases into parts: row groups of Parquet, and ranges of bytes of JSON lines, on any file system."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader
from itertools import islice
from typing import IO, Any

import msgspec
from msgspec import Struct

from assay.errors import EnvironmentFailure, InvalidRequest, Problem, Refusal, UsageError
from assay.extras import require
from assay.inputs.context import not_json
from assay.inputs.portions import next_line, seek_line
from assay.ports import Limits
from assay.protocol.duplicates import TWICE, duplicate_member
from assay.protocol.json_types import is_object

PART_BYTES = 64 << 20  # of an input in a part
BATCH = 1_024  # rows that are scored at a time
ENDINGS = (".parquet", ".jsonl", ".ndjson")


class DatasetPart(Struct, frozen=True):
    """A range of one file: of row groups of a `.parquet`, of bytes of another. `size`: of the file."""

    number: int
    path: str
    size: int
    start: int
    end: int

    @property
    def name(self) -> str:
        unit = "row groups" if self.path.endswith(".parquet") else "bytes"
        return f"part {self.number}: {self.path}, {unit} {self.start:,} to {self.end:,}"


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address such as `s3://bucket/folder`, and the path in it."""
    require(address, "cluster")
    try:
        return import_module("fsspec.core").url_to_fs(address)
    except (ImportError, ValueError) as wrong:
        raise UsageError(f"{address}: expected an address that fsspec opens, got {wrong}") from None


@contextmanager
def store_access(address: str) -> Generator[None]:
    """Calls of a file system, which may raise anything: the command says that the store of this address failed."""
    try:
        yield
    except Refusal:
        raise
    except FileNotFoundError:
        raise UsageError(f"{address}: there is no such file") from None
    except Exception as wrong:  # noqa: BLE001  # a file system is foreign code: botocore's errors are no OSError
        raise EnvironmentFailure(
            f"{address}: expected a store that answers, got {type(wrong).__name__}: {wrong}"
        ) from None


def plan_parts(pattern: str, part_bytes: int = PART_BYTES) -> list[DatasetPart]:
    """The parts of all files of a pattern such as `s3://bucket/answers/*.parquet`, in order of their paths."""
    system, path = file_system(pattern)
    with store_access(pattern):
        found = sorted(system.glob(path) if any(sign in path for sign in "*?[") else [path])
    parts: list[DatasetPart] = []
    for one in found:
        if not one.endswith(ENDINGS):
            raise UsageError(f"{one}: expected files that end in {', '.join(ENDINGS)}")
        with store_access(one):
            ranges = list(_ranges(system, one, part_bytes))
        parts += [DatasetPart(len(parts) + at, one, *each) for at, each in enumerate(ranges, 1)]
    if not parts:
        raise UsageError(f"{pattern}: expected files with cases, got {len(found)} files and no case")
    return parts


def _ranges(system: Any, path: str, part_bytes: int) -> Iterator[tuple[int, int, int]]:
    """The size of a file, and the start and the end of each of its parts."""
    size = int(system.size(path))
    if not path.endswith(".parquet"):
        for start in range(0, size, part_bytes):
            yield size, start, min(size, start + part_bytes)
        return
    with system.open(path, "rb") as file, _parquet(file, path) as table:
        groups = [table.metadata.row_group(at).total_byte_size for at in range(table.num_row_groups)]
    start = held = 0
    for at, group in enumerate(groups):
        held += group
        if held >= part_bytes or at == len(groups) - 1:
            yield size, start, at + 1
            start, held = at + 1, 0


def batches_of(system: Any, part: DatasetPart, limits: Limits) -> Iterator[Any]:
    """The rows of a part, a few at a time: tables of Arrow for Parquet, lists of documents for JSON lines."""
    with system.open(part.path, "rb") as file:
        if int(system.size(part.path)) != part.size:
            raise UsageError(f"{part.path}: expected the file of the plan, got one of another size")
        if part.path.endswith(".parquet"):
            groups = list(range(part.start, part.end))
            with _parquet(file, part.path) as table:
                yield from table.iter_batches(batch_size=BATCH, row_groups=groups)
            return
        with BufferedReader(file) as reader:  # `readline` of a file on S3 takes no limit
            lines = _documents(reader, part, limits)
            while rows := list(islice(lines, BATCH)):
                yield rows


def _parquet(file: IO[bytes], path: str) -> Any:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        return parquet.ParquetFile(file)
    except arrow.ArrowException as wrong:
        raise UsageError(f"{path}: expected a Parquet file, got {wrong}") from None


def _documents(file: IO[bytes], part: DatasetPart, limits: Limits) -> Iterator[Any]:
    """The documents of the lines that start in the range. One that cannot be read is a refusal."""
    seek_line(file, part.start)
    at = file.tell()
    while at < part.end:
        line, size = next_line(file, limits.max_line_bytes)
        if not size:
            return
        place, at = f"{part.path}, byte {at}", at + size
        if line := line.strip():
            yield _document(line, place)


def _document(line: bytes, place: str) -> Any:
    try:
        document = msgspec.json.decode(line)
        twice = duplicate_member(line, document) if is_object(document) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        return InvalidRequest(Problem(place, not_json(line, wrong)))
    return document if twice is None else InvalidRequest(Problem(f"{place}: {twice}", TWICE))


def input_files(parts: Sequence[DatasetPart]) -> list[tuple[str, int]]:
    """The paths and sizes of the files of some parts."""
    return list(dict.fromkeys((part.path, part.size) for part in parts))
