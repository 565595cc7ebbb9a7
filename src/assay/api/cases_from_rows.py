"""Rows as cases and outputs: data frames and lists of dictionaries, with the columns that `map` names."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple, cast

from assay.errors import MOST_PROBLEMS, InvalidRequest, Problem
from assay.fep.planning.plan import is_sequence
from assay.fep.planning.request import is_listing
from assay.inputs.cells import Cells, read_cells
from assay.inputs.context import other_members
from assay.inputs.frames import DataFrame, check_index, columns_of, is_frame, rows_of
from assay.inputs.places import NO_PLACES, Place, Places, joined_places, places_of
from assay.inputs.rows import (
    SHOWN,
    ColumnMap,
    Part,
    RowKind,
    check_targets,
    find_columns,
    is_row,
    names_part,
    split_columns,
)
from assay.protocol.json_types import is_object, kind_of, preview

Columns = Mapping[str, str]


class RowReader:
    """Makes contexts, cases or outputs of rows. Without `names`, the first row says which columns there are."""

    def __init__(
        self, part: Part, columns: Columns, place: str, names: tuple[str, ...] | None = None
    ) -> None:
        self._part: Part = part
        self._columns, self._place = columns, place
        self._names, self._is_frame = dict.fromkeys(names or ()), names is not None
        self._mapping: ColumnMap | None = None
        self._is_nested = False  # whether a column is a member of an object
        check_targets(columns, "map: ")
        # a frame has rows, unless a column holds whole test cases
        self._has_rows = bool(columns) or (names is not None and "test_case" not in names)
        if names is not None and self._has_rows:
            self._find(names, "typed")

    @property
    def table(self) -> dict[str, Place]:
        """The columns, each with the place of its cells in a context."""
        return {} if self._mapping is None else places_of(self._names, self._mapping, nested=self._is_frame)

    def _find(self, names: tuple[str, ...], kind: RowKind) -> ColumnMap:
        self._mapping = found = find_columns(names, self._columns, self._part, self._place, kind=kind)
        self._is_nested = any("." in column for column in found.columns.values())
        return found

    def read(self, row: Cells | Any, at: int) -> dict[str, Any]:
        here = f"{self._place}[{at}]"
        given: Any = row.row if isinstance(row, Cells) else row
        if not is_object(given):
            message = f"expected a row, an object with columns, got {kind_of(given)}"
            raise InvalidRequest(Problem(here, message))
        if not self._has_rows and not is_row(given, self._part):
            return given
        mapping = self._mapping or self._find(tuple(map(str, given)), "json")
        if not isinstance(row, Cells):
            row = read_cells(given, nulls=True)
            self._names.update(dict.fromkeys(map(str, given)))
            for target in ("input", "output"):  # one that is missing, such as NaN, is null as in a data frame
                if (column := mapping.columns.get(target)) in given:
                    row.row.setdefault(str(column), None)
        if self._is_nested:
            row = row._replace(row=deepcopy(row.row))
        document, problems = mapping.apply(row, at + 1)
        if problems:
            raise InvalidRequest([Problem(f"{here}.{one.place}", one.message) for one in problems])
        return document


class GivenCases(NamedTuple):
    """The cases and the outputs of `evaluate`, and the columns of the tables that they come from."""

    test_cases: Any
    outputs: Any
    columns: Places = NO_PLACES


def cases_and_outputs(
    test_cases: Any, outputs: Any, columns: Columns | None, *, answered: bool
) -> GivenCases:
    """
    The cases and the outputs of `evaluate`. Rows and contexts become cases, and outputs if there are none beside them.

    `answered`: an agent answers the cases.
    """
    check_map(columns)
    _check_kinds(test_cases, outputs)
    alone = outputs is None and not answered
    rows = columns is not None or is_frame(test_cases) or _has_rows(test_cases, with_outputs=alone)
    of_case, of_output = (columns or {}, {}) if alone else split_columns(columns)
    table: dict[str, Place] = {}
    if not alone and (is_frame(outputs) or of_output):
        outputs, table = _read_all(outputs, "output", of_output, "outputs")
    if not rows:
        return GivenCases(test_cases, outputs, table)
    part: Part = "context" if alone else "case"
    documents, columns_of_cases = _read_all(test_cases, part, of_case, "test_cases")
    table = joined_places(columns_of_cases, table)
    if not alone:
        return GivenCases(documents, outputs, table)
    if problems := [one for at, context in enumerate(documents) for one in _lacking(context, at)]:
        raise InvalidRequest(problems[:MOST_PROBLEMS])
    return GivenCases([one["test_case"] for one in documents], [one["output"] for one in documents], table)


def _check_kinds(test_cases: Any, outputs: Any) -> None:
    """Refuse what a caller may take for cases or outputs: a file, columns, and values without their objects."""
    ways = "expected a list of cases, a list of rows or a data frame"
    if isinstance(test_cases, str | PathLike):
        readers = "assay.load_contexts reads a file of cases with outputs, assay.load_cases one of cases"
        raise InvalidRequest(Problem("test_cases", f"{ways}, got the name of a file: {readers}"))
    if isinstance(test_cases, Mapping):
        hint = ": pandas.DataFrame makes a table of columns"
        raise InvalidRequest(Problem("test_cases", f"{ways}, got an object{hint}"))
    first = next(iter(outputs), None) if is_listing(outputs) and not is_frame(outputs) else None
    if isinstance(first, str | int | float):
        makes = '[{"value": one} for one in outputs] makes them'
        message = f"expected an object with value, got {kind_of(first)}: {makes}"
        raise InvalidRequest(Problem("outputs[0]", message))


def _read_all(
    rows: Any, part: Part, columns: Columns, place: str
) -> tuple[list[dict[str, Any]], dict[str, Place]]:
    reader, given = _reader(rows, part, columns, place)
    return list(_documents(reader, given)), reader.table


def check_map(columns: Any) -> None:
    """Raise InvalidRequest unless `map` has the name of a column for each target."""
    if columns is None:
        return
    expected = 'the name of a column for each target, such as {"input": "question"}'
    if not isinstance(columns, Mapping):
        raise InvalidRequest(Problem("map", f"expected {expected}, got {kind_of(columns)}"))
    for target, column in cast("Mapping[Any, Any]", columns).items():
        if not isinstance(target, str) or not isinstance(column, str):
            message = f"expected {expected}, got {kind_of(column)}"
            raise InvalidRequest(Problem(f"map[{target!r}]", message))


def _lacking(context: dict[str, Any], at: int) -> Iterator[Problem]:
    """The problems of a context without its test case or its output, or with other members, as in a file."""
    if "test_case" in context and "output" in context:
        yield from (Problem(f"test_cases[{at}].{one.place}", one.message) for one in other_members(context))
        return
    ways = 'give it in outputs=, or name its column, such as map={"output": "output.value"}'
    expected = "expected a row, or an object with test_case and output"
    names = ", ".join(preview(name) for name in islice(context, SHOWN)) or "no members"
    yield Problem(f"test_cases[{at}]", f"{expected}, got {names}; if the output is elsewhere, {ways}")


def streamed_contexts(
    contexts: Iterable[Any] | AsyncIterable[Any] | DataFrame, columns: Columns | None, *, answered: bool
) -> Iterable[Any] | AsyncIterable[Any]:
    """The contexts, or the cases for an agent, of `evaluate_stream`."""
    check_map(columns)
    part: Part = "case" if answered else "context"
    if isinstance(contexts, AsyncIterable):
        return contexts if columns is None else _each_document(contexts, RowReader(part, columns, "contexts"))
    if is_frame(contexts) or columns is not None:
        return _documents(*_reader(contexts, part, columns or {}, "contexts"))
    return cast("Iterable[Any]", contexts)


def _reader(rows: Any, part: Part, columns: Columns, place: str) -> tuple[RowReader, Iterable[Any]]:
    """A reader of rows, and the rows."""
    if is_frame(rows):
        check_index(rows, columns.values(), place)
        return RowReader(part, columns, place, columns_of(rows, place)), rows_of(rows, place)
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
        return RowReader(part, columns, place), cast("Iterable[Any]", rows)
    raise InvalidRequest(Problem(place, f"expected a data frame or a list of rows, got {kind_of(rows)}"))


def _documents(reader: RowReader, rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    return (reader.read(row, at) for at, row in enumerate(rows))


async def _each_document(rows: AsyncIterable[Any], reader: RowReader) -> AsyncIterator[dict[str, Any]]:
    at = 0
    async for row in rows:
        yield reader.read(row, at)
        at += 1


def _has_rows(cases: Any, *, with_outputs: bool) -> bool:
    """
    Whether a list has rows: with outputs, the contexts of a file or rows with a column for the output; without, rows
    with a column for the input that is not named `input`, as a case of FEP names it.
    """
    first = cases[0] if is_sequence(cases) and cases else None
    if not is_object(first):
        return False
    if with_outputs:
        return "test_case" in first or names_part(first, "output")
    return "input" not in first and names_part(first, "input")
