"""An output file with a buffer, whose errors name the file."""

import errno
import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import IO

from assay.errors import EnvironmentFailure, UsageError
from assay.terminal import as_json_escapes

BUFFER = 1 << 18


class OutputFile:
    """
    An output file with a buffer. Errors are messages of one line that name the file.

    The old content is removed with the first flush, so a run that is refused does not change the file.
    """

    def __init__(self, name: str, *, append: bool = False) -> None:
        self.name = name
        self._buffer: list[bytes] = []
        self._size = 0
        self._to_terminal = name == "-" and sys.stdout.isatty()
        try:
            self._is_continued = append and Path(name).is_file()
            self._truncate_first = not append and Path(name).is_file()
            self._file: IO[bytes] = _open(name, append=append)
        except FileNotFoundError:
            raise UsageError(f"{name}: there is no folder {Path(name).parent}") from None
        except IsADirectoryError:
            raise UsageError(f"{name}: expected the name of a file, got a folder") from None
        except OSError as wrong:
            raise UsageError(f"{name}: expected a file that can be written, got {wrong.strerror}") from None

    def write(self, data: bytes) -> None:
        """Write whole lines. On a terminal, control characters are written as JSON escapes."""
        if self._to_terminal:
            data = as_json_escapes(data.decode()).encode()
        self._buffer.append(data)
        self._size += len(data)
        if self._size >= BUFFER:
            self.flush()

    def write_line(self, line: bytes) -> None:
        """Write a line and its line ending."""
        if self._to_terminal:
            self.write(line + b"\n")
            return
        self._buffer += (line, b"\n")  # not one copy more of a long line
        self._size += len(line) + 1
        if self._size >= BUFFER:
            self.flush()

    def flush(self) -> None:
        data, self._buffer, self._size = memoryview(b"".join(self._buffer)), [], 0
        try:
            if self._truncate_first:
                self._file.truncate(0)
                self._truncate_first = False
            while data:
                data = data[self._file.write(data) :]
        except OSError as wrong:
            raise EnvironmentFailure(
                f"{self.name}: expected a file that can be written, got {wrong.strerror}"
            ) from None

    def copy(self, file: IO[bytes], size: int) -> None:
        """Copy the first `size` bytes of another file, with `sendfile` where the system supports it."""
        if self._to_terminal:
            self.write(os.pread(file.fileno(), size, 0))
            return
        self.flush()
        at = 0
        try:
            while at < size:
                at += os.sendfile(self._file.fileno(), file.fileno(), at, size - at)
        except OSError as wrong:
            if wrong.errno != errno.EINVAL:
                raise EnvironmentFailure(
                    f"{self.name}: expected a file that can be written, got {wrong.strerror}"
                ) from None
            while block := os.pread(file.fileno(), min(BUFFER, size - at), at):
                at += len(block)
                self.write(block)

    def last_line(self) -> bytes:
        """The last line of a file that is continued; nothing elsewhere."""
        return (
            read_last_line(self._file, os.fstat(self._file.fileno()).st_size) if self._is_continued else b""
        )

    def replace_end(self, length: int, data: bytes) -> None:
        """Replace the last `length` bytes. Where that is not possible, in a pipe or on a terminal, nothing changes."""
        self.flush()
        number = self._file.fileno()
        appends = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND
        if self._to_terminal or appends or not stat.S_ISREG(os.fstat(number).st_mode):
            return
        try:
            self._file.seek(-length, os.SEEK_CUR)
        except OSError as wrong:
            raise EnvironmentFailure(
                f"{self.name}: expected a file that can be written, got {wrong.strerror}"
            ) from None
        self.write(data)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            try:
                self._file.close()
            except OSError as wrong:
                raise EnvironmentFailure(
                    f"{self.name}: expected a file that can be written, got {wrong.strerror}"
                ) from None


def _open(name: str, *, append: bool) -> IO[bytes]:
    if name == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb", 0)
    if not Path(name).is_file():
        return Path(name).open("wb", 0)
    file = Path(name).open("r+b", 0)  # noqa: SIM115
    if append:
        file.seek(0, os.SEEK_END)  # not O_APPEND: `sendfile` does not write to such a file
    return file


def read_last_line(file: IO[bytes], size: int) -> bytes:
    """The last line of the first `size` bytes."""
    start, found = size, b""
    while start and found.rfind(b"\n", 0, -1) < 0:
        step = min(BUFFER, start)
        start -= step
        found = os.pread(file.fileno(), step, start) + found
    return found[found.rfind(b"\n", 0, -1) + 1 : -1]
