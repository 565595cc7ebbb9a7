"""Cells of tables with types: Parquet, data frames and lists of dictionaries are read by one rule."""

from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from assay.errors import Problem
from assay.protocol.foreign_values import plain_value
from assay.protocol.json_types import is_finite, is_list, is_object

NOT_A_NUMBER = "NaN and infinity are not JSON numbers"
_SIMPLE: Any = (str, int, bool)


class Cells(NamedTuple):
    """
    A row as JSON has it, without its cells that are missing.

    An infinite number is the text `Infinity` or `-Infinity`. `infinite` has the places of such texts: they are
    refused in a column that is read as a part of the case, and kept in the others.
    """

    row: dict[str, Any]
    infinite: tuple[str, ...] = ()

    def problem(self, column: str) -> Problem | None:
        """Why this column cannot be read, or None."""
        within = (f"{column}.", f"{column}[")
        wrong = (place for place in self.infinite if place == column or place.startswith(within))
        return next((Problem(place, NOT_A_NUMBER) for place in wrong), None)


def read_cells(row: Mapping[Any, Any], *, nulls: bool = False) -> Cells:
    """
    Leave out the cells that are missing, which NaN, NaT and NA are; and None, unless `nulls` keeps it, as JSON does.
    """
    cells: dict[str, Any] = {}
    infinite: list[str] = []
    for name, given in row.items():
        column = name if type(name) is str else str(name)
        value = given if type(given) in _SIMPLE else plain_value(given)
        if value is None:
            if nulls and given is None:
                cells[column] = None
        elif type(value) is float:
            if value == value:
                cells[column] = _finite(value, column, infinite)
        elif isinstance(value, dict | list | tuple) and not is_finite(value):
            cells[column] = _finite(value, column, infinite)
        else:
            cells[column] = value
    return Cells(cells, tuple(infinite))


def _finite(value: Any, place: str, infinite: list[str]) -> Any:
    """The value with texts for infinite numbers and null for NaN. The places of both are added."""
    if type(value) is float:
        if value - value == 0:
            return value
        infinite.append(place)
        return None if value != value else "Infinity" if value == inf else "-Infinity"
    if is_object(value):
        return {name: _finite(one, f"{place}.{name}", infinite) for name, one in value.items()}
    if is_list(value) or isinstance(value, tuple):
        return [_finite(one, f"{place}[{at}]", infinite) for at, one in enumerate(value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return value
