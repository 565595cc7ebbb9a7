"""A portion of a file, of so many: the lines of a range of bytes, or the row groups of a Parquet file."""

import os
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from assay.errors import UsageError

BLOCK = 1 << 18
MOST = 100_000  # portions


class Portion(NamedTuple):
    """`number` of `of`, from 1. All portions together are the whole, and none overlaps another."""

    number: int
    of: int

    def range_of(self, size: int) -> tuple[int, int]:
        """The start and the end of this portion of so many bytes or row groups."""
        return size * (self.number - 1) // self.of, size * self.number // self.of

    @property
    def text(self) -> str:
        return f"{self.number}/{self.of}"


def read_portion(text: str) -> Portion:
    """`2/5`. Raises UsageError."""
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    portion = Portion(int(found[1]), int(found[2])) if found else Portion(0, 0)
    if not 1 <= portion.number <= portion.of <= MOST:
        raise UsageError(
            f"--shard: expected I/N, such as 2/5 for the second of five shards, got {text[:40]!r}"
        )
    return portion


def next_line(file: IO[bytes], most: int) -> tuple[bytes, int]:
    """The next line and its length. Of a line over the limit, only a part that is also over the limit is held."""
    line = file.readline(most + BLOCK)
    size = len(line)
    while len(line) > most and line[-1:] != b"\n" and (rest := file.readline(BLOCK)):
        size += len(rest)
        if rest.endswith(b"\n"):
            break
    return line, size


def seek_line(file: IO[bytes], start: int) -> None:
    """Go to the first line that starts at this offset or after it."""
    file.seek(max(0, start - 1))
    if start > 0:
        next_line(file, 0)


class LinesBefore(NamedTuple):
    """The lines before an offset: all, and those that are not blank."""

    lines: int
    items: int


def lines_of_portion(file: IO[bytes], most: int, portion: Portion) -> Iterator[tuple[int, bytes, int]]:
    """The lines that start in a portion of a file, as `lines_of` has those of all, with their numbers in the file."""
    start, end = portion.range_of(os.fstat(file.fileno()).st_size)
    seek_line(file, start)
    at = file.tell()
    number = lines_before(file, at).lines
    file.seek(at)
    while at < end:
        line, size = next_line(file, most)
        if not size:
            return
        first, at = at == 0, at + size
        number += 1
        if line := (line.removeprefix(b"\xef\xbb\xbf") if first else line).strip():
            yield number, line, at


def lines_before(file: IO[bytes], end: int) -> LinesBefore:
    """Count the lines before an offset where a line starts."""
    file.seek(0)
    at = lines = items = 0
    while at < end:
        line, size = next_line(file, BLOCK)
        if not size:
            break
        at += size
        lines += 1
        items += bool(line.strip())
    return LinesBefore(lines, items)


def items_before(file: IO[bytes], portion: Portion) -> int:
    """The lines that are not blank before a portion of a file."""
    start, _ = portion.range_of(os.fstat(file.fileno()).st_size)
    seek_line(file, start)
    return lines_before(file, file.tell()).items
