"""
Continues an evaluation that asked an agent (ADR-0043): cases with a result are copied, answers without one are scored
again.

A run that was killed is claimed and goes on. A run that has ended stays as it is; a new run copies what it has.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from assay.cases.fold import CHECKS, CaseFold
from assay.cases.outcomes import RESULTS, outcomes_of
from assay.fep.agent_kind import DIGEST, SOURCE
from assay.fep.agent_output import UNMEASURED
from assay.fep.run_header import (
    CONTEXTS,
    KIND,
    REQUEST,
    TALLY,
    EvaluationProgressFold,
    ShardCompleted,
    lines_chunk,
)
from assay.ports import (
    CLOSED,
    Clock,
    CreateRun,
    Event,
    EvidenceChunk,
    Run,
    RunQuery,
    RunUpdate,
    Store,
    Transaction,
)
from assay.ports.audit import audit_entry
from assay.ports.kinds import COPY_IN_PROGRESS
from assay.protocol.results import Status
from assay.runs.intake import PARTIAL
from assay.runs.log_reader import read_chunks, read_events

RECENT = 1_000  # newest evaluations that are searched
LEASE = 30.0  # seconds that a copy may stand still


class _Context(Struct):
    test_case: Raw
    output: Raw


class _Result(Struct):
    status: Status
    execution_context: _Context


class _Metadata(Struct):
    outcome: str


class _Output(Struct):
    metadata: _Metadata


_read = msgspec.json.Decoder(_Result).decode
_output = msgspec.json.Decoder(_Output).decode
_context = msgspec.json.Decoder(_Context).decode
_encode = msgspec.json.Encoder().encode


async def find_unfinished(store: Store, tenant: str, digest: str) -> Run | None:
    """The newest run of the same cases, checks, agent and options; None if there is none."""
    for run in await store.runs(RunQuery(tenant=tenant, kind=KIND, limit=RECENT)):
        incomplete = run.erased or run.metadata.get(COPY_IN_PROGRESS) or run.metadata.get(PARTIAL)
        if run.metadata.get(DIGEST) == digest and not incomplete:
            return run
    return None


def is_complete(run: Run) -> bool:
    """Whether every case of the run has a result without an error."""
    summary: dict[str, Any] = run.metadata.get("summary", {})
    return run.status == "completed" and summary.get("completed_test_cases", 0) == run.metadata.get(
        "total", 0
    )


async def copy_results(store: Store, source: Run, run: str, clock: Clock) -> Run:
    """A new run with the results of a run that has ended. The executor that claims it does the other cases."""
    assert source.status in CLOSED
    holder = f"copy-{run}"
    dropped = {"summary", "status", "error", "code"}
    metadata: dict[str, Any] = {name: value for name, value in source.metadata.items() if name not in dropped}
    metadata[SOURCE] = source.id
    opens = CreateRun(tenant=source.tenant, kind=KIND, name=source.name, holder=holder, seconds=LEASE)
    opening = RunUpdate(
        run=run,
        opens=opens,
        status="running",
        metadata=metadata | {COPY_IN_PROGRESS: True},
        events=[Event("evaluation.started", msgspec.json.encode({"total": metadata["total"]}), clock.now())],
        evidence=await store.chunks(source.id, REQUEST, limit=1),
    )
    await store.commit(Transaction(entries=[opening], lines=[audit_entry(source.tenant, "run.start", run)]))

    async def write(**update: Any) -> None:
        await store.commit(Transaction(entries=[RunUpdate(run=run, holder=holder, **update)]))
        await store.renew(holder, seconds=LEASE)

    table = CaseFold(metadata.get(CHECKS, ()))
    async for chunk in read_chunks(store, source.id, CONTEXTS, limit=1):
        copied = await _copy_chunk(store, source.id, chunk)
        results = (piece for piece in copied if piece.kind == RESULTS)
        cases = [row for piece in results for row in table.add(piece.first, outcomes_of(piece.lines()))]
        await write(evidence=copied, cases=cases)
    page: list[Event] = []
    counts = EvaluationProgressFold()
    async for event in read_events(store, source.id):
        if event.type == "evaluation.shard" and _is_completed(event):
            counts.add(event)
            page.append(msgspec.structs.replace(event, sequence=-1))
        if len(page) == RECENT:
            await write(events=page)
            page = []
    await write(events=page, metadata=metadata | counts.metadata(metadata["total"]) | table.metadata)
    await store.release(run, holder)
    copied = await store.run(run)
    assert copied is not None
    return copied


async def _copy_chunk(store: Store, source: str, contexts: EvidenceChunk) -> list[EvidenceChunk]:
    """
    The contexts of a chunk and the results that they have. A context with an answer and without a result keeps the
    answer.
    """
    first, stop = contexts.first, contexts.last + 1
    lines, copied = contexts.lines(), list[EvidenceChunk]()
    completed: set[int] = set()
    async for chunk in read_chunks(store, source, RESULTS, start=first, stop=stop):
        result = _read(chunk.data)
        if result.status == "completed":
            completed.add(chunk.first)
            copied.append(chunk)
        elif _output(result.execution_context.output).metadata.outcome != UNMEASURED:
            stored = _context(lines[chunk.first - first])  # a result does not repeat the own checks of a case
            lines[chunk.first - first] = _encode(_Context(stored.test_case, result.execution_context.output))
    async for chunk in read_chunks(store, source, TALLY, start=first, stop=stop):
        if chunk.first in completed:
            copied.append(chunk)
    return [lines_chunk(CONTEXTS, first, lines), *copied]


def _is_completed(event: Event) -> bool:
    return msgspec.json.decode(event.data, type=ShardCompleted).summary.completed_test_cases == 1
