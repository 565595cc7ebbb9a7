"""
Reads a zip archive of a stranger: members one by one, each within a limit, stored, deflated or compressed by zstd
(method 93). Nothing is extracted to disk.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from assay.errors import BadLine, EnvironmentFailure, Problem, UsageError
from assay.extras import require
from assay.inputs.context import too_long
from assay.ports import Limits

MOST_MEMBERS = 1_000_000
_ZSTD = 93
_HEADER = struct.Struct("<4s5H3L2H")  # of a member in the archive
_BLOCK = 1 << 18


class ZipReader:
    """The members of an archive."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name, self._limits = name, limits
        try:
            self._file = Path(name).open("rb")  # noqa: SIM115  # closed below, or at the end
        except FileNotFoundError:
            raise UsageError(f"{name}: there is no such file") from None
        except IsADirectoryError:
            raise UsageError(f"{name}: expected a file, got a folder") from None
        except OSError as wrong:
            raise EnvironmentFailure(
                f"{name}: expected a file that can be read, got {wrong.strerror}"
            ) from None
        try:
            self._zip = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as wrong:
            self._file.close()
            raise BadLine(name, [Problem("", f"expected a zip archive: {wrong}")]) from None
        members = self._zip.infolist()
        problem = ""
        if len(members) > MOST_MEMBERS:
            problem = f"expected at most {MOST_MEMBERS:,} members"
        elif len({one.filename for one in members}) < len(members):
            problem = "expected members with names of their own, and one is there twice"
        if problem:
            self._file.close()
            raise BadLine(name, [Problem("", problem)])

    def __enter__(self) -> "ZipReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def names(self) -> Iterator[str]:
        for one in self._zip.infolist():
            yield one.filename

    def read(self, member: str) -> bytes:
        """The content of a member. Raises BadLine for one that is broken, encrypted, or larger than the limit."""
        info = self._zip.getinfo(member)
        limit = self._limits.max_line_bytes
        if info.flag_bits & 1:
            raise self._bad(member, "it is encrypted")
        try:
            data = b"".join(self._parts(info, limit + 1))
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            struct.error,
            NotImplementedError,
            OSError,
        ) as wrong:
            raise self._bad(member, f"it is broken: {wrong}") from None
        if len(data) > limit:
            raise self._bad(member, too_long(self._limits))
        return data

    def _parts(self, info: zipfile.ZipInfo, most: int) -> Iterator[bytes]:
        """The content, at most `most` bytes of it, whatever the archive says of its size."""
        if info.compress_type == _ZSTD:
            yield from self._zstd(info, most)
            return
        with self._zip.open(info) as file:
            yield from _blocks(file, most)

    def _zstd(self, info: zipfile.ZipInfo, most: int) -> Iterator[bytes]:
        require(f"{self._name}: zstd", "store", package="zstandard")
        zstandard: Any = import_module("zstandard")
        self._file.seek(info.header_offset)
        header = self._file.read(_HEADER.size)
        if len(header) < _HEADER.size or header[:4] != b"PK\3\4":
            raise zipfile.BadZipFile("no member where the archive says")
        name_length, extra_length = _HEADER.unpack(header)[-2:]
        self._file.seek(name_length + extra_length, 1)
        try:
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                _Part(self._file, info.compress_size), closefd=False
            ) as file:
                data = b"".join(_blocks(file, most))
        except zstandard.ZstdError as wrong:
            raise zipfile.BadZipFile(str(wrong)) from None
        if len(data) < most and zlib.crc32(data) != info.CRC:
            raise zipfile.BadZipFile("its checksum is another one")
        yield data

    def _bad(self, member: str, message: str) -> BadLine:
        return BadLine(f"{self._name}: {member[:200]}", [Problem("", message)])


class _Part:
    """A part of a file, from its current place on."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def _blocks(file: IO[bytes], most: int) -> Iterator[bytes]:
    while most > 0 and (block := file.read(min(_BLOCK, most))):
        most -= len(block)
        yield block
