"""Tables for other programs: CSV, Excel (`.xlsx`) and Parquet. Rows are written as they come, in constant memory."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from assay.errors import EnvironmentFailure, UsageError
from assay.extras import require
from assay.fep.outputs.arrow_columns import column_of
from assay.fep.outputs.csv_rows import RESULTS, VERDICTS, Rows, row_writer
from assay.fep.outputs.output_file import OutputFile
from assay.fep.outputs.result_tables import (
    Row,
    about_of,
    check_parts,
    csv_cell,
    encode_cells,
    encode_row,
    encode_text,
    escape_cell,
    plain_reason,
    plain_verdict,
    text_of,
)
from assay.fep.outputs.table_layout import TableLayout
from assay.fep.planning.compiled_scorer import CompiledChecks
from assay.fep.planning.scorer import CompiledCase, ScoredCase
from assay.protocol.json_types import JSON
from assay.results.run_end import MEMBER, PARQUET_KEY, RunFooter

MAX_CELL = 32_767  # characters of a cell in Excel
MAX_ROWS = 1_048_576  # rows of a sheet in Excel, with its header
MAX_COLUMNS = 16_384  # of a sheet in Excel
MAX_WHOLE = 1 << 53  # a larger whole number of Excel would be another one
GROUP_ROWS, GROUP_CHARACTERS = 10_000, 16_000_000  # of a row group in Parquet, which is held in memory
_UNENCODABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")  # XML has no form for these


class CsvSink:
    """
    `.csv`: cells that a spreadsheet would read as formulas are neutralised. The last cell of all says whether the run
    is complete.
    """

    def __init__(self, name: str, layout: TableLayout) -> None:
        self.name, self._layout = name, layout
        self._file = OutputFile(name)
        self._file.write(encode_row((*layout.columns, MEMBER)))
        self._has_rows = False
        self._compiled: CompiledChecks | None = None  # the checks that `_rows` writes
        self._rows: Rows | None = None

    def write(self, line: bytes) -> None:
        self._put("".join(csv_rows(msgspec.json.decode(line), self._layout)).encode())

    def _put(self, rows: bytes) -> None:
        self._file.write(rows)
        self._has_rows = self._has_rows or bool(rows)

    def write_case(self, case: ScoredCase) -> None:
        """Write a case, without the JSON of its result if a compiled scorer made it."""
        if not isinstance(case, CompiledCase):
            self.write(case.line)
            return
        if case.compiled is not self._compiled:
            self._compiled = compiled = case.compiled
            self._rows = (
                row_writer(compiled.checks, compiled.argument_indexes, self._layout)
                if compiled.keeps_document
                else None
            )
        if self._rows is None:
            self.write(case.line)
        else:
            self._put(self._rows(case.context.document, case.parts))

    def flush(self) -> None:
        self._file.flush()

    def close(self, footer: RunFooter) -> None:
        try:
            if self._has_rows and footer.end is not None:
                cell = encode_cells((msgspec.json.encode(footer.end).decode(),))
                self._file.replace_end(1, f"{cell}\n".encode())
        finally:
            self._file.close()


def csv_rows(result: JSON, layout: TableLayout) -> Iterator[str]:
    """
    The rows of a TestCaseResult, each with an empty last cell. Cells that the checks of a case share are encoded once;
    a check with a verdict alone has few cells.
    """
    context: JSON = result["execution_context"]
    case: JSON = context["test_case"]
    output: JSON = context["output"]
    about = about_of(output)
    first, shared = layout.case_parts(case, output, about)
    start, middle = encode_cells(map(csv_cell, first)), encode_cells(map(csv_cell, shared))
    for at, check in enumerate(result["check_results"]):
        passed = plain_verdict(check)
        if passed is None:
            left, right = check_parts(at, check, output, about, case)
            yield f"{start},{encode_cells(map(csv_cell, left))},{middle},{encode_cells(map(csv_cell, right))},\n"
        else:
            name = check["check_type"]
            reason = plain_reason(check, output, about, passed)
            label = encode_text(name)
            before = f"{start},{at},{label},{label},completed,{VERDICTS[passed]},{encode_cells((reason,))}"
            yield f"{before},{middle},,,{RESULTS[passed]},,,\n"


class XlsxSink:
    """
    `.xlsx`: numbers are numbers, every text is a text. A table that is too long for a sheet continues on the next one.
    """

    def __init__(self, name: str, layout: TableLayout) -> None:
        self.name, self._layout = name, layout
        writer = _require("xlsxwriter", "xlsxwriter", name)
        _check_target(name)
        if (count := len(layout.columns)) > MAX_COLUMNS:
            raise UsageError(
                f"{name}: expected at most {MAX_COLUMNS:,} columns of a sheet of Excel, got {count:,}; .csv and"
                " .parquet hold them"
            )
        self._path = Path(f"{name}.part")
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        self._book = writer.Workbook(str(self._path), {**options, "nan_inf_to_errors": True})
        self._bold = self._book.add_format({"bold": True})
        self._start_sheet()

    def write(self, line: bytes) -> None:
        for row in self._layout.rows(msgspec.json.decode(line)):
            if self._rows == MAX_ROWS:
                self._start_sheet()
            self._put(row)

    def flush(self) -> None:
        """Nothing: the file is complete only when it is closed."""

    def close(self, footer: RunFooter) -> None:
        try:
            if footer.end is not None and footer.end.part is not UNSET:
                self._book.set_properties({"comments": f"only a part: {footer.end.part.text()}"})
            self._book.close()
            os.replace(self._path, self.name)
        except (OSError, *_errors_of("xlsxwriter.exceptions", "XlsxWriterException")) as wrong:
            self._path.unlink(missing_ok=True)
            raise EnvironmentFailure(
                f"{self.name}: expected a file that can be written, got {wrong}"
            ) from None

    def _start_sheet(self) -> None:
        sheets = len(self._book.worksheets())
        self._sheet = self._book.add_worksheet("results" if not sheets else f"results {sheets + 1}")
        self._sheet.freeze_panes(1, 0)
        for at, name in enumerate(self._layout.columns):
            self._sheet.write_string(0, at, _xlsx_text(name), self._bold)
        self._rows = 1

    def _put(self, row: Row) -> None:
        for at, value in enumerate(row):
            if isinstance(value, bool):
                self._sheet.write_boolean(self._rows, at, value)
            elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= MAX_WHOLE):
                self._sheet.write_number(self._rows, at, value)
            elif value is not None:
                self._sheet.write_string(self._rows, at, _xlsx_text(str(value)))
        self._rows += 1


def _xlsx_text(value: str) -> str:
    text = str(escape_cell(_UNENCODABLE.sub("�", value)))
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"


class ParquetSink:
    """
    `.parquet`: typed columns in row groups.

    A column of the user's table has the type of its cells in the first group. If later cells do not have it, the file
    is written again with a wider type.
    """

    def __init__(self, name: str, layout: TableLayout) -> None:
        self.name, self._layout = name, layout
        self._arrow = _require("pyarrow", "pyarrow", name)
        self._parquet = _require("pyarrow.parquet", "pyarrow", name)
        _check_target(name)
        self._path = Path(f"{name}.part")
        try:
            self._path.touch()
        except OSError as wrong:
            raise UsageError(f"{name}: expected a file that can be written, got {wrong.strerror}") from None
        self._kinds: list[type] = []  # of the columns
        self._schema: Any = None
        self._writer: Any = None
        self._held: list[Row] = []
        self._characters = 0

    def write(self, line: bytes) -> None:
        self._held.extend(self._layout.rows(msgspec.json.decode(line)))
        self._characters += len(line)
        if len(self._held) >= GROUP_ROWS or self._characters >= GROUP_CHARACTERS:
            self._write_group()

    def flush(self) -> None:
        """Nothing: the file is complete only when it is closed."""

    def close(self, footer: RunFooter) -> None:
        try:
            self._write_group()
            if footer.end is not None:
                self._writer.add_key_value_metadata({PARQUET_KEY: msgspec.json.encode(footer.end)})
            self._writer.close()
            os.replace(self._path, self.name)
        except OSError as wrong:
            self._path.unlink(missing_ok=True)
            raise EnvironmentFailure(
                f"{self.name}: expected a file that can be written, got {wrong.strerror or wrong}"
            ) from None

    def _write_group(self) -> None:
        """Write the rows that are held. The first group says what the columns of the user's table are."""
        layout = self._layout
        held, self._held, self._characters = self._held, [], 0
        columns = list(zip(*held, strict=True)) or [()] * len(layout.columns)
        before = self._kinds or [None] * len(columns)
        self._kinds = [
            kind or wider_kind(cells, known)
            for kind, cells, known in zip(layout.kinds.values(), columns, before, strict=True)
        ]
        try:
            if self._writer is None:
                self._writer = self._open(self._path)
            elif self._kinds != before:
                self._write_again()
            self._writer.write_table(self._group(columns))
        except OSError as wrong:
            raise EnvironmentFailure(
                f"{self.name}: expected a file that can be written, got {wrong.strerror or wrong}"
            ) from None

    def _open(self, path: Path) -> Any:
        arrow, layout = self._arrow, self._layout
        types = {str: arrow.string(), int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_()}
        self._schema = arrow.schema(
            [(name, types[kind]) for name, kind in zip(layout.columns, self._kinds, strict=True)]
        )
        return self._parquet.ParquetWriter(str(path), self._schema)

    def _write_again(self) -> None:
        """Copy the groups that are written, one by one, with the new types."""
        self._writer.close()
        copy = Path(f"{self.name}.part2")
        try:
            self._writer = self._open(copy)
            with self._parquet.ParquetFile(str(self._path)) as groups:
                for at in range(groups.num_row_groups):
                    columns = [one.to_pylist() for one in groups.read_row_group(at).columns]
                    self._writer.write_table(self._group(columns))
            os.replace(copy, self._path)
        finally:
            copy.unlink(missing_ok=True)

    def _group(self, columns: Sequence[Sequence[Any]]) -> Any:
        arrays = [
            column_of(self._arrow, [_typed(cell, kind) for cell in cells], kind)
            for cells, kind in zip(columns, self._kinds, strict=True)
        ]
        return self._arrow.Table.from_arrays(arrays, schema=self._schema)


