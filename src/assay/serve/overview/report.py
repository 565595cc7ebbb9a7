"""What a static report holds: the answers of the REST API about some runs, of bounded size, with content or without."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.auth.audit import audit_read
from assay.cases.pages import PageRequest, all_blocks, page_of
from assay.cases.table import CaseFilter, CaseRow
from assay.comparison.compare import CaseList, PairComparison
from assay.comparison.stored_runs import require_comparable
from assay.comparison.views.case_lists import ComparedCase
from assay.comparison.views.page_view import LISTS, ComparisonView, PairView
from assay.comparison.wording import about_cases
from assay.errors import NotFound
from assay.fep.records.service import EvaluationService
from assay.ports import CLOSED, CaseTotals, Run
from assay.protocol.json_types import is_object
from assay.runs.annotations import annotations
from assay.serve.fep.comparison import ComparedCases, read_cases
from assay.serve.overview.case_list import (
    EffectiveCounts,
    ListedCase,
    RowCounts,
    case_rows,
    effective_counts,
    listed_row,
    row_counts,
)
from assay.serve.overview.case_reader import case_detail
from assay.serve.overview.effective import effective_cases
from assay.serve.overview.report_columns import OtherColumns, other_columns
from assay.serve.overview.report_slices import (
    WITHOUT_CONTENT,
    ReportSlice,
    SliceChoice,
    compare_slices,
    only_slices,
    read_choice,
    run_slices,
)
from assay.serve.overview.run_overview import labels_of, read_overview
from assay.serve.overview.run_rows import RunRows
from assay.version import __version__

MAX_TEXT = 20_000  # characters of one text; a longer one is cut
MAX_CASE = 1_000_000  # bytes of one case
MAX_BYTES = 16_000_000  # of all cases with content
LISTED = 100  # rows of a table in Markdown
PREVIEWS = 100  # rows whose texts are read at a time
CHANGES = ("changed", "unmeasured", "only_in_baseline", "only_in_run", "other_inputs", "unchanged")
_ABOUT = ("judge", "suiteDigest")  # what stays without content


class ReportRun(Struct, frozen=True, kw_only=True):
    """One run. `rows` are its first cases, failures first; `details` has the content of cases by their position."""

    overview: dict[str, Any]
    rows: list[ListedCase]
    total: int  # rows of cases that have a result
    counts: RowCounts  # of all these rows
    effective: EffectiveCounts | UnsetType = UNSET  # with the corrections of people
    details: dict[str, Any]
    slices: list[ReportSlice] = []
    columns: OtherColumns = OtherColumns()  # of the first cases that did not pass; without `details` alone


class ReportComparison(Struct, frozen=True, kw_only=True):
    """Each run beside the first. `cases` has the lists of a run by the kind of change."""

    view: ComparisonView
    cases: dict[str, dict[str, ComparedCases]]


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    version: str
    created_at: datetime
    redacted: bool
    limit: int  # cases of a run and of a list
    runs: list[ReportRun]
    comparison: ReportComparison | None


class ReportOptions(Struct, frozen=True, kw_only=True):
    redact: bool
    limit: int
    details: bool  # whether the content of cases is read
    by: tuple[str, ...] = ()  # what the slices are by; empty: the tags


async def read_report(
    evaluations: EvaluationService, runs: Sequence[Run], now: datetime, options: ReportOptions
) -> Report:
    """Read what a report shows of runs that have ended. The first run is the baseline of the others."""
    for run in runs:
        require_comparable(run)
        await audit_read(evaluations.store, run, content=not options.redact)
    choice = read_choice(options.by, runs, redact=options.redact)
    compared = await _comparison(evaluations, runs, options, choice) if len(runs) > 1 else None
    budget = MAX_BYTES
    found: list[ReportRun] = []
    for run in runs:
        read = await _run(evaluations, run, now, options, _positions(run, runs[0], compared), budget)
        slices = await run_slices(evaluations, run, choice, required=compared is None)
        budget -= sum(len(msgspec.json.encode(one)) for one in read.details.values())
        found.append(read if options.redact else msgspec.structs.replace(read, slices=slices))
    return Report(
        version=__version__,
        created_at=now,
        redacted=options.redact,
        limit=options.limit,
        runs=found,
        comparison=_without_content(compared) if compared and options.redact else compared,
    )


async def _run(
    evaluations: EvaluationService,
    run: Run,
    now: datetime,
    options: ReportOptions,
    first: Iterable[int],
    budget: int,
) -> ReportRun:
    store, trials, labels = evaluations.store, int(run.metadata.get("trials", 1)), labels_of(run)
    blocks = await all_blocks(store, run.id)
    request = PageRequest(CaseFilter(), "status", limit=options.limit)
    page = page_of(blocks, trials, request, complete=run.status in CLOSED)
    rows: list[CaseRow] = []
    for at in range(0, len(page.cases), PREVIEWS):
        some = page.cases[at : at + PREVIEWS]
        rows += await case_rows(store, run.id, some, trials, len(labels), previews=not options.redact)
    changed = await effective_cases(store, run, await annotations(store, run))
    overview = await read_overview(store, RunRows(store), run, now, feedback=True)
    document = msgspec.json.decode(msgspec.json.encode(overview))
    details: dict[str, Any] = {}
    columns = OtherColumns()
    if options.redact:
        rows = [msgspec.structs.replace(row, case_id=None) for row in rows]
        document = redacted_overview(document)
    elif options.details:
        details = await _details(evaluations, run, [*first, *(row.position for row in rows)], budget)
    else:
        failing = {row.position for row in rows if row.status != "passed"}
        listed = [case for case in page.cases if case.position in failing][:LISTED]
        columns = await other_columns(store, run, listed, trials)
    totals = (await store.case_totals([run.id])).get(run.id, CaseTotals())
    counts = await row_counts(store, run, trials, totals)
    return ReportRun(
        overview=document,
        rows=[listed_row(row, changed) for row in rows],
        total=page.matching,
        counts=counts,
        effective=effective_counts(counts, changed),
        details=details,
        columns=columns,
    )


async def _details(
    evaluations: EvaluationService, run: Run, positions: Sequence[int], budget: int
) -> dict[str, Any]:
    """The content of these cases while they fit into `budget` bytes. A case that is too large is left out."""
    found: dict[str, Any] = {}
    for position in dict.fromkeys(positions):
        try:
            detail = await case_detail(evaluations, run, position, feedback=True)
        except NotFound:  # it was never reached
            continue
        document = cut_texts(msgspec.json.decode(msgspec.json.encode(detail)))
        size = len(msgspec.json.encode(document))
        if size > MAX_CASE:
            continue
        budget -= size
        if budget < 0:
            break
        found[str(position)] = document
    return found


def cut_texts(value: Any) -> Any:
    """The value with each long text cut. The end of the text says how much is missing."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}… [{len(value) - MAX_TEXT:,} more]"
    if isinstance(value, list):
        return [cut_texts(one) for one in value]  # pyright: ignore[reportUnknownVariableType]  # decoded JSON
    return {name: cut_texts(one) for name, one in value.items()} if is_object(value) else value


