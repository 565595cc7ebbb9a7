"""Sinks for results: JSON lines, one EvaluationRunResult, or a table (FEP 4.1, 4.2)."""

import errno
import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
from msgspec import Struct

from assay.errors import EnvironmentFailure, UsageError
from assay.fep.run_end import MEMBER, RunEnd, with_end
from assay.protocol.results import EvaluationSummary, Status
from assay.terminal import as_json_escapes

BUFFER = 1 << 18
EXTENSIONS = ".jsonl, .json, .csv, .xlsx or .parquet"


class RunFooter(Struct, frozen=True, omit_defaults=True):
    """The members of a run's result other than its cases."""

    evaluation_id: str
    started_at: Any
    completed_at: Any
    status: Status
    summary: EvaluationSummary
    experiment: Any = None
    metadata: Any = None
    error: str = ""  # why the run did not end; not part of its result
    end: RunEnd | None = None  # a file says whether it is complete; not part of the result of a run


class Sink(Protocol):
    """Receives result lines in order. `close` leaves a complete file, also after an error."""

    name: str

    def write(self, line: bytes) -> None: ...
    def flush(self) -> None: ...
    def close(self, footer: RunFooter) -> None: ...


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
            raise UsageError(f"{name}: this is a folder; expected the name of a file") from None
        except OSError as wrong:
            raise UsageError(f"{name}: cannot be written: {wrong.strerror}") from None

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
            raise EnvironmentFailure(f"{self.name}: cannot be written: {wrong.strerror}") from None

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
                raise EnvironmentFailure(f"{self.name}: cannot be written: {wrong.strerror}") from None
            while block := os.pread(file.fileno(), min(BUFFER, size - at), at):
                at += len(block)
                self.write(block)

    def last_line(self) -> bytes:
        """The last line of a file that is continued; nothing elsewhere."""
        return _last_line(self._file, os.fstat(self._file.fileno()).st_size) if self._is_continued else b""

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
            raise EnvironmentFailure(f"{self.name}: cannot be written: {wrong.strerror}") from None
        self.write(data)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            try:
                self._file.close()
            except OSError as wrong:
                raise EnvironmentFailure(f"{self.name}: cannot be written: {wrong.strerror}") from None


def _open(name: str, *, append: bool) -> IO[bytes]:
    if name == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb", 0)
    if not Path(name).is_file():
        return Path(name).open("wb", 0)
    file = Path(name).open("r+b", 0)  # noqa: SIM115
    if append:
        file.seek(0, os.SEEK_END)  # not O_APPEND: `sendfile` does not write to such a file
    return file


class JsonlSink:
    """`.jsonl`: one TestCaseResult per line. The last one says whether the run is complete."""

    def copy(self, file: IO[bytes], size: int) -> None:
        """Copy lines from the first `size` bytes of another file."""
        self._file.copy(file, size)
        if size:
            self._last = _last_line(file, size)

    def __init__(self, name: str, *, append: bool = False) -> None:
        self.name = name
        self._file = OutputFile(name, append=append)
        self._last = b""

    def write(self, line: bytes) -> None:
        self._file.write_line(line)
        self._last = line

    def flush(self) -> None:
        self._file.flush()

    def close(self, footer: RunFooter) -> None:
        try:
            if footer.end is not None and (last := self._last or self._file.last_line()):
                self._file.replace_end(len(last) + 1, with_end(last, footer.end) + b"\n")
        finally:
            self._file.close()


def _last_line(file: IO[bytes], size: int) -> bytes:
    """The last line of the first `size` bytes."""
    start, found = size, b""
    while start and found.rfind(b"\n", 0, -1) < 0:
        step = min(BUFFER, start)
        start -= step
        found = os.pread(file.fileno(), step, start) + found
    return found[found.rfind(b"\n", 0, -1) + 1 : -1]


class JsonSink:
    """`.json`: one EvaluationRunResult. Cases are written as they complete; the summary follows them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file = OutputFile(name)
        self._comma = b'{"results":[\n'

    def write(self, line: bytes) -> None:
        self._file.write(self._comma + line)
        self._comma = b",\n"

    def flush(self) -> None:
        self._file.flush()

    def close(self, footer: RunFooter) -> None:
        if self._comma != b",\n":
            self._file.write(b'{"results":[')
        members = {
            name: value
            for name, value in msgspec.structs.asdict(footer).items()
            if value is not None and name not in ("error", "end")
        }
        if footer.end is not None:
            members["metadata"] = {**(footer.metadata or {}), MEMBER: footer.end}
        self._file.write(b"\n]," + msgspec.json.encode(members)[1:] + b"\n")
        self._file.close()


def sink_for(name: str) -> Sink:
    """The sink for a file name, by its extension. `-` writes JSON lines to standard output."""
    if name == "-" or name.endswith((".jsonl", ".ndjson")):
        return JsonlSink(name)
    if name.endswith(".json"):
        return JsonSink(name)
    if name.endswith((".csv", ".xlsx", ".parquet")):
        from assay.fep import table_sinks  # deferred import: most runs write no table

        kinds = {"csv": table_sinks.CsvSink, "xlsx": table_sinks.XlsxSink, "parquet": table_sinks.ParquetSink}
        return kinds[name.rpartition(".")[2]](name)
    raise UsageError(f"{name}: expected an output that ends in {EXTENSIONS}")