def wider_kind(cells: Iterable[Any], known: type | None) -> type:
    """
    The type of a column that holds what it was and these cells: a text, unless all are numbers, or true and false. A
    column without a value is one of texts.
    """
    kinds: set[Any] = {type(cell) for cell in cells if cell is not None}
    if any(type(cell) is int and not -(1 << 63) <= cell < 1 << 63 for cell in cells):
        return str
    if known is not None and kinds:
        kinds.add(known)
    if kinds in ({bool}, {int}, {float}):
        return next(iter(kinds))
    return float if kinds == {int, float} else known if not kinds and known else str


def _typed(cell: Any, kind: type) -> Any:
    if cell is None or type(cell) is kind:
        return cell
    return float(cell) if kind is float else text_of(cell)


def _check_target(name: str) -> None:
    path = Path(name)
    if path.is_dir():
        raise UsageError(f"{name}: expected the name of a file, got a folder")
    if not path.parent.is_dir():
        raise UsageError(f"{name}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not path.is_file()):
        raise UsageError(f"{name}: expected a file that can be written, got one that is read-only or no file")


def _require(module: str, package: str, name: str) -> Any:
    """A module of the extra `tables`."""
    require(name, "tables", package=package)
    return import_module(module)


def _errors_of(module: str, name: str) -> tuple[type[Exception], ...]:
    return (getattr(import_module(module), name),)
