"""POST /v1/host/assay/runs/{run_id}/cases:query: a page of cases, filtered and in any order, with counts."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.agenteval.scoring.safety_records import SAFETY, finding_texts, record_of
from assay.cases.case_search import case_ids, case_texts
from assay.cases.pages import CaseOrder, CasePage, PageRequest, all_blocks, page_of, place_of
from assay.cases.table import CaseEntry, CaseFilter, CasePreview, CaseRow, entries, row_of
from assay.concurrency.threads import off_loop
from assay.errors import InvalidRequest, NotFound, Problem
from assay.ports import CLOSED, CaseTotals, Run, Store
from assay.ports.cases import PASSED, CaseBlock
from assay.runs.log_reader import read_chunks
from assay.serve.fep.request_parser import read_json
from assay.serve.openwop.host import host_of
from assay.serve.overview.access import any_run, overview_of
from assay.serve.overview.case_filter import LETTERS, CasesFilter, LookedForIds, case_filter
from assay.serve.overview.effective import NOTHING, EffectiveCase, EffectiveCases
from assay.serve.overview.run_overview import CheckColumn, labels_of
from assay.serve.overview.run_rows import SCORED
from assay.serve.web import responses as pages
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

MAX_PREVIEWS = 100
MAX_OFFSET = 10_000_000
MAX_KINDS = 5  # of findings in the reason of a row


class _Body(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class CaseSort(_Body, frozen=True, kw_only=True):
    by: CaseOrder = "position"
    order: Literal["asc", "desc"] = "asc"


class CasesQuery(_Body, frozen=True, kw_only=True):
    filter: CasesFilter = CasesFilter()
    sort: CaseSort = CaseSort()
    include: list[Literal["preview"]] = []
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET)] | UnsetType = UNSET
    cursor: Annotated[str, Meta(max_length=2_000)] | UnsetType = UNSET
    place: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class RowCounts(Struct, frozen=True, kw_only=True):
    """The rows of the table by outcome. A case with trials is one row; each repeat of an id has a row of its own."""

    all: int
    passed: int = 0
    failed: int = 0
    ungraded: int = 0
    error: int = 0
    skipped: int = 0


class EffectiveCounts(RowCounts, frozen=True, kw_only=True):
    """The rows by outcome with the corrections of people. `corrected` rows have one."""

    corrected: int


class ListedCase(CaseRow, frozen=True, kw_only=True, rename="camel"):
    """A row of the table, and what the corrections of people make of it."""

    effective: EffectiveCase | UnsetType = UNSET


class CasesAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    `place`: the index of the case at the position `place` of the query among those that match, if it is one.

    `counts` are of recorded outcomes, `effective` of those with the corrections of people; absent without any.
    """

    cases: list[ListedCase]
    next: str | UnsetType = UNSET
    counts: RowCounts
    effective: EffectiveCounts | UnsetType = UNSET
    matching: int
    columns: tuple[CheckColumn, ...]
    looked: LookedForIds | UnsetType = UNSET
    place: int | UnsetType = UNSET


class _Cursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    run: str
    offset: int
    query: str


_query = msgspec.json.Decoder(CasesQuery).decode


async def query_cases(call: HttpRequest) -> Response:
    call.query()
    run = await any_run(call)
    body_format(call)
    request = await read_json(call, _query, await read_document(call) or b"{}")
    if run.kind not in SCORED:
        raise NotFound(f"run {run.id} has no cases: it is not an evaluation or an agent eval")
    previews = "preview" in request.include
    if previews and request.limit > MAX_PREVIEWS:
        message = f"expected at most {MAX_PREVIEWS} with previews, got {request.limit}"
        raise InvalidRequest(Problem("limit", message))
    await call.audit_read(run)
    store, trials = call.server.store, int(run.metadata.get("trials", 1))
    offset = _offset(request, run)
    totals = (await store.case_totals([run.id])).get(run.id, CaseTotals())
    changed = await corrected_cases(call, run)
    filter, looked = await case_filter(store, run, request.filter, totals, trials, changed)
    page = await _page(store, run, trials, totals, filter, request, offset)
    labels = labels_of(run)
    after = offset + len(page.cases)
    counts = await row_counts(store, run, trials, totals)
    rows = await case_rows(store, run.id, page.cases, trials, len(labels), previews=previews)
    return answer(
        CasesAnswer(
            cases=[listed_row(row, changed) for row in rows],
            next=_token(run, after, request) if after < page.matching and page.cases else UNSET,
            counts=counts,
            effective=effective_counts(counts, changed),
            matching=page.matching,
            columns=tuple(CheckColumn(index=at, label=label) for at, label in enumerate(labels)),
            looked=looked,
            place=await _place(store, run, trials, filter, request),
        )
    )


async def _place(
    store: Store, run: Run, trials: int, filter: CaseFilter, request: CasesQuery
) -> int | UnsetType:
    if (position := request.place) is UNSET:
        return UNSET
    blocks, complete = await all_blocks(store, run.id), run.status in CLOSED
    page = PageRequest(filter, request.sort.by, request.sort.order == "desc")
    size = sum(len(block.data) for block in blocks)
    found = await off_loop(size, lambda: place_of(blocks, trials, page, position, complete=complete))
    return UNSET if found is None else found


async def corrected_cases(call: HttpRequest, run: Run) -> EffectiveCases:
    """The cases of a run that people corrected; none on a host without annotations."""
    return (
        await overview_of(call).effective.get(call.server.store, run) if host_of(call).feedback else NOTHING
    )


