"""Reads stored runs: the result lines of an evaluation, and the scores and the evidence of an eval run."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.planning.run_header import TASKS_OF_SUITE, stored_request
from assay.agenteval.results.report import EvalReport, read_results, report_of
from assay.agenteval.scoring.safety_records import read_records
from assay.agenteval.scoring.task_checks import recorded_checks
from assay.cases.outcomes import RESULTS
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.concurrency.threads import off_loop
from assay.errors import InvalidRequest
from assay.fep.records.run_header import KIND, REQUEST
from assay.fep.records.service import EvaluationService
from assay.ports import ACTIVE, Run, Store
from assay.protocol.json_types import is_object
from assay.results.reasons import number_of
from assay.results.run_part import CASES_OF_DATA, part_in
from assay.results.slices import Columns
from assay.runs.erasure import request_data
from assay.runs.provenance import commit_text
from assay.runs.run_names import name_of, other_tags

COMPARABLE = frozenset({EVAL, KIND})  # kinds of runs that have results


class _StoredRequest(Struct):
    """The part of the stored request of an evaluation that slices and a comparison need."""

    columns: dict[str, list[str]] = {}
    command: str = ""


_read_part = msgspec.json.Decoder(_StoredRequest).decode


def require_comparable(run: Run) -> None:
    """Refuse a run without results: another kind, one that has not ended, or one whose content was erased."""
    if run.kind not in COMPARABLE:
        raise InvalidRequest(
            f"{run.id}: expected a run of `assay evaluate` or `assay run`, it is a {run.kind} run"
        )
    if run.status in ACTIVE:
        raise InvalidRequest(f"{run.id}: expected a run that has ended, it is {run.status}")
    if run.erased:
        raise InvalidRequest(f"{run.id}: {run.erasure}, so it cannot be compared")


async def result_lines(evaluations: EvaluationService, run: Run) -> AsyncIterator[bytes]:
    """The result lines of a stored run."""
    if run.kind == KIND:
        async for line in evaluations.results(run):
            yield line
        return
    async for line in read_results(evaluations.store, run):
        yield line
    async for line in recorded_checks(evaluations.store, run.id):
        yield line


async def result_rows(evaluations: EvaluationService, run: Run, rows: Sequence[int]) -> AsyncIterator[bytes]:
    """The result lines with these numbers, in ascending order. A chunk that has several is read once."""
    at = 0
    while at < len(rows):
        row = rows[at]
        chunks = await evaluations.store.chunks(run.id, RESULTS, start=row, stop=row + 1, limit=1)
        if not chunks:  # it was skipped
            async for line in evaluations.results(run, row, row + 1):
                yield line
            at += 1
            continue
        lines = chunks[0].lines()
        while at < len(rows) and rows[at] <= chunks[0].last:
            yield lines[rows[at] - chunks[0].first]
            at += 1


async def new_scores(store: Store, run: Run, options: ReadOptions) -> RunScores:
    """The numbers of a stored run before its lines are added."""
    scores = RunScores(run.id, options, is_eval=run.kind == EVAL)
    request = await _request_of(store, run)
    scores.use_columns(request.columns)
    scores.given_name = name_of(run.metadata)
    scores.sampling.window = _sampling_rate(run)
    scores.about = _about(run, request.command)
    if run.status != "completed":
        scores.incomplete = f"it is {run.status}"
    elif (part := part_in(run.metadata)) is not None:
        scores.note_part(part, TASKS_OF_SUITE if run.kind == EVAL else CASES_OF_DATA)
    return scores


def _about(run: Run, command: str) -> dict[str, str]:
    """What is recorded of a run that tells it apart from others."""
    metadata = run.metadata
    found = {
        "commit": commit_text(metadata).removeprefix("commit "),
        "model": ", ".join(metadata.get("models", ())),
        "agent": " ".join(str(metadata[name]) for name in ("agentId", "agentVersion") if metadata.get(name)),
        "suite version": str(metadata.get("suiteVersion", "")),
    }
    for tag in other_tags(metadata.get("tags", ())):
        name, _, value = tag.partition("=")
        found[f"tag {name}"] = value
    found["command"] = command
    return {name: value for name, value in found.items() if value}


def _sampling_rate(run: Run) -> float | None:
    """The share of all traces that a window of them has; None for another run."""
    traces = run.metadata.get("traces")
    return number_of(traces.get("sample")) if is_object(traces) else None


async def columns_of(store: Store, run: Run) -> Columns:
    """The columns of the table that the cases of a run come from."""
    return (await _request_of(store, run)).columns if run.kind == KIND else {}


async def _request_of(store: Store, run: Run) -> _StoredRequest:
    if run.kind == EVAL:
        return _StoredRequest(command=(await stored_request(store, run.id)).provenance.command)
    data = await request_data(store, run.id, REQUEST)
    return await off_loop(len(data), lambda: _read_part(data))


async def add_report(store: Store, run: Run, scores: RunScores) -> None:
    """Add the tasks of the report of an eval run. Its lines, which are added first, give slices and checks."""
    if run.kind == EVAL:
        add_tasks(await report_of(store, run), scores)
        async for record in read_records(store, run.id):
            for finding in record.findings:
                scores.add_finding(record.task_id, finding.kind, finding.severity)


def add_tasks(report: EvalReport, scores: RunScores) -> None:
    """Add the tasks of a report. Findings of safety checks are not in it."""
    scores.own_verdict = None if report.verdict is None else report.verdict.passed
    for task in report.tasks:
        scores.add_score(task.task_id, task.score, task.passed, task.trials, task.trials_passed)
    missing = () if report.safety is None else report.safety.not_looked_for
    scores.not_looked_for = tuple(f"{one.kind}: {one}" for one in missing)


async def read_run(evaluations: EvaluationService, run: Run, options: ReadOptions) -> RunScores:
    """The numbers of a stored run."""
    require_comparable(run)
    scores = await new_scores(evaluations.store, run, options)
    async for line in result_lines(evaluations, run):
        scores.add(line, run.id)
    await add_report(evaluations.store, run, scores)
    return scores