def redacted_overview(document: dict[str, Any]) -> dict[str, Any]:
    """An overview without tags, commit, messages, ids of tasks and metadata of people."""
    run = {name: value for name, value in document["run"].items() if name not in ("tags", "commit")}
    if "error" in run:
        run["error"] = {name: value for name, value in run["error"].items() if name == "code"}
    about = {name: value for name, value in document["about"].items() if name in _ABOUT}
    found = document | {"run": run, "about": about}
    if "effective" in document:
        effective = document["effective"]
        found["effective"] = effective | {"corrected": [""] * len(effective["corrected"])}
    return found


async def _comparison(
    evaluations: EvaluationService, runs: Sequence[Run], options: ReportOptions, choice: SliceChoice
) -> ReportComparison:
    stored, view = await compare_slices(evaluations, runs, choice)
    cases: dict[str, dict[str, ComparedCases]] = {}
    for at, run in enumerate(runs[1:], 1):
        lists = stored.lists(at, "", "")
        cases[run.id] = {
            change: await read_cases(evaluations, (runs[0], run), lists, change, first=0, limit=options.limit)
            for change in CHANGES
        }
    return ReportComparison(view=view, cases=cases)


def _positions(run: Run, baseline: Run, compared: ReportComparison | None) -> list[int]:
    """The cases of a run that a comparison shows as changed: their content is read first."""
    if compared is None:
        return []
    if run.id == baseline.id:
        found = [case.position_before for lists in compared.cases.values() for case in lists["changed"].cases]
    else:
        found = [case.position_after for case in compared.cases[run.id]["changed"].cases]
    return [position for position in found if position is not None]


def _without_content(compared: ReportComparison) -> ReportComparison:
    """The comparison without ids of cases, reasons and slices by content. A case is named by its position."""
    view = only_slices(compared.view, [WITHOUT_CONTENT])
    pairs = [_pair_without_ids(pair) for pair in view.comparison.comparisons]
    words = [_words_without_ids(pair, view) for pair, view in zip(pairs, view.pairs, strict=True)]
    comparison = msgspec.structs.replace(view.comparison, comparisons=tuple(pairs))
    cases = {
        run: {change: _cases_without_ids(one) for change, one in lists.items()}
        for run, lists in compared.cases.items()
    }
    return ReportComparison(view=ComparisonView(comparison=comparison, pairs=tuple(words)), cases=cases)


def _pair_without_ids(pair: PairComparison) -> PairComparison:
    """Also without the names of the runs, which are tags, and of slices."""
    lists = {name: CaseList(getattr(pair, name).count, ()) for name in LISTS}
    notes = pair.notes
    for name, id in ((pair.baseline_name, pair.baseline), (pair.run_name, pair.run)):
        if name:
            notes = tuple(re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", id, note) for note in notes)
    return msgspec.structs.replace(
        pair,
        **lists,
        changes=(),
        notes=notes,
        baseline_name="",
        run_name="",
        mixes=(),
        standardized=None,
        differs=(),
    )


def _words_without_ids(pair: PairComparison, view: PairView) -> PairView:
    points = tuple(msgspec.structs.replace(point, id="") for point in view.charts.points)
    charts = msgspec.structs.replace(view.charts, points=points)
    return msgspec.structs.replace(view, about=tuple(about_cases(pair)), charts=charts)


def _cases_without_ids(cases: ComparedCases) -> ComparedCases:
    named = tuple(
        msgspec.structs.replace(case, id=_position_text(case), reason_before="", reason_after="")
        for case in cases.cases
    )
    return msgspec.structs.replace(cases, cases=named)


def _position_text(case: ComparedCase) -> str:
    before, after = case.position_before, case.position_after
    return f"case {before}" if before is not None else f"case {after} of the run"
