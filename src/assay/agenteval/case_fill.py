"""
Makes the rows of the table of cases for runs of older versions, from their results (ADR-0068).

The work goes in steps, each of them one transaction; after a crash it continues where the last one ended. Memory is
bounded by a chunk of results and, for an eval, by the numbers of its trials. A run that has not ended waits: its
executor writes its columns.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from assay.agenteval.eval_statistics import read_statistics
from assay.agenteval.report import read_summary
from assay.agenteval.run_header import KIND as EVAL
from assay.agenteval.run_header import read_request, read_tasks
from assay.agenteval.safety_records import MODE, read_records
from assay.agenteval.scoring import bar_of
from assay.agenteval.trial_rows import outcomes_of_trial
from assay.errors import EnvironmentFailure
from assay.fep.case_fold import CHECKS, CaseFold
from assay.fep.case_outcomes import RESULTS, CaseOutcomes, OutcomeColumns, add_result, read_result
from assay.fep.spending import Spending
from assay.ports import CLOSED, CaseBlock, EvidenceChunk, Run, Store, Unfilled
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, TrialEnded
from assay.protocol.json_types import is_object
from assay.protocol.scorecard import SafetyFinding
from assay.runs.paging import read_chunks, read_events
from assay.runs.run_statistics import RunStatistics, facts_of, statistics_metadata
from assay.workers.threads import off_loop

STEP_BYTES = 4 * 1024 * 1024  # of results in one transaction, about
STEP_ROWS = 200
PAUSE = 0.005  # seconds between steps: requests come first
_scored = msgspec.json.Decoder(EvalScored).decode
_ended = msgspec.json.Decoder(TrialEnded).decode


class _Kind(msgspec.Struct):
    kind: str


class _Task(msgspec.Struct, rename="camel"):
    task_id: str
    expected: _Kind


_task = msgspec.json.Decoder(_Task).decode


async def fill_all(store: Store) -> int:
    """Fill all runs that have ended; return their number. A run whose evidence cannot be read is left out."""
    after, count = "", 0
    while page := await store.unfilled(after=after):
        for one in page:
            with suppress(
                EnvironmentFailure, msgspec.MsgspecError, KeyError
            ):  # a request for the run reports it
                count += await fill_run(store, one)
            await asyncio.sleep(PAUSE)
        after = page[-1].run
    return count


async def fill_run(store: Store, unfilled: Unfilled) -> bool:
    """Make the rows that a run lacks. False: it has not ended."""
    run = await store.run(unfilled.run)
    if run is None or run.erased:
        await store.fill(unfilled.run, [], next=None)
        return True
    if run.status not in CLOSED:
        return False
    table = CaseFold(run.metadata.get(CHECKS, ()))
    make = await _eval_rows(store, run) if run.kind == EVAL else _evaluation_rows(run)
    blocks, size = list[CaseBlock](), 0
    async for chunk in read_chunks(store, run.id, RESULTS, start=unfilled.next, limit=1):
        outcomes = await off_loop(len(chunk.data), lambda chunk=chunk: make(chunk))
        blocks += [] if outcomes is None else table.add(chunk.first, outcomes)
        size += len(chunk.data)
        if size >= STEP_BYTES or len(blocks) >= STEP_ROWS:
            await store.fill(run.id, blocks, next=chunk.last + 1, metadata=table.metadata)
            await asyncio.sleep(PAUSE)
            blocks, size = [], 0
    await store.fill(run.id, blocks, next=unfilled.next, metadata=table.metadata)
    statistics = await read_statistics(store, run) or RunStatistics()
    summary = await read_summary(store, run)
    facts = facts_of(statistics, passed=None if summary is None else summary.passed)
    if run.kind == EVAL and summary is None:
        facts = msgspec.structs.replace(facts, score=None)  # without a scorecard there is no score to sort by
    await store.fill(run.id, [], next=None, facts=facts, metadata=statistics_metadata(statistics))
    return True


def _evaluation_rows(run: Run) -> Any:
    agent = "agentId" in run.metadata

    def make(chunk: EvidenceChunk) -> CaseOutcomes:
        columns, spending = OutcomeColumns(), Spending()
        for line in chunk.lines():
            result = read_result(line)
            add_result(columns, result)
            about = result.execution_context.output.metadata
            parts = [result.metadata, about if agent else None]
            spending = sum((_spending_of(part) for part in parts), spending)
        return columns.outcomes(spending)

    return make


def _spending_of(part: Any) -> Spending:
    """The cost in the metadata of a result or of the output of an agent."""
    cost = part.get("cost_usd") if is_object(part) else None
    if isinstance(cost, int | float):
        return Spending(1, float(cost), float(cost))
    unknown = int(is_object(part) and part.get("calls", 0) > 0)
    return Spending(unknown, None if unknown else 0.0, 0.0, unknown)


async def _eval_rows(store: Store, run: Run) -> Any:
    request = await read_request(store, run.id)
    kinds = {task.task_id: task.expected.kind async for task in _tasks(store, run.id)}
    ended = await _trials(store, run.id)
    findings = dict[tuple[str, int], tuple[SafetyFinding, ...]]()
    if MODE in request.modes:
        async for record in read_records(store, run.id):
            findings[record.task_id, record.trial] = record.findings

    def make(chunk: EvidenceChunk) -> CaseOutcomes | None:
        task, trial = read_result(chunk.data).id, chunk.first % request.trials
        end = ended.get((task, trial))
        if end is None:
            return None  # the run was cancelled during the trial
        bar = bar_of(kinds.get(task, ""), request.pass_score)
        found = findings.get((task, trial), ()) if MODE in request.modes else None
        return outcomes_of_trial(chunk.data, end, bar, found)

    return make


async def _tasks(store: Store, run: str) -> AsyncIterator[_Task]:
    async for _, line in read_tasks(store, run):
        yield _task(line)


async def _trials(store: Store, run: str) -> Mapping[tuple[str, int], TrialEnded]:
    """The numbers of each trial. A task with one trial has only `eval.scored`."""
    found: dict[tuple[str, int], TrialEnded] = {}
    async for event in read_events(store, run):
        if event.type == "assay.trial.ended":
            ended = _ended(decode_event(event.data).payload)
            found[ended.task_id, ended.trial] = ended
        elif event.type == "eval.scored":
            scored = _scored(decode_event(event.data).payload)
            found.setdefault(
                (scored.task_id, 0),
                TrialEnded(
                    task_id=scored.task_id,
                    trial=0,
                    score=scored.score,
                    cost_usd=scored.cost_usd,
                    latency_ms=scored.latency_ms,
                ),
            )
    return found
