"""Reads the rows of the table of cases, page by page."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from assay.cases.table import (
    CaseEntry,
    CaseFilter,
    entries,
    indexes,
    numbers_of,
    read_columns,
    single_entries,
)
from assay.ports import Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED, CaseBlock

PAGE = 500


async def all_blocks(store: Store, run: str, *, holding: str = "") -> list[CaseBlock]:
    """The rows of a run: about a kilobyte for 500 results. `holding`: only rows with one of these outcomes."""
    found: list[CaseBlock] = []
    start = 0
    while page := await store.case_blocks(run, start=start, limit=PAGE, holding=holding):
        found += page
        start = page[-1].last + 1
        if len(page) < PAGE:
            break
    return found


# Pages of the table of cases: filtered, in any order.

FAILURES_FIRST = FAILED + ERROR + SKIPPED + UNGRADED + PASSED
NUMBERS = ("score", "cost", "latency")
CaseOrder = Literal["position", "score", "cost", "latency", "status"]


class PageRequest(NamedTuple):
    """Unknown numbers come last, and equal ones by position."""

    filter: CaseFilter
    order: CaseOrder = "position"
    descending: bool = False
    offset: int = 0
    limit: int = 50


class CasePage(NamedTuple):
    cases: list[CaseEntry]
    matching: int  # the number of cases that match


def page_of(
    blocks: Sequence[CaseBlock], trials: int, request: PageRequest, *, complete: bool = True
) -> CasePage:
    """A page of the cases that match. `complete`: the run has ended."""
    if trials > 1 or (not request.filter.by_status_only and not request.filter.checks):
        return plain_page(blocks, trials, request, complete=complete)
    if request.filter.by_numbers:
        return plain_page(blocks, trials, request, complete=complete)
    if request.order in NUMBERS:
        return _by_number(blocks, request)
    return _by_place(blocks, request)


def plain_page(
    blocks: Iterable[CaseBlock], trials: int, request: PageRequest, *, complete: bool = True
) -> CasePage:
    """`page_of` in its plain form: every case that matches is made."""
    matching = 0

    def matched() -> Iterator[CaseEntry]:
        nonlocal matching
        for case in entries(blocks, trials, request.filter, complete=complete):
            matching += 1
            yield case

    key = _key(request.order, descending=request.descending)
    stop = request.offset + request.limit
    return CasePage(heapq.nsmallest(stop, matched(), key=key)[request.offset :], matching)


def place_of(
    blocks: Iterable[CaseBlock], trials: int, request: PageRequest, position: int, *, complete: bool = True
) -> int | None:
    """The index of the case at this position among those that match, in their order; None if it is not one of them."""
    key = _key(request.order, descending=request.descending)
    keys, own = list[Any](), None
    for case in entries(blocks, trials, request.filter, complete=complete):
        keys.append(key(case))
        own = keys[-1] if case.position == position else own
    return None if own is None else sum(other < own for other in keys)


def _key(order: CaseOrder, *, descending: bool) -> Callable[[CaseEntry], Any]:
    sign = -1 if descending else 1
    if order == "position":
        return lambda case: sign * case.position
    if order == "status":
        return lambda case: (sign * FAILURES_FIRST.index(case.status), case.position)

    def number(case: CaseEntry) -> tuple[bool, float, int]:
        value: float | None = getattr(case, order)
        return value is None, 0.0 if value is None else sign * value, case.position

    return number


def _by_place(blocks: Sequence[CaseBlock], request: PageRequest) -> CasePage:
    """By position, or by status and position."""
    counts = [_pattern_counts(block, request.filter) for block in blocks]
    if request.order == "position":
        order: list[str] = [request.filter.statuses]
    else:
        listed = request.filter.statuses or FAILURES_FIRST
        order = [status for status in FAILURES_FIRST if status in listed]
        order = order[::-1] if request.descending else order
    backwards = request.order == "position" and request.descending
    skip, found = request.offset, list[CaseEntry]()
    for statuses in order:
        numbered = list(enumerate(blocks))
        for at, block in reversed(numbered) if backwards else numbered:
            many = sum(count for status, count in counts[at].items() if not statuses or status in statuses)
            if skip >= many or len(found) == request.limit:
                skip -= min(skip, many)
                continue
            only = CaseFilter(statuses=statuses, checks=request.filter.checks)
            cases = list(single_entries(block, only))
            cases = cases[::-1] if backwards else cases
            found += cases[skip : skip + request.limit - len(found)]
            skip = 0
    return CasePage(found, sum(count for block in counts for count in block.values()))


def _pattern_counts(block: CaseBlock, filter: CaseFilter) -> Counter[str]:
    """The number of matching cases of a block by status."""
    columns = read_columns(block.data)
    counts = Counter[str]()
    for number, many in Counter(indexes(columns)).items():
        if filter.matches_pattern(pattern := columns.patterns[number]):
            counts[pattern[0]] += many
    return counts


def _by_number(blocks: Sequence[CaseBlock], request: PageRequest) -> CasePage:
    """By a number: of each block, only the cases that may be on the page are looked at further."""
    size, sign = request.offset + request.limit, -1.0 if request.descending else 1.0
    which = NUMBERS.index(request.order)
    best, unknown, matching = list[tuple[float, int]](), list[int](), 0
    bar = float("inf")
    for block in blocks:
        columns = read_columns(block.data)
        wanted = {
            at for at, pattern in enumerate(columns.patterns) if request.filter.matches_pattern(pattern)
        }
        if not wanted:
            continue
        index = indexes(columns)
        values = numbers_of(columns, index)[which]
        if request.order == "score" and columns.findings:
            found = numbers_of(columns, index)[4]
            values = [0.0 if finding < 0 else value for value, finding in zip(values, found, strict=True)]
        positions = range(block.first, block.last + 1)
        rows = zip(index, values or [float("nan")] * len(index), positions, strict=True)
        if len(wanted) < len(columns.patterns):
            rows = [row for row in rows if row[0] in wanted]
            matching += len(rows)
        else:
            matching += len(index)
            rows = list(rows)
        best += [(sign * value, position) for _, value, position in rows if sign * value <= bar]
        if len(unknown) < size:
            unknown += [position for _, value, position in rows if value != value]
        if len(best) > 4 * size:
            best = heapq.nsmallest(size, best)
            bar = best[-1][0]
    chosen = [position for _, position in heapq.nsmallest(size, best)] + unknown
    chosen = chosen[request.offset : size]
    return CasePage(_entries_at(blocks, chosen), matching)


def _entries_at(blocks: Sequence[CaseBlock], positions: Sequence[int]) -> list[CaseEntry]:
    wanted, found = set(positions), dict[int, CaseEntry]()
    for block in blocks:
        if wanted and any(block.first <= position <= block.last for position in wanted):
            for case in single_entries(block, CaseFilter()):
                if case.position in wanted:
                    found[case.position] = case
                    wanted.discard(case.position)
    return [found[position] for position in positions]
