"""The cases of a comparison by what became of them, the worst first, and two charts of bounded size."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from math import ceil
from typing import Literal

from msgspec import Struct

from assay.comparison.pairing import CaseValues, PairedRuns, Pairing, case_groups, other_inputs
from assay.concurrency.loop_budget import PART, paced, spend
from assay.errors import InvalidRequest, Problem
from assay.results.slices import NONE

Change = Literal["worse", "better", "unchanged", "unmeasured", "only_in_baseline", "only_in_run"]
CHANGES: tuple[Change, ...] = (
    "worse", "better", "unchanged", "unmeasured", "only_in_baseline", "only_in_run",
)  # fmt: skip
IN_BOTH = {"passed_in_both": 1.0, "failed_in_both": 0.0}  # parts of the unchanged cases, by their value
FILTERS = ("changed", *CHANGES, "other_inputs", *IN_BOTH)
MAX_POINTS = 400  # points of the scatter that are drawn as they are; more are counted in a grid
GRID = 24  # columns and rows of that grid
BARS = 20  # bars on each side of 0


class ComparedCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A case in both runs. None: the run does not have it, or did not measure it. The reasons are content.

    The positions are the numbers of the case in the runs, by which a client reads it.
    """

    id: str
    change: Change
    before: float | None = None
    after: float | None = None
    reason_before: str = ""
    reason_after: str = ""
    position_before: int | None = None
    position_after: int | None = None


class ScatterPoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some cases with about the same two values. `id` is there if it is one case."""

    before: float
    after: float
    cases: int
    id: str = ""


class DifferenceBar(Struct, frozen=True, kw_only=True):
    """
    The cases whose difference, after minus before, is above `low` and up to `high`; below 0, from `low` up to below
    `high`.
    """

    low: float
    high: float
    cases: int


class PairCharts(Struct, frozen=True, kw_only=True):
    """`grid`: the points are the centres of cells of a grid, as there are too many to draw each."""

    points: tuple[ScatterPoint, ...]
    grid: bool
    bars: tuple[DifferenceBar, ...]


class CaseLists:
    """The cases of one pair of runs, by what became of them. It is computed when it is first read."""

    def __init__(self, paired: PairedRuns, at: int, by: str = "", slice: str = "") -> None:
        """`at`: the number of the run. `by`: only the cases of one slice, or the scores of one check or criterion."""
        self._paired, self._at = paired, at
        self._index = paired.index
        self._before, self._after = paired.values[0], paired.values[at]
        self._has: Callable[[int], bool] = lambda _: True
        self._sign = -1 if paired.metric.lower_is_better else 1
        if by:
            self._select(by, slice)
        self._pairing = Pairing(self._index, self._before, self._after)
        self._lists: dict[str, Sequence[int]] | None = None

    def _select(self, by: str, slice: str) -> None:
        runs, options = self._paired.runs, self._paired.runs[0].options
        if by in options.groupings:
            series = [run.groups.get((by, slice)) for run in (runs[0], runs[self._at])]
            self._before = CaseValues(self._index, 0, series[0])
            self._after = CaseValues(self._index, self._at, series[1])
            self._has = lambda case: bool(self._before.status(case) or self._after.status(case))
            self._sign = 1
        elif any(by == one.name for one in options.dimensions):
            self._has = self._in_slice(by, slice)
        else:
            names = (
                ", ".join([*options.groupings, *(one.name for one in options.dimensions)]) or "there are none"
            )
            wanted = f"expected one of the names in `by` ({names})"
            raise InvalidRequest(Problem("slice_by", f"{wanted}, got {by[:50]!r}"))

    def _in_slice(self, dimension: str, name: str) -> Callable[[int], bool]:
        """Whether a case is in a slice. The first run that has it decides, as for the interval of the slice."""
        index, at = self._index, self._at
        first, second = index.slices_of(0, dimension), index.slices_of(at, dimension)
        first_names, second_names = (
            {number: names for names, number in index.runs[run].slice_sets[dimension].items()}
            for run in (0, at)
        )

        def has(case: int) -> bool:
            if first[case]:
                return name in first_names.get(first[case], (NONE,))
            return name in second_names.get(second[case], (NONE,))

        return has

    def count(self, change: str) -> int:
        return len(self._cases(change))

    def numbers(self, change: str, first: int, limit: int) -> Sequence[int]:
        """The numbers of some cases of a list, from `first` on."""
        return self._cases(change)[first : first + limit]

    def rows(self, cases: Iterable[int], *, baseline: bool) -> list[int]:
        """The rows of these cases in the baseline, or in the run."""
        at = 0 if baseline else self._at
        every = self._index.cases_of_rows[at]
        if len(every) == self._index.cases_in(at):  # one row each
            return sorted(row for row in (self._index.row_of(at, case) for case in cases) if row >= 0)
        wanted = set(cases)
        return [row for row, case in enumerate(every) if case in wanted]

    def positions(self, cases: Sequence[int], trials: int, *, baseline: bool) -> list[int | None]:
        """The number of each case in the baseline, or in the run, whose cases have this many trials."""
        return self._paired.positions(0 if baseline else self._at, cases, trials)

    def _cases(self, change: str) -> Sequence[int]:
        if self._lists is None:
            self._lists = self._sorted()
        if change not in self._lists:
            self._lists[change] = self._with_value(self._lists["unchanged"], IN_BOTH[change])
        return self._lists[change]

    def _with_value(self, cases: Sequence[int], value: float) -> "array[int]":
        return array("I", (case for case in paced(cases) if self._after.mean(case) == value))

    @property
    def _is_unpaired(self) -> bool:
        return self._at in self._paired.unpaired

    def _sorted(self) -> dict[str, Sequence[int]]:
        if self._is_unpaired:
            return self._unpaired()
        gains: list[tuple[float, int]] = []
        same = array("I")
        for pair in self._pairing.pairs():
            if self._has(pair.case):
                gain = (pair.after - pair.before) * self._sign
                if gain:
                    gains.append((gain, pair.case))
                else:
                    same.append(pair.case)
        worse = array("I", (case for _, case in _in_order([one for one in gains if one[0] < 0])))
        better = array(
            "I", (case for _, case in _in_order([(-gain, case) for gain, case in gains if gain > 0]))
        )
        only_before, only_after = self._pairing.only()
        other = other_inputs(self._index, self._at)
        return {
            "worse": worse,
            "better": better,
            "changed": worse + better,
            "unchanged": same,
            "unmeasured": self._listable(case for case, _ in self._pairing.unmeasured()),
            "only_in_baseline": self._listable(only_before),
            "only_in_run": self._listable(only_after),
            "other_inputs": self._listable(other),
        }

    def _unpaired(self) -> dict[str, Sequence[int]]:
        """The lists of runs that are not paired: no case changed."""
        groups = case_groups(self._paired, self._at)
        lists: dict[str, Sequence[int]] = {name: array("I") for name in FILTERS}
        return lists | {
            "unmeasured": self._listable(groups.unmeasured),
            "only_in_baseline": self._listable(groups.only_before),
            "only_in_run": self._listable(groups.only_after),
        }

    def _listable(self, cases: Iterable[int]) -> "array[int]":
        return array("I", (case for case in cases if self._has(case)))

    def case(self, case: int) -> ComparedCase:
        """A case by its number."""
        before, after = self._before.mean(case), self._after.mean(case)
        return ComparedCase(
            id=self._index.id_of(case),
            change=self._change(case, before, after),
            before=before,
            after=after,
        )

    def _change(self, case: int, before: float | None, after: float | None) -> Change:
        if self._is_unpaired and before is None and after is None:
            return "unmeasured"
        if not self._before.has_case(case):
            return "only_in_run"
        if not self._after.has_case(case):
            return "only_in_baseline"
        if before is None or after is None:
            return "unmeasured"
        gain = (after - before) * self._sign
        return "better" if gain > 0 else "worse" if gain < 0 else "unchanged"

    def charts(self) -> PairCharts:
        """The scatter of both values, and the distribution of the differences. Runs that are not paired have none."""
        if self._is_unpaired:
            return PairCharts(points=(), grid=False, bars=())
        values = [(pair.before, pair.after) for pair in self._pairing.pairs() if self._has(pair.case)]
        exact = Counter(values)
        if len(exact) <= MAX_POINTS:
            ids = self._single_ids(exact) if len(values) <= MAX_POINTS else {}
            points = tuple(
                ScatterPoint(before=before, after=after, cases=cases, id=ids.get((before, after), ""))
                for (before, after), cases in sorted(exact.items())
            )
            return PairCharts(
                points=points, grid=False, bars=_bars(after - before for before, after in values)
            )
        bars = _bars(after - before for before, after in values)
        return PairCharts(points=_grid(values), grid=True, bars=bars)

    def _single_ids(self, exact: Counter[tuple[float, float]]) -> dict[tuple[float, float], str]:
        return {
            (pair.before, pair.after): self._index.id_of(pair.case)
            for pair in self._pairing.pairs()
            if self._has(pair.case) and exact[pair.before, pair.after] == 1
        }


def _in_order(gains: Sequence[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """The gains in order. They are sorted in parts, because a sort holds the interpreter."""
    parts: list[list[tuple[float, int]]] = []
    for first in range(0, len(gains), PART):
        spend()
        parts.append(sorted(gains[first : first + PART]))
    return paced(merge(*parts))


def _grid(values: Sequence[tuple[float, float]]) -> tuple[ScatterPoint, ...]:
    """The cells of a grid that have cases. The last cell of a row or column includes its upper end."""
    lowest = min(min(pair) for pair in paced(values))
    width = (max(max(pair) for pair in paced(values)) - lowest) / GRID
    cells = Counter(
        tuple(min(GRID - 1, int((one - lowest) / width)) for one in pair) for pair in paced(values)
    )
    return tuple(
        ScatterPoint(before=lowest + (x + 0.5) * width, after=lowest + (y + 0.5) * width, cases=cases)
        for (x, y), cases in sorted(cells.items())
    )


def _bars(differences: Iterator[float] | Iterable[float]) -> tuple[DifferenceBar, ...]:
    """Bars of one width on both sides of 0. A difference of exactly 0 has a bar of its own."""
    every = list(paced(differences))
    largest = max((abs(one) for one in every), default=0.0)
    if not largest:
        return (DifferenceBar(low=0.0, high=0.0, cases=len(every)),) if every else ()
    width = largest / BARS
    counts = Counter(_bar(one, width) for one in paced(every))
    return tuple(
        DifferenceBar(low=(at - (at > 0)) * width, high=(at + (at < 0)) * width, cases=counts[at])
        for at in range(-BARS, BARS + 1)
    )


def _bar(difference: float, width: float) -> int:
    if not difference:
        return 0
    at = max(1, min(BARS, ceil(abs(difference) / width - 1e-9)))
    return at if difference > 0 else -at
