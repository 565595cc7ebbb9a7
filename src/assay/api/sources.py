"""Results as a caller has them: objects, files, data frames and stored runs, opened for a comparison or a gate."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from os import PathLike, fspath
from typing import Any

import msgspec
from msgspec import UNSET

from assay import settings
from assay.agenteval.planning.run_header import TASKS_OF_SUITE
from assay.api.suites import SuiteRun
from assay.auth.audit import audit_read
from assay.checks import STANDARD
from assay.comparison.result_files import document_lines, frame_lines, is_file
from assay.comparison.run_scores import RunScores
from assay.comparison.sources import FileSource, LineSource, RunSource, StoredSource
from assay.comparison.stored_runs import COMPARABLE, add_tasks
from assay.errors import InvalidRequest, Problem, UsageError
from assay.fep.outputs.run_result import RunResult
from assay.fep.planning.plan import is_sequence
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.inputs.frames import DataFrame, is_frame
from assay.ports import LOCAL_TENANT, Limits, Run, Services, Store
from assay.promotion.records import KIND as DEPLOYMENT
from assay.promotion.records import decode
from assay.protocol.json_types import is_object, kind_of
from assay.protocol.results import EvaluationRunResult, TestCaseResult
from assay.results.run_end import MEMBER, RunEnd
from assay.runs.find_run import find_run

Results = (
    str
    | PathLike[str]
    | EvaluationRunResult
    | SuiteRun
    | Sequence[TestCaseResult | dict[str, Any]]
    | DataFrame
)
PROMOTED = "latest-promoted"
EXPECTED = (
    "expected a result of assay.evaluate or assay.run_suite, a file of results, the id of a stored run, `latest`,"
    " a data frame of to_pandas() or a list of results"
)


@asynccontextmanager
async def open_sources(
    references: Sequence[Results], names: Sequence[str], tenant: str | None
) -> AsyncGenerator[list[RunSource]]:
    """
    Open results. A text names a file, a run or `latest`; the store is opened only for a run.

    `names` are those of results that have none of their own.
    """
    chosen = settings.load()
    for reference in references:
        if isinstance(reference, str) and reference == "-":
            raise UsageError("-: expected a file or a run; a comparison reads its results twice")
    given = {
        at: _source(reference, name, chosen.limits)
        for at, (reference, name) in enumerate(zip(references, names, strict=True))
        if not isinstance(reference, str) or is_file(reference)
    }
    if len(given) == len(references):
        yield list(given.values())
        return
    async with parts.store(chosen, light=True) as store:
        evaluations = EvaluationService(store, STANDARD, Services(limits=chosen.limits))
        sources: list[RunSource] = []
        for at, reference in enumerate(references):
            if at in given:
                sources.append(given[at])
                continue
            run = await _find(evaluations, str(reference), tenant)
            await audit_read(store, run)
            sources.append(StoredSource(evaluations, run))
        yield sources


def _source(value: Results, name: str, limits: Limits) -> RunSource:
    if isinstance(value, str | PathLike):
        return FileSource(fspath(value), limits)
    if isinstance(value, EvaluationRunResult):
        return LineSource(value.evaluation_id, value, lambda scores: _result_lines(value, scores))
    if isinstance(value, SuiteRun):
        return LineSource(value.run_id, value, lambda scores: _suite_lines(value, scores), is_eval=True)
    if is_frame(value):
        return LineSource(name, value, lambda scores: frame_lines(name, value, limits, scores))
    if is_sequence(value) or is_object(value):
        return LineSource(name, value, lambda scores: document_lines(name, value, scores))
    raise InvalidRequest(Problem(name, f"{EXPECTED}, got {kind_of(value)}"))


def _result_lines(result: EvaluationRunResult, scores: RunScores | None) -> Iterator[tuple[str, bytes]]:
    """The lines of a result. One of the library has every case: those that were not run are in it as `skip`."""
    metadata: Any = result.metadata or {}
    if scores is not None:
        scores.use_columns(metadata.get("columns", {}))
    if isinstance(result, RunResult):
        planned = len(result.results)
        metadata = {MEMBER: msgspec.to_builtins(RunEnd(planned=planned, results=planned, complete=True))}
    document = {
        "results": result.results,
        "summary": msgspec.to_builtins(result.summary),
        "metadata": metadata,
    }
    return document_lines(result.evaluation_id, document, scores)


def _suite_lines(run: SuiteRun, scores: RunScores | None) -> Iterator[tuple[str, bytes]]:
    for result in (*run.results, *run.check_results):
        yield run.run_id, msgspec.json.encode(result)
    if scores is not None:
        if run.status != "completed":
            scores.incomplete = f"it is {run.status}"
        elif run.report.selection is not UNSET:
            scores.note_part(run.report.selection, TASKS_OF_SUITE)
        add_tasks(run.report, scores)
        for finding in run.findings:
            for _ in range(finding.count):
                scores.add_finding(finding.case, finding.kind, finding.severity)


async def _find(evaluations: EvaluationService, reference: str, tenant: str | None) -> Run:
    if reference == PROMOTED:
        return await promoted_run(evaluations.store, tenant or LOCAL_TENANT)
    return await find_run(evaluations.store, reference, tenant=tenant, latest_of=COMPARABLE)


async def promoted_run(store: Store, tenant: str) -> Run:
    """The newest eval run that is the evidence of an active version of an agent."""
    runs: list[Run] = []
    after = ""
    while page := await store.documents(tenant, DEPLOYMENT, after=after):
        for document in page:
            for record in decode(document).versions.values():
                run = await store.run(record.eval_run, tenant=tenant) if record.eval_run else None
                if run is not None and record.state == "active":
                    runs.append(run)
        after = page[-1].key
    if not runs:
        raise UsageError(
            f"{PROMOTED}: no version of an agent is active here with an eval run; name a run, `latest` or a file"
        )
    return max(runs, key=lambda run: run.created)
