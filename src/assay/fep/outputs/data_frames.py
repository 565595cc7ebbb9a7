"""Results as a pandas DataFrame: the columns of the CSV table, then what else the cases and outputs have."""

from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import Any

import msgspec

from assay.extras import require
from assay.fep.outputs.result_tables import Row, about_of, cell_of
from assay.fep.outputs.table_layout import TableLayout
from assay.inputs.places import NO_PLACES, Places
from assay.protocol.json_types import JSON, is_object
from assay.protocol.results import TestCaseResult
from assay.results.run_end import MEMBER

_KINDS = {
    int: "Int64",
    float: "float64",
    bool: "boolean",
    str: "object",
}  # the first and the third may lack values


def data_frame(results: Iterable[TestCaseResult], table: Places = NO_PLACES) -> Any:
    """
    A `pandas.DataFrame` with one row for each check of each case. It has every column of the input.

    `table` are the columns of the table that the cases come from, each with the place of its cells.
    """
    require("to_pandas()", "tables", package="pandas")
    pandas = import_module("pandas")
    layout = TableLayout(table)
    rows: list[Row] = []
    others: dict[str, list[Any]] = {}  # members that the table does not have
    for result in results:
        document = msgspec.to_builtins(result)
        found, first = list(layout.rows(document)), len(rows)
        rows += found
        for name, value in _other_members(document["execution_context"], table, layout.columns).items():
            column = others.setdefault(name, [])
            column += [None] * (first - len(column)) + [value] * len(found)
    columns = list(zip(*rows, strict=True)) or [()] * len(layout.columns)
    series = {
        name: pandas.Series(cells, dtype=_kind_of(cells) if kind is None else _KINDS[kind])
        for (name, kind), cells in zip(layout.kinds.items(), columns, strict=True)
    }
    for name, column in others.items():
        padded = column + [None] * (len(rows) - len(column))
        series[name] = pandas.Series(padded, dtype=_kind_of(padded))
    return pandas.DataFrame(series)


def _kind_of(column: Sequence[Any]) -> str:
    """The type of a column. Whole numbers stay whole where some are missing."""
    types: set[Any] = {type(value) for value in column}
    missing, types = type(None) in types, types - {type(None)}
    if types == {bool}:
        return "boolean" if missing else "bool"
    if types == {int} and all(value is None or abs(value) < 1 << 63 for value in column):
        return "Int64" if missing else "int64"
    return "float64" if types and types <= {int, float} else "object"


_IN_TABLE = ("id", "input", "expected", "tags", "checks", "metadata")  # members of a case that have columns


def _other_members(context: JSON, table: Places, columns: Collection[str]) -> JSON:
    """
    What a case and its output have beside the columns of the table and of a result, by the name of its column.

    A member has its own name. If another column has it, the name begins with `metadata_`, `case_` or `output_`. A
    member of the metadata is before one of the case, as in a slice.
    """
    case, output = context["test_case"], context["output"]
    metadata = case.get("metadata")
    found: JSON = {}
    for prefix, place, members, left_out in (
        ("metadata", ["test_case", "metadata"], metadata if is_object(metadata) else {}, ("tags",)),
        ("case", ["test_case"], case, _IN_TABLE),
        ("output", ["output", "metadata"], about_of(output), ("trial", "cost_usd", "latency_ms")),
    ):
        for member, value in members.items():
            within = [*place, member]
            if member in left_out or any(one[: len(within)] == within for one in table.values()):
                continue
            name = member
            while name in columns or name in found or name == MEMBER:
                name = f"{prefix}_{name}"
            found[name] = cell_of(value)
    return found
