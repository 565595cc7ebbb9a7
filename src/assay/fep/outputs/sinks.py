"""Sinks for results: JSON lines, one EvaluationRunResult, or a table (FEP 4.1, 4.2)."""

from typing import IO, Protocol

import msgspec

from assay.errors import UsageError
from assay.fep.outputs.output_file import OutputFile, read_last_line
from assay.inputs.places import NO_PLACES, Places
from assay.results.run_end import MEMBER, RunFooter, with_end

TABLES = (".csv", ".xlsx", ".parquet")
EXTENSIONS = ".jsonl, .json, .csv, .xlsx or .parquet"


class Sink(Protocol):
    """Receives result lines in order. `close` leaves a complete file, also after an error."""

    name: str

    def write(self, line: bytes) -> None: ...
    def flush(self) -> None: ...
    def close(self, footer: RunFooter) -> None: ...


class JsonlSink:
    """`.jsonl`: one TestCaseResult per line. The last one says whether the run is complete."""

    def copy(self, file: IO[bytes], size: int) -> None:
        """Copy lines from the first `size` bytes of another file."""
        self._file.copy(file, size)
        if size:
            self._last = read_last_line(file, size)

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


def sink_for(name: str, columns: Places = NO_PLACES) -> Sink:
    """
    The sink for a file name, by its extension. `-` writes JSON lines to standard output. `columns`: those of the
    table that is the input, which a table of results keeps.
    """
    if name == "-" or name.endswith((".jsonl", ".ndjson")):
        return JsonlSink(name)
    if name.endswith(".json"):
        return JsonSink(name)
    if name.endswith(TABLES):
        from assay.fep.outputs import table_sinks  # deferred import: most runs write no table
        from assay.fep.outputs.table_layout import TableLayout  # deferred import

        kinds = {"csv": table_sinks.CsvSink, "xlsx": table_sinks.XlsxSink, "parquet": table_sinks.ParquetSink}
        return kinds[name.rpartition(".")[2]](name, TableLayout(columns))
    raise UsageError(f"{name}: expected an output that ends in {EXTENSIONS}")
