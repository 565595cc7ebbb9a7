"""`assay.report`: a run or a comparison as one file, HTML or Markdown."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple, overload

import msgspec
from msgspec.structs import replace

from assay import settings
from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.service import EVIDENCE
from assay.api.arguments import check_arguments
from assay.api.compare import names_of
from assay.api.sources import Results, open_sources
from assay.api.suites import SuiteRun, stored_run
from assay.backends.stores.memory import MemoryStore
from assay.checks import STANDARD
from assay.comparison.result_files import is_file
from assay.comparison.result_line import EXPECTED
from assay.comparison.run_scores import ReadOptions
from assay.comparison.sources import LineSource, RunSource, StoredSource
from assay.comparison.stored_runs import COMPARABLE
from assay.concurrency.event_loop import run_to_end
from assay.errors import EnvironmentFailure, InvalidRequest, Problem, UsageError
from assay.errors.door import place_of
from assay.extras import require
from assay.fep.records.save import save_results
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import Run, Services, Store
from assay.protocol.results import EvaluationRunResult
from assay.runs.copy import carry
from assay.runs.find_run import find_run
from assay.runs.run_names import TAG
from assay.serve.fep.comparison import MAX_RUNS
from assay.serve.overview.report import Report, ReportOptions, read_report
from assay.serve.overview.report_file import COPY, html, markdown, report_template, title_of

MAX_CASES = 20_000  # of a run in a report


class ReportRequest(NamedTuple):
    """What a report is of. `output` is the file to write; None: the text of a report in Markdown."""

    runs: tuple[Results, ...]
    output: str | None
    tenant: str | None
    redact: bool
    limit: int
    by: tuple[str, ...] = ()


@overload
def report(
    *runs: Results,
    output: str | PathLike[str],
    by: str | Sequence[str] = (),
    redact: bool = False,
    limit: int = 1_000,
    tenant: str | None = None,
) -> Path: ...


@overload
def report(
    *runs: Results,
    output: None = None,
    by: str | Sequence[str] = (),
    redact: bool = False,
    limit: int = 1_000,
    tenant: str | None = None,
) -> str: ...


def report(
    *runs: Results,
    output: str | PathLike[str] | None = None,
    by: str | Sequence[str] = (),
    redact: bool = False,
    limit: int = 1_000,
    tenant: str | None = None,
) -> Path | str:
    """
    Write a run, or a comparison of runs with the first, as one file: `.html` with the views of the page, or `.md`.

        assay.report(before, after, output="report.html")

    Each run is what `compare` takes; an agent eval is the id of its stored run. Without `output` it returns the text of
    the report in Markdown. `by` names slices, as for `assay report --by`. `redact` leaves out ids, inputs, outputs,
    reasons, tags and slices. `limit` is the number of cases of a run, failures first.
    """
    check_arguments(output=output, by=by, limit=limit, tenant=tenant)
    name, names = None if output is None else fspath(output), (by,) if isinstance(by, str) else tuple(by)
    _, text = make_report(ReportRequest(runs, name, tenant, redact=redact, limit=limit, by=names))
    return text if name is None else Path(name)


def make_report(request: ReportRequest) -> tuple[Report, str]:
    """The data of a report, and its text if it is Markdown. The file is written."""
    name, ending = request.output, ".md" if request.output is None else Path(request.output).suffix.lower()
    if ending not in (".html", ".md"):
        raise UsageError(f"{name}: expected a file that ends with .html or .md")
    if not 1 <= len(request.runs) <= MAX_RUNS:
        raise UsageError(
            f"expected {'at most' if request.runs else '1 to'} {MAX_RUNS} runs, got {len(request.runs)}"
        )
    if not 1 <= request.limit <= MAX_CASES:
        raise UsageError(f"{place_of('limit')}: expected 1 to {MAX_CASES}, got {request.limit}")
    template = b"" if ending == ".md" else report_template()
    if len(request.runs) > 1:
        require("a comparison", "compare")
    found = run_to_end(lambda: _read(request, details=ending == ".html"))
    text = "" if template else markdown(found)
    if name is not None:
        _write(name, html(template, found, title_of(found)) if template else text.encode())
    return found, text


def _write(name: str, data: bytes) -> None:
    try:
        Path(name).write_bytes(data)
    except OSError as wrong:
        raise EnvironmentFailure(
            f"{name}: expected a file that can be written, got {wrong.strerror}"
        ) from None


async def _read(request: ReportRequest, *, details: bool) -> Report:
    options = ReportOptions(redact=request.redact, limit=request.limit, details=details, by=request.by)
    async with _open(request.runs, request.tenant) as (store, runs):
        for at, run in enumerate(runs):
            if run.id in [one.id for one in runs[:at]]:
                raise UsageError(f"expected runs that differ, got {run.id} twice")
            if run.tenant != runs[0].tenant:
                raise UsageError(f"expected runs of one tenant, got {run.id} and {runs[0].id} of two")
        evaluations = EvaluationService(store, STANDARD, Services(limits=settings.load().limits))
        found = await read_report(evaluations, runs, datetime.now(UTC), options)
        for run, shown in zip(runs, found.runs, strict=True):
            if run.metadata.get(COPY):
                shown.overview["run"][COPY] = True
        return found


@asynccontextmanager
async def _open(references: Sequence[Results], tenant: str | None) -> AsyncGenerator[tuple[Store, list[Run]]]:
    """A store with the runs. Results that are not stored are written to one in memory."""
    names = [one for one in references if isinstance(one, str) and not is_file(one)]
    if len(names) == len(references):
        async with parts.store(settings.load(), light=True) as store:
            yield store, [await find_run(store, name, tenant=tenant, latest_of=COMPARABLE) for name in names]
        return
    memory = MemoryStore()
    async with open_sources(references, names_of(len(references)), tenant) as sources:
        yield memory, [await _copy(source, memory) for source in sources]


async def _copy(source: RunSource, store: Store) -> Run:
    """The results of a source as a run of the store."""
    if isinstance(source, StoredSource) and source.run.kind == EVAL:
        return await _carried(source.store, source.run, store)
    if isinstance(source, LineSource) and isinstance(source.results, SuiteRun):
        async with stored_run(source.results) as stored:
            if stored is None:
                raise InvalidRequest(
                    f"{source.name}: expected the result that run_suite returned, or the id of a stored run, got a "
                    "copy of a result, which does not know where its run is"
                )
            return await _carried(*stored, store)
    scores = await source.scores(ReadOptions())
    name = "" if isinstance(source, StoredSource) else Path(source.name).name
    id, created = _origin(source)
    if id is not None and (known := await store.run(id)) is not None:
        return known
    lines = [line async for _, line in source.lines()]
    try:
        saved = save_results(store, name, lines, scores.incomplete, id, scores.columns, scores.chosen)
        found = await store.run(saved)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(Problem(source.name, f"{EXPECTED}: {wrong}")) from None
    assert found is not None
    if created is None:
        named = {"tags": [f"{TAG}{name}"]} if name else {}  # what texts call it: it has no id of its own
        return replace(found, metadata={**found.metadata, COPY: True, **named})
    return replace(found, created=created)


async def _carried(origin: Store, run: Run, store: Store) -> Run:
    carried = await store.run(run.id) or await carry(origin, run, store, EVIDENCE)
    return replace(carried, created=run.created, started=run.started, ended=run.ended)


def _origin(source: RunSource) -> tuple[str | None, datetime | None]:
    """The id and the time of the run that the results are of. A file, a data frame and a list do not say them."""
    if isinstance(source, StoredSource):
        return source.run.id, source.run.created
    if isinstance(source, LineSource) and isinstance(source.results, EvaluationRunResult):
        return source.results.evaluation_id, source.results.started_at
    return None, None
