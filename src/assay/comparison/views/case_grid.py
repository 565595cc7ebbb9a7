"""The cases of several runs as a grid: a row for each case, and its value in each run."""

from array import array
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from assay.comparison.pairing import ABSENT, MEASURED, PairedRuns
from assay.concurrency.loop_budget import paced

CellState = Literal["measured", "unmeasured", "absent"]


class GridCell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case in one run: the mean of its trials, if it was measured. `position` is its number in the run."""

    state: CellState
    value: float | None = None
    position: int | None = None


class GridRow(Struct, frozen=True, kw_only=True):
    id: str
    different: bool
    cells: tuple[GridCell, ...]  # one for each run


class CaseGrid:
    """Rows by number. It is computed once; a page of it is cheap."""

    def __init__(self, paired: PairedRuns) -> None:
        self._paired = paired
        values = paired.values
        self._different = array(
            "I",
            (
                case
                for case in paced(range(paired.index.count))
                if len({(one.status(case), one.mean(case)) for one in values}) > 1
            ),
        )

    def count(self, *, different: bool) -> int:
        return len(self._different) if different else self._paired.index.count

    def rows(self, trials: Sequence[int], first: int, limit: int, *, different: bool) -> list[GridRow]:
        """Some rows in the order of the runs. `trials`: how often each run tried a case."""
        stop = min(first + limit, self.count(different=different))
        cases = self._different[first:stop] if different else range(min(first, stop), stop)
        known = set(self._different[: len(self._different)]) if not different else set(cases)
        positions = [self._paired.positions(at, cases, one) for at, one in enumerate(trials)]
        return [
            GridRow(
                id=self._paired.index.id_of(case),
                different=case in known,
                cells=tuple(
                    self._cell(at, case, positions[at][number]) for at in range(len(self._paired.runs))
                ),
            )
            for number, case in enumerate(cases)
        ]

    def _cell(self, at: int, case: int, position: int | None) -> GridCell:
        values = self._paired.values[at]
        status = values.status(case)
        if status == MEASURED:
            return GridCell(state="measured", value=values.mean(case), position=position)
        if status == ABSENT and not values.has_case(case):
            return GridCell(state="absent")
        return GridCell(state="unmeasured", position=position)
