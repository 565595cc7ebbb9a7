"""The columns of a table of results: those of the user's table, then ours. One rule for every format."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from assay.fep.outputs.result_tables import COLUMNS, Row, about_of, case_parts, cell_of, check_parts, tags_of
from assay.inputs.places import NO_PLACES, Place, Places, find_place
from assay.protocol.json_types import JSON, is_list
from assay.results.run_end import MEMBER

_FIRST = ("test_case_id", "output_id", "trial")  # as `case_parts` has them
_SHARED = ("input", "output", "expected", "tags", "cost_usd", "latency_ms")
_SAME: dict[str, tuple[Place, ...]] = {  # columns of ours that hold a cell of the table as it is
    "test_case_id": (["test_case", "id"],),
    "output_id": (["output", "id"],),
    "input": (["test_case", "input"],),
    "output": (["output", "value"],),
    "expected": (["test_case", "expected"],),
    "tags": (["test_case", "tags"], ["test_case", "metadata", "tags"]),
}
_TAGS = _SAME["tags"]


class KeptColumn(NamedTuple):
    """A column of the user's table: its name in the results, and the place of its cells in a context."""

    name: str
    place: Place
    ours: bool  # it is one of our columns


class TableLayout:
    """
    The columns of the results of a table: first those of the table in their order, then ours.

    A column keeps its name. If it has the name of one of ours and is read as that, such as `input`, it is that column.
    If it has such a name and is something else, its name begins with where it is: `case_`, `metadata_` or `output_`.
    """

    def __init__(self, table: Places = NO_PLACES) -> None:
        self._kept = list(kept_columns(table))
        taken = {one.name for one in self._kept if one.ours}
        own = (name for name in COLUMNS if name not in taken)
        self.columns = (*(one.name for one in self._kept), *own)
        # by name, in order; None: what the user's cells are
        self.kinds: dict[str, type | None] = {name: COLUMNS.get(name) for name in self.columns}
        self._first = [at for at, name in enumerate(_FIRST) if name not in taken]
        self._shared = [at for at, name in enumerate(_SHARED) if name not in taken]
        self.is_plain = not self._kept
        if self.is_plain:
            self.case_parts: Callable[[JSON, JSON, JSON], tuple[Row, Row]] = case_parts
        else:
            self.case_parts = self._with_table

    def _with_table(self, case: JSON, output: JSON, about: JSON) -> tuple[Row, Row]:
        """`case_parts` with the cells of the user's table before them."""
        first, shared = case_parts(case, output, about)
        ours: JSON = dict(zip((*_FIRST, *_SHARED), (*first, *shared), strict=True))
        context = {"test_case": case, "output": output}
        cells = [ours[one.name] if one.ours else _cell(context, one) for one in self._kept]
        return (*cells, *(first[at] for at in self._first)), tuple(shared[at] for at in self._shared)

    def rows(self, result: JSON) -> Iterator[Row]:
        """The rows of one TestCaseResult as JSON: one for each check."""
        case: JSON = result["execution_context"]["test_case"]
        output: JSON = result["execution_context"]["output"]
        about = about_of(output)
        first, shared = self.case_parts(case, output, about)
        for at, check in enumerate(result["check_results"]):
            left, right = check_parts(at, check, output, about, case)
            yield (*first, *left, *shared, *right)


def kept_columns(table: Places) -> Iterator[KeptColumn]:
    """The columns of the user's table under their names in results."""
    used = {*COLUMNS, MEMBER, *table}
    for name, place in table.items():
        if place in _SAME.get(name, ()):
            yield KeptColumn(name, place, ours=True)
            continue
        kept = name
        if name in COLUMNS or name == MEMBER:
            of_case = "metadata" if place[1] == "metadata" else "case"
            prefix = "output" if place[0] == "output" else of_case
            while kept in used:
                kept = f"{prefix}_{kept}"
            used.add(kept)
        yield KeptColumn(kept, place, ours=False)


def _cell(context: JSON, column: KeptColumn) -> Any:
    """A scalar as it is, tags as a text, anything else as JSON; so is a text in a column of JSON."""
    value = find_place(context, column.place)
    if isinstance(value, str) and column.name.endswith(":json"):
        return msgspec.json.encode(value).decode()
    return tags_of({"tags": value}) if is_list(value) and column.place in _TAGS else cell_of(value)


PLAIN = TableLayout()
