"""Where the cells of a table stand in a context: the results of a table keep its columns."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from assay.inputs.cells import Cells
from assay.inputs.rows import ColumnMap, Part
from assay.inputs.table_files import nested_row
from assay.protocol.json_types import is_list, is_object

Place = list[str]  # names that lead from the context to the value: test_case, metadata, topic
Places = Mapping[str, Place]  # by the name of the column, in the order of the table
NO_PLACES: Places = MappingProxyType({})
_WITHIN: dict[Part, Place] = {"context": [], "case": ["test_case"], "output": ["output"]}


class InputTable:
    """The columns of the tables that are read. Those of a stream are known with its first row."""

    def __init__(self) -> None:
        self._of_cases = self._of_outputs = NO_PLACES

    def note(self, names: Iterable[str], mapping: ColumnMap, *, nested: bool) -> None:
        """Keep the columns of the table of cases, or of the one of outputs."""
        places = places_of(names, mapping, nested=nested)
        if mapping.part == "output":
            self._of_outputs = places
        else:
            self._of_cases = places

    @property
    def places(self) -> dict[str, Place]:
        return joined_places(self._of_cases, self._of_outputs)


class _Mark:
    """A cell that is recognised again."""


def places_of(names: Iterable[str], mapping: ColumnMap, *, nested: bool) -> dict[str, Place]:
    """
    The place of each column, found by a row of marks that is mapped as every other row.

    `nested`: a dot in the name of a column leads into an object. Metadata that `--map` names has its own entry, so that
    `--by` finds it under its name in the results, too.
    """
    marks: dict[str, Any] = {name: _Mark() for name in names}
    row, _ = nested_row(marks) if nested else (dict(marks), ())
    document, _ = mapping.apply(Cells(row), 1)
    found: dict[int, Place] = {}
    for place, value in _values(document, _WITHIN[mapping.part]):
        if isinstance(value, _Mark):
            found.setdefault(id(value), place)
        elif is_list(value) and value and isinstance(value[0], _Mark):
            found.setdefault(id(value[0]), place)  # tags; a column that is a member too was found before
    places = {name: found[id(mark)] for name, mark in marks.items() if id(mark) in found}
    for target, column in mapping.columns.items():
        _, dot, name = target.partition("metadata.")
        if dot and column not in (name, target):
            places.setdefault(target, ["test_case", "metadata", name])
    return places


def joined_places(of_cases: Places, of_outputs: Places) -> dict[str, Place]:
    """The columns of two tables. A column of the outputs that has a name of the first begins with `output_`."""
    joined = dict(of_cases)
    for column, place in of_outputs.items():
        name = column
        while name in joined:
            name = f"output_{name}"
        joined[name] = place
    return joined


def _values(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """Every value of a document with its place, members before lists."""
    if not is_object(value):
        yield place, value
        return
    for name, one in sorted(value.items(), key=lambda item: _has_list(item[1])):
        yield from _values(one, [*place, name])


def _has_list(value: Any) -> bool:
    return is_list(value) or (is_object(value) and any(map(_has_list, value.values())))


def find_place(context: Any, place: Place) -> Any:
    """The value at a place; None if there is none."""
    for name in place:
        if not is_object(context) or name not in context:
            return None
        context = context[name]
    return context
