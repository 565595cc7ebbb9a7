"""The other columns of the user's table in a report in Markdown: those beside the input, the output and so on."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from assay.cases.case_search import read_results
from assay.cases.previews import preview_of
from assay.cases.table import CaseEntry
from assay.comparison.stored_runs import columns_of
from assay.fep.outputs.table_layout import kept_columns
from assay.fep.records.run_header import KIND as EVALUATION
from assay.inputs.places import Place, find_place
from assay.ports import Run, Store
from assay.protocol.json_types import JSON, is_list, is_object
from assay.results.slices import Columns
from assay.serve.overview.case_list import trial_shown

MAX_COLUMNS = 20
_SHOWN: tuple[Place, ...] = (
    ["test_case", "id"],
    ["test_case", "input"],
    ["test_case", "expected"],
    ["output", "value"],
)  # with columns of their own
_EMPTY = "", True


class OtherColumns(Struct, frozen=True, kw_only=True, rename="camel"):
    """`cells` has the beginnings of the texts of some cases, by their position, in the order of `names`."""

    names: tuple[str, ...] = ()
    cells: dict[int, tuple[str, ...]] = {}
    left_out: int = 0  # columns beyond the first ones


async def other_columns(store: Store, run: Run, cases: Sequence[CaseEntry], trials: int) -> OtherColumns:
    """
    The columns of the table that was evaluated, in its order. Cases of JSON, and result files, name no columns: there
    the members of the cases and of their metadata are the columns.
    """
    if run.kind != EVALUATION or not cases:
        return OtherColumns()
    table = _named(await columns_of(store, run))
    numbers = {case.position * trials + trial_shown(case): case.position for case in cases}
    texts = await read_results(store, run.id, list(numbers), lambda result: _texts(result, table))
    own = {name for cells in texts.values() for name, (_, is_copy) in cells.items() if not is_copy}
    order = table or dict.fromkeys(name for at in sorted(texts) for name in texts[at])
    names = tuple(name for name in order if name in own)
    shown = names[:MAX_COLUMNS]
    return OtherColumns(
        names=shown,
        cells={
            numbers[at]: tuple(cells.get(name, _EMPTY)[0] for name in shown) for at, cells in texts.items()
        },
        left_out=len(names) - len(shown),
    )


def _texts(result: JSON, table: Columns) -> dict[str, tuple[str, bool]]:
    """
    The beginnings of the cells that are not empty, each with whether it is a copy of the input, the output or the
    expected value, as in a file of results.
    """
    context: JSON = result["execution_context"]
    places = table or _named(dict(_members(context["test_case"])))
    shown = [find_place(context, place) for place in _SHOWN]
    cells = ((name, find_place(context, place)) for name, place in places.items() if place not in _SHOWN)
    return {
        name: (_text(value), not table and value in shown)
        for name, value in cells
        if value is not None and value != ""
    }


def _named(table: Columns) -> dict[str, Place]:
    """The places by the names that the columns have in every table of results."""
    return {one.name: one.place for one in kept_columns(table)}


def _text(value: Any) -> str:
    words = is_list(value) and all(isinstance(one, str) for one in value)
    return preview_of(", ".join(value) if words else value, "user")  # tags


def _members(case: JSON) -> Iterator[tuple[str, Place]]:
    """The members of a case and of its metadata; one of the latter that both have begins with `metadata.`."""
    metadata = case.get("metadata")
    for name in case:
        if name != "metadata" or not is_object(metadata):
            yield name, ["test_case", name]
    for name in metadata if is_object(metadata) else ():
        yield (f"metadata.{name}" if name in case else name), ["test_case", "metadata", name]