def listed_row(row: CaseRow, changed: EffectiveCases) -> ListedCase:
    members = {name: getattr(row, name) for name in row.__struct_fields__}
    return ListedCase(**members, effective=changed.of(row.position))


def effective_counts(counts: RowCounts, changed: EffectiveCases) -> EffectiveCounts | UnsetType:
    if not changed.cases:
        return UNSET
    recorded = {name: getattr(counts, name) for name in LETTERS}
    return EffectiveCounts(all=counts.all, corrected=len(changed.cases), **changed.counts(recorded))


async def positions_in(
    store: Store, run: Run, request: CasesFilter, changed: EffectiveCases
) -> frozenset[int]:
    """The positions of the cases that match a filter."""
    trials = int(run.metadata.get("trials", 1))
    totals = (await store.case_totals([run.id])).get(run.id, CaseTotals())
    filter, _ = await case_filter(store, run, request, totals, trials, changed)
    blocks, complete = await all_blocks(store, run.id), run.status in CLOSED
    size = sum(len(block.data) for block in blocks)
    return await off_loop(
        size,
        lambda: frozenset(case.position for case in entries(blocks, trials, filter, complete=complete)),
    )


async def row_counts(store: Store, run: Run, trials: int, totals: CaseTotals) -> RowCounts:
    """The rows of the table by outcome."""
    if trials == 1:
        counts = {name: getattr(totals, name) for name in LETTERS}
    else:
        blocks = await all_blocks(store, run.id)
        size, complete = sum(len(block.data) for block in blocks), run.status in CLOSED
        found = await off_loop(
            size,
            lambda: Counter(one.status for one in entries(blocks, trials, CaseFilter(), complete=complete)),
        )
        counts = {name: found[letter] for name, letter in LETTERS.items()}
    return RowCounts(all=sum(counts.values()), **counts)


async def case_rows(
    store: Store, run: str, cases: Sequence[CaseEntry], trials: int, columns: int, *, previews: bool = False
) -> list[CaseRow]:
    """The rows of some cases, with their ids."""
    firsts = [case.position * trials for case in cases]
    ids = await case_ids(store, run, firsts)
    shown = {case.position: case.position * trials + trial_shown(case) for case in cases}
    texts = await case_texts(store, run, list(shown.values())) if previews else {}
    rows: list[CaseRow] = []
    for case, first in zip(cases, firsts, strict=True):
        text = texts.get(shown[case.position])
        preview = UNSET
        if text is not None:
            found = await _found(store, run, first, first + trials) if case.findings else []
            reason = None if all(pattern[0] == PASSED for pattern in case.patterns) else text.reason
            preview = CasePreview(
                input=text.input,
                output=text.output,
                expected=text.expected,
                reason="; ".join([*found, *([reason] if reason else [])]) or None,
            )
        rows.append(row_of(case, columns, ids.get(first), preview))
    return rows


async def _found(store: Store, run: str, first: int, stop: int) -> list[str]:
    """What the detectors found in the trials of a case, without the places."""
    found: dict[str, None] = {}
    async for chunk in read_chunks(store, run, SAFETY, start=first, stop=stop):
        found |= dict.fromkeys(finding_texts(record_of(chunk.data)))
    return list(found)[:MAX_KINDS]


def trial_shown(case: CaseEntry) -> int:
    """The first trial that did not pass, or the first of all."""
    return next((at for at, pattern in enumerate(case.patterns) if pattern[0] != PASSED), 0)


def _offset(request: CasesQuery, run: Run) -> int:
    if request.cursor is UNSET:
        return 0 if request.offset is UNSET else request.offset
    if request.offset is not UNSET:
        raise InvalidRequest(Problem("offset", "expected offset or cursor, got both"))
    refusal = InvalidRequest(Problem("cursor", "expected `next` of an answer to the same query"))
    try:
        cursor = pages.decode(request.cursor, _Cursor)
    except InvalidRequest:
        raise refusal from None
    if (cursor.run, cursor.query) != (run.id, _digest(request)) or not 0 <= cursor.offset <= MAX_OFFSET:
        raise refusal
    return cursor.offset


def _digest(request: CasesQuery) -> str:
    return pages.digest(request.filter, request.sort)


def _token(run: Run, offset: int, request: CasesQuery) -> str:
    return pages.token(_Cursor(run.id, offset, _digest(request)))


def _has_case(block: CaseBlock, numbers: Sequence[int], trials: int) -> bool:
    """Whether a block has a result of one of the cases whose first results have these numbers, in order."""
    at = bisect_right(numbers, block.first - trials)
    return at < len(numbers) and numbers[at] <= block.last


async def _page(
    store: Store,
    run: Run,
    trials: int,
    totals: CaseTotals,
    filter: CaseFilter,
    request: CasesQuery,
    offset: int,
) -> CasePage:
    if request.filter.status is not UNSET and not request.filter.status:
        return CasePage([], 0)
    holding = filter.statuses if trials == 1 else ""
    blocks = await all_blocks(store, run.id, holding=holding)
    if filter.positions is not None:
        numbers = sorted(position * trials for position in filter.positions)
        blocks = [block for block in blocks if _has_case(block, numbers, trials)]
    sort = request.sort
    page = PageRequest(filter, sort.by, sort.order == "desc", offset, request.limit)
    size = sum(len(block.data) for block in blocks)
    complete = run.status in CLOSED
    return await off_loop(size, lambda: page_of(blocks, trials, page, complete=complete))
