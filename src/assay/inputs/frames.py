"""Rows of data frames: pandas, polars, and tables of Arrow, without a file between."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol, TypeGuard

from assay.errors import InvalidRequest, Problem
from assay.extras import require

BATCH = 1_024  # rows that are converted at a time
Row = dict[str, Any]


class DataFrame(Protocol):
    """A data frame of pandas or polars, or a table of Arrow."""

    @property
    def columns(self) -> Any: ...


def is_frame(value: Any) -> TypeGuard[DataFrame]:
    if _library(value) not in ("pandas", "polars") and not hasattr(value, "__arrow_c_stream__"):
        return False
    return hasattr(value, "columns")


def columns_of(frame: DataFrame, place: str) -> tuple[str, ...]:
    """The names of the columns. An InvalidRequest names one that is there twice."""
    names = tuple(map(str, getattr(frame, "column_names", frame.columns)))
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InvalidRequest(Problem(place, f"two columns are called {twice!r}"))
    return names


def rows_of(frame: DataFrame, place: str) -> Iterator[Row]:
    """The rows as JSON has them. A cell without a value, or with NaN, is absent."""
    library = _library(frame)
    if library == "pandas":
        return _pandas_rows(frame, columns_of(frame, place))
    if library == "polars":
        if not hasattr(frame, "iter_rows"):
            raise InvalidRequest(
                Problem(place, "expected a DataFrame of polars, got a LazyFrame: collect() it")
            )
        return map(_present, frame.iter_rows(named=True))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    require(place, "tables", package="pyarrow")
    return _arrow_rows(import_module("pyarrow").table(frame))


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def _pandas_rows(frame: Any, names: tuple[str, ...]) -> Iterator[Row]:
    for start in range(0, len(frame), BATCH):
        part = frame.iloc[start : start + BATCH]
        columns = [_cells(part.iloc[:, at]) for at in range(len(names))]
        for cells in zip(*columns, strict=True):
            yield {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}


def _cells(series: Any) -> list[Any]:
    """The values of a column, None where one is missing."""
    return [
        None if missing else _plain(value)
        for value, missing in zip(series.tolist(), series.isna().tolist(), strict=True)
    ]


def _arrow_rows(table: Any) -> Iterator[Row]:
    columns_of(table, "the table")
    for batch in table.to_batches(max_chunksize=BATCH):
        yield from map(_present, batch.to_pylist())


def _present(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None and value == value}


def _plain(value: Any) -> Any:
    """A cell as Python has it: a list column is an array of numpy, and a moment one of pandas."""
    for method in ("tolist", "to_pydatetime"):
        if hasattr(value, method):
            return getattr(value, method)()
    return value
