"""Results as a pandas DataFrame, with the columns of the CSV table."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import msgspec

from assay.extras import require
from assay.fep.tables import COLUMNS, case_rows
from assay.protocol.results import TestCaseResult

_KINDS = {
    int: "Int64",
    float: "float64",
    bool: "boolean",
    str: "object",
}  # the first and the third may lack values


def data_frame(results: Iterable[TestCaseResult]) -> Any:
    """A `pandas.DataFrame` with one row for each check of each case."""
    require("to_pandas()", "tables", package="pandas")
    pandas = import_module("pandas")
    rows = [row for result in results for row in case_rows(msgspec.to_builtins(result))]
    kinds = {name: _KINDS[kind] for name, kind in COLUMNS.items()}
    return pandas.DataFrame.from_records(rows, columns=list(COLUMNS)).astype(kinds)
