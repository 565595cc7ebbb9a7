"""
Copies the record of a run into a new run (openwop-contract §3.7): all of it for a replay, a part for a branch.

No model, judge, tool or clock is asked. Events get new ids, and causes point at those; payloads and timestamps stay.
The copy has a holder of its own until it is complete. If a crash interrupts it, the executor that adopts the new run
ends it as `failed`.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.errors import ForkRejected, RunNotFinished
from assay.ports import (
    CLOSED,
    CaseBlock,
    CreateRun,
    Event,
    EvidenceChunk,
    PutDocument,
    Run,
    RunStatus,
    RunUpdate,
    Store,
    Transaction,
)
from assay.ports.audit import AuditEntry
from assay.ports.audit import audit_entry as audited
from assay.ports.continued_runs import SOURCE
from assay.ports.kinds import COPY_IN_PROGRESS
from assay.ports.telemetry import propagation_headers
from assay.protocol.event_record import CONTENT, EventRecord, content_key, decode_event, new_event_id
from assay.runs.annotations import KIND as ANNOTATION
from assay.runs.log_reader import read_documents
from assay.runs.run_names import name_documents

PAGE = 200  # events at a time
PIECES = 20
RESULTS = "results"  # the kind of evidence that the table of cases describes
LEASE = 30.0  # seconds that a copy may stand still before it counts as cut off
_encode = msgspec.json.Encoder().encode
Evidence = Mapping[
    str, Callable[[int], bool]
]  # by kind: whether the chunk that starts with that ordinal is copied


class CopySpec(NamedTuple):
    """Which evidence and events are copied, and whether the events get new ids."""

    evidence: Evidence
    keep: Callable[[Event], bool] = lambda event: True
    new_ids: bool = True


def everything(kinds: tuple[str, ...], *, new_ids: bool = True) -> CopySpec:
    return CopySpec(dict.fromkeys(kinds, _always), new_ids=new_ids)


def fork_point(source: Run, from_seq: int) -> int:
    """Validate `fromSeq`: the source has ended, and a fork starts with one of its events or right behind the last."""
    if from_seq > source.events:
        message = (
            f"run {source.id} has {source.events} events: a fork starts with one of them, not with {from_seq}"
        )
        raise ForkRejected("invalid_from_seq", message, sourceRunId=source.id, fromSeq=from_seq)
    if source.status not in CLOSED:
        message = f"run {source.id} is {source.status}: only a run that has ended can be copied"
        raise RunNotFinished(message, source.status)
    return from_seq


async def replay(
    store: Store, source: Run, spec: CopySpec, *, run: str, documents: Sequence[PutDocument] = ()
) -> Run:
    """A complete copy with the same end. `documents` are written with its last step."""
    return await _fork(
        store, source, spec, run, "replay", FinalStep(source.status, source.metadata, documents)
    )


async def branch(
    store: Store,
    source: Run,
    spec: CopySpec,
    *,
    run: str,
    metadata: dict[str, Any],
    documents: Sequence[PutDocument] = (),
) -> Run:
    """A run that starts with the copied part. The executor that claims it does the rest."""
    return await _fork(store, source, spec, run, "branch", FinalStep("running", metadata, documents))


async def carry(source: Store, run: Run, target: Store, kinds: tuple[str, ...]) -> Run:
    """Write a run that has ended to another store, with its id, its events and their ids. It is not audited there."""
    notes = read_documents(source, run.tenant, ANNOTATION, prefix=f"{run.id}/")
    puts = [PutDocument(tenant=one.tenant, kind=one.kind, key=one.key, data=one.data) async for one in notes]
    last = FinalStep(run.status, run.metadata, puts)
    return await _write_copy(
        _chosen(source, run.id, everything(kinds, new_ids=False)), run, target, run.id, last
    )


class FinalStep(NamedTuple):
    """The status and metadata of a complete copy, and the documents written with them."""

    status: RunStatus
    metadata: dict[str, Any]
    documents: Sequence[PutDocument]


async def _fork(store: Store, source: Run, spec: CopySpec, run: str, mode: str, last: FinalStep) -> Run:
    """A copy in the same store: a new run, which is audited, and takes the name of the source over."""
    fork_point(source, 0)
    metadata = {
        name: value for name, value in last.metadata.items() if name != "traceparent"
    } | propagation_headers()  # of the request that forks
    metadata |= {SOURCE: source.id, "forkMode": mode}
    documents = [*last.documents, *name_documents(source.tenant, run, metadata)]
    line = audited(source.tenant, "run.start", run)
    parts = _chosen(store, source.id, spec)
    return await _write_copy(parts, source, store, run, FinalStep(last.status, metadata, documents), [line])


def _always(_: int) -> bool:
    return True


async def _write_copy(
    parts: AsyncIterator[dict[str, Any]],
    source: Run,
    target: Store,
    run: str,
    last: FinalStep,
    lines: Sequence[AuditEntry] = (),
) -> Run:
    holder = f"copy-{run}"
    opens = CreateRun(tenant=source.tenant, kind=source.kind, name=source.name, holder=holder, seconds=LEASE)
    opening = RunUpdate(run=run, opens=opens, metadata=last.metadata | {COPY_IN_PROGRESS: True})
    await target.commit(Transaction(entries=[opening], lines=lines))
    async for part in parts:
        await target.commit(Transaction(entries=[RunUpdate(run=run, holder=holder, **part)]))
        await target.renew(holder, seconds=LEASE)
    entry = RunUpdate(
        run=run,
        holder=holder,
        status=last.status,
        metadata=last.metadata,
        when=frozenset({"pending"}),
        facts=source.facts if last.status in CLOSED else None,
    )
    await target.commit(Transaction(entries=[entry], documents=last.documents))
    await target.release(run, holder)
    found = await target.run(run)
    assert found is not None
    return found


async def _chosen(store: Store, run: str, spec: CopySpec) -> AsyncIterator[dict[str, Any]]:
    """The chosen parts of a record, as arguments of `RunUpdate`."""
    async for pieces in _chunks(store, run, spec.evidence):
        yield {"evidence": pieces}
    async for rows in _rows(store, run, spec):
        yield {"cases": rows}
    async for events, pieces in _events(store, run, spec):
        yield {"events": events, "evidence": pieces}


async def _chunks(store: Store, run: str, evidence: Evidence) -> AsyncIterator[list[EvidenceChunk]]:
    for kind, keep in evidence.items():
        start = 0
        while found := await store.chunks(run, kind, start=start, limit=PIECES):
            if kept := [piece for piece in found if keep(piece.first)]:
                yield kept
            start = found[-1].last + 1


async def _rows(store: Store, run: str, spec: CopySpec) -> AsyncIterator[list[CaseBlock]]:
    """The rows of the table of cases whose results are copied."""
    keep, start = spec.evidence.get(RESULTS), 0
    while keep is not None and (found := await store.case_blocks(run, start=start, limit=PIECES)):
        if kept := [block for block in found if keep(block.first)]:
            yield kept
        start = found[-1].last + 1


async def _events(
    store: Store, run: str, spec: CopySpec
) -> AsyncIterator[tuple[list[Event], list[EvidenceChunk]]]:
    """Page by page; the content of each event is stored under its new id."""
    ids: dict[str, str] = {}
    after = -1
    while page := await store.events(run, after=after, limit=PAGE):
        events: list[Event] = []
        pieces: list[EvidenceChunk] = []
        kept = [(event, decode_event(event.data)) for event in page if spec.keep(event)]
        keys = [key for event, known in kept if (key := content_key(event.type, known)) is not None]
        beside = await store.contents(run, CONTENT, keys) if keys else {}
        for event, known in kept:
            new = ids[known.eventId] = new_event_id() if spec.new_ids else known.eventId
            data = _rewrite_event(known, new, ids) if spec.new_ids else event.data
            events.append(msgspec.structs.replace(event, data=data, sequence=-1))
            key = content_key(event.type, known)
            if key is not None and key in beside:
                there = new if key == known.eventId else key
                pieces.append(EvidenceChunk(kind=CONTENT, key=there, data=beside[key]))
        yield events, pieces
        after = page[-1].sequence


def _rewrite_event(record: EventRecord, new: str, ids: Mapping[str, str]) -> bytes:
    cause = record.causationId
    return _encode(
        msgspec.structs.replace(
            record,
            eventId=new,
            causationId=ids.get(cause, msgspec.UNSET) if isinstance(cause, str) else cause,
        )
    )
