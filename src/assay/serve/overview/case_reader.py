"""GET …/cases/{position}: a case with its content. POST …/cases:search: a bounded search in all contents."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.task_content import eval_case
from assay.cases.case_search import PARTS, CaseMatch, Part, SearchedPart, SearchQuery, search_results
from assay.cases.table import CaseEntry, CaseFilter, CaseRow, entries, row_of
from assay.comparison.stored_runs import columns_of
from assay.errors import InvalidRequest, NotFound, Problem
from assay.errors.storage import Erased
from assay.fep.records.case_content import CaseContent, evaluation_case
from assay.fep.records.corrections import with_corrections
from assay.fep.records.run_header import KIND as EVALUATION
from assay.fep.records.service import EvaluationService
from assay.ports import CLOSED, Run, Store
from assay.ports.cases import FAILED, PASSED
from assay.results.reason_groups import REASON
from assay.results.slices import Dimension, read_dimension
from assay.runs.annotations import annotations
from assay.serve.fep.comparison import words_of_requests
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.server_state import fep_of
from assay.serve.openwop.host import host_of
from assay.serve.overview.access import any_run
from assay.serve.overview.case_filter import CasesFilter
from assay.serve.overview.case_list import corrected_cases, positions_in
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

DIGITS = 10  # of a position


class CaseRun(Struct, frozen=True, kw_only=True, rename="camel"):
    run_id: str
    kind: str
    status: str


class CaseDetail(CaseContent, frozen=True, kw_only=True, rename="camel"):
    """A case with its content, its row of the table, and the positions beside it."""

    run: CaseRun
    row: CaseRow
    next: int | None
    previous: int | None


class SliceName(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cases with one value: `{"by": "tier", "name": "pro"}`. By `reason` it is a group of failures."""

    by: Annotated[str, Meta(min_length=1, max_length=200)]
    name: Annotated[str, Meta(max_length=200)]


class SearchBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"parts": "in"}):
    """
    A text, tags, values or several of them. `where`: values that a case has, as GET …/slices names them.

    `in`: the parts of a case in which the text is looked for. `filter`: as in cases:query; only these cases are looked
    at.
    """

    text: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    where: Annotated[list[SliceName], Meta(max_length=10)] = []
    tags: Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=20)] = []
    parts: list[Part] = msgspec.field(default_factory=lambda: list(PARTS))
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, Meta(max_length=20)] | UnsetType = UNSET
    filter: CasesFilter | UnsetType = UNSET


class SearchAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`looked` says how far the search looked. `next`: the cursor of the rest."""

    matches: list[CaseMatch]
    looked: SearchedPart
    next: str | UnsetType = UNSET


_search = msgspec.json.Decoder(SearchBody).decode


async def read_case(call: HttpRequest) -> Response:
    """One case with its content; 404 if it has no result yet, or the content of the run was erased."""
    call.query()
    run = await _run_with_cases(call)
    position = _number(call.scope["path_params"]["position"], "position")
    if run.erased:
        raise Erased(run.id, run.erased, run.erased_by)
    detail = await case_detail(fep_of(call).evaluations, run, position, feedback=host_of(call).feedback)
    await call.audit_read(run)
    return answer(detail)


async def case_detail(
    evaluations: EvaluationService, run: Run, position: int, *, feedback: bool
) -> CaseDetail:
    """One case with its content. With `feedback`, it has the annotations of people too."""
    store = evaluations.store
    entry = await entry_at(store, run, position)
    labels: list[str] = run.metadata.get("checks", [])
    if run.kind == EVAL:
        content = await eval_case(store, run, position, labels, feedback=feedback)
    else:
        content = await evaluation_case(evaluations, run, position, labels)
        content = with_corrections(content, entry, labels, await annotations(store, run) if feedback else [])
    return _detail(run, entry, labels, content)


def _detail(run: Run, entry: CaseEntry, labels: list[str], content: CaseContent) -> CaseDetail:
    trials: int = run.metadata.get("trials", 1)
    total: int = run.metadata.get("total", 0)
    last = (total if run.kind == EVAL else total // trials) - 1
    verdicts = {PASSED: True, FAILED: False}
    content = msgspec.structs.replace(
        content,
        trials=tuple(
            msgspec.structs.replace(trial, passed=verdicts.get(pattern[0]))
            for trial, pattern in zip(content.trials, entry.patterns, strict=False)
        ),
    )
    return CaseDetail(
        **{name: getattr(content, name) for name in content.__struct_fields__},
        run=CaseRun(run_id=run.id, kind=run.kind, status=run.status),
        row=row_of(entry, len(labels), content.case_id),
        next=entry.position + 1 if entry.position < last else None,
        previous=entry.position - 1 if entry.position else None,
    )


async def entry_at(store: Store, run: Run, position: int) -> CaseEntry:
    """The row of the case in the table; NotFound if it has no result yet."""
    trials: int = run.metadata.get("trials", 1)
    first = position * trials
    blocks = [
        block
        for block in await store.case_blocks(run.id, start=first, limit=trials)
        if block.first < first + trials
    ]
    wanted = CaseFilter(positions=frozenset({position}))
    found = next(iter(entries(blocks, trials, wanted, complete=True)), None)
    if found is None:
        ended = run.status in CLOSED
        raise NotFound(f"run {run.id} has no {'' if ended else 'result of a '}case at position {position}")
    return found


async def search_cases(call: HttpRequest) -> Response:
    """Search in the content. What is looked for is in the body: it is in no address and in no log."""
    call.query()
    body_format(call)
    body = await read_json(call, _search, await read_document(call))
    run = await _run_with_cases(call)
    if body.text is UNSET and not body.tags and not body.where:
        raise InvalidRequest(Problem("text", "expected a text, tags or where to look for, got none of them"))
    if run.erased:
        raise Erased(run.id, run.erased, run.erased_by)
    query = SearchQuery(
        text="" if body.text is UNSET else body.text,
        tags=tuple(body.tags),
        parts=tuple(body.parts),
        slices=await _slices(call, run, body.where),
        groups=tuple(one.name for one in body.where if one.by == REASON),
    )
    start = 0 if body.cursor is UNSET else _number(body.cursor, "cursor")
    await call.audit_read(run)
    store = fep_of(call).evaluations.store
    within = None
    if body.filter is not UNSET:
        within = await positions_in(store, run, body.filter, await corrected_cases(call, run))
    page = await search_results(store, run, query, start=start, limit=body.limit, within=within)
    following = UNSET if page.looked.complete else str(page.looked.stop)
    return answer(SearchAnswer(matches=page.matches, looked=page.looked, next=following))


async def _slices(
    call: HttpRequest, run: Run, where: Sequence[SliceName]
) -> tuple[tuple[Dimension, str], ...]:
    named = [one for one in where if one.by != REASON]
    if not named:
        return ()
    columns = await columns_of(call.server.store, run)
    with words_of_requests():
        return tuple((read_dimension(one.by).in_table(columns), one.name) for one in named)


async def _run_with_cases(call: HttpRequest) -> Run:
    run = await any_run(call)
    if run.kind not in (EVALUATION, EVAL):
        raise NotFound(f"run {run.id} has no cases: it is a {run.kind}")
    return run


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < DIGITS):
        raise InvalidRequest(Problem(name, f"expected a whole number from 0, got {text[:40]!r}"))
    return int(text)
