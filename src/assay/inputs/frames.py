"""Rows of data frames: pandas, polars, and tables of Arrow, without a file between."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol, TypeGuard

from assay.errors import InvalidRequest, Problem
from assay.extras import require
from assay.inputs.cells import Cells, read_cells
from assay.inputs.table_files import is_nested, nested_row

BATCH = 1_024  # rows that are converted at a time
Row = dict[str, Any]


class DataFrame(Protocol):
    """A data frame of pandas or polars, or a table of Arrow."""

    @property
    def columns(self) -> Any: ...


def is_frame(value: Any) -> TypeGuard[DataFrame]:
    if _library(value) not in ("pandas", "polars") and not hasattr(value, "__arrow_c_stream__"):
        return False
    return hasattr(value.__class__, "columns")  # not of the value: a LazyFrame would resolve its schema


def columns_of(frame: DataFrame, place: str) -> tuple[str, ...]:
    """The names of the columns. An InvalidRequest names one that is there twice."""
    if _library(frame) == "polars" and not hasattr(frame, "iter_rows"):
        raise InvalidRequest(Problem(place, "expected a DataFrame of polars, got a LazyFrame: collect() it"))
    names = tuple(map(str, getattr(frame, "column_names", frame.columns)))
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InvalidRequest(Problem(place, f"expected different columns, got {twice!r} twice"))
    return names


def check_index(frame: DataFrame, columns: Iterable[str], place: str) -> None:
    """Refuse a column that is the index of a data frame of pandas, with the way to make it a column."""
    index = [name for name in getattr(getattr(frame, "index", None), "names", ()) if isinstance(name, str)]
    names = columns_of(frame, place) if index else ()
    for column in columns:
        if column in index and column not in names:
            message = f"{column!r} is the index of the data frame, not a column: call reset_index() on it"
            raise InvalidRequest(Problem(place, message))


def rows_of(frame: DataFrame, place: str, *, flat: bool = False) -> Iterator[Cells]:
    """
    The rows as JSON has them. A cell without a value, or with NaN, is absent. Unless they are `flat`, column `a.b` is
    the member `b` of the member `a`, as in CSV.
    """
    rows = map(read_cells, _flat_rows(frame, place))
    return _nested(rows, place) if not flat and any(map(is_nested, columns_of(frame, place))) else rows


def _nested(rows: Iterable[Cells], place: str) -> Iterator[Cells]:
    for at, cells in enumerate(rows):
        document, problems = nested_row(cells.row)
        if problems:
            raise InvalidRequest([Problem(f"{place}[{at}].{one.place}", one.message) for one in problems])
        yield cells._replace(row=document)


def _flat_rows(frame: DataFrame, place: str) -> Iterator[Row]:
    library = _library(frame)
    if library == "pandas":
        return _pandas_rows(frame, columns_of(frame, place))
    if library == "polars":
        return frame.iter_rows(named=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    require(place, "tables", package="pyarrow")
    return _arrow_rows(import_module("pyarrow").table(frame))


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _pandas_rows(frame: Any, names: tuple[str, ...]) -> Iterator[Row]:
    for start in range(0, len(frame), BATCH):
        part = frame.iloc[start : start + BATCH]
        columns = [part.iloc[:, at].tolist() for at in range(len(names))]
        for cells in zip(*columns, strict=True):
            yield dict(zip(names, cells, strict=True))


def _arrow_rows(table: Any) -> Iterator[Row]:
    columns_of(table, "the table")
    for batch in table.to_batches(max_chunksize=BATCH):
        yield from batch.to_pylist()
