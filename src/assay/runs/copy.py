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
from assay.ports.audit import audit_entry as audited
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
    """Which evidence and events are copied."""

    evidence: Evidence
    keep: Callable[[Event], bool] = lambda event: True


def everything(kinds: tuple[str, ...]) -> CopySpec:
    return CopySpec(dict.fromkeys(kinds, _always))


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
    fork_point(source, 0)
    last = FinalStep("replay", source.status, source.metadata, documents)
    return await _write_copy(store, source, spec, run, last)


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
    fork_point(source, 0)
    return await _write_copy(store, source, spec, run, FinalStep("branch", "running", metadata, documents))


class FinalStep(NamedTuple):
    """The status and metadata of a complete copy, and the documents written with them."""

    mode: str
    status: RunStatus
    metadata: dict[str, Any]
    documents: Sequence[PutDocument]


def _always(_: int) -> bool:
    return True


async def _write_copy(store: Store, source: Run, spec: CopySpec, run: str, last: FinalStep) -> Run:
    metadata = {
        name: value for name, value in last.metadata.items() if name != "traceparent"
    } | propagation_headers()  # of the request that forks
    metadata |= {"sourceRunId": source.id, "forkMode": last.mode}
    holder = f"copy-{run}"
    opens = CreateRun(tenant=source.tenant, kind=source.kind, name=source.name, holder=holder, seconds=LEASE)
    opening = RunUpdate(run=run, opens=opens, metadata=metadata | {COPY_IN_PROGRESS: True})
    await store.commit(Transaction(entries=[opening], lines=[audited(source.tenant, "run.start", run)]))
    async for pieces in _chunks(store, source.id, spec.evidence):
        await store.commit(Transaction(entries=[RunUpdate(run=run, holder=holder, evidence=pieces)]))
        await store.renew(holder, seconds=LEASE)
    async for rows in _rows(store, source.id, spec):
        await store.commit(Transaction(entries=[RunUpdate(run=run, holder=holder, cases=rows)]))
        await store.renew(holder, seconds=LEASE)
    async for events, pieces in _events(store, source.id, spec.keep):
        await store.commit(
            Transaction(entries=[RunUpdate(run=run, holder=holder, events=events, evidence=pieces)])
        )
        await store.renew(holder, seconds=LEASE)
    entry = RunUpdate(
        run=run,
        holder=holder,
        status=last.status,
        metadata=metadata,
        when=frozenset({"pending"}),
        facts=source.facts if last.status in CLOSED else None,
    )
    documents = [*last.documents, *name_documents(source.tenant, run, metadata)]
    await store.commit(Transaction(entries=[entry], documents=documents))
    await store.release(run, holder)
    found = await store.run(run)
    assert found is not None
    return found


async def carry(source: Store, run: Run, target: Store, kinds: tuple[str, ...]) -> Run:
    """Write a run that has ended to another store, with its id, its events and their ids. It is not audited there."""
    spec, holder = everything(kinds), f"copy-{run.id}"
    opens = CreateRun(tenant=run.tenant, kind=run.kind, name=run.name, holder=holder, seconds=LEASE)
    await target.commit(Transaction(entries=[RunUpdate(run=run.id, opens=opens)]))

    async def write(**update: Any) -> None:
        await target.commit(Transaction(entries=[RunUpdate(run=run.id, holder=holder, **update)]))
        await target.renew(holder, seconds=LEASE)

    async for pieces in _chunks(source, run.id, spec.evidence):
        await write(evidence=pieces)
    async for rows in _rows(source, run.id, spec):
        await write(cases=rows)
    after = -1
    while page := await source.events(run.id, after=after, limit=PAGE):
        keys = [
            key for event in page if (key := content_key(event.type, decode_event(event.data))) is not None
        ]
        beside = await source.contents(run.id, CONTENT, keys) if keys else {}
        pieces = [EvidenceChunk(kind=CONTENT, key=key, data=data) for key, data in beside.items()]
        await write(events=[msgspec.structs.replace(event, sequence=-1) for event in page], evidence=pieces)
        after = page[-1].sequence
    await write(status=run.status, metadata=run.metadata, facts=run.facts)
    await target.release(run.id, holder)
    notes = read_documents(source, run.tenant, ANNOTATION, prefix=f"{run.id}/")
    puts = [PutDocument(tenant=one.tenant, kind=one.kind, key=one.key, data=one.data) async for one in notes]
    if puts:
        await target.commit(Transaction(documents=puts))
    found = await target.run(run.id)
    assert found is not None
    return found


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
    store: Store, run: str, keep: Callable[[Event], bool]
) -> AsyncIterator[tuple[list[Event], list[EvidenceChunk]]]:
    """Page by page; the content of each event is stored under its new id."""
    ids: dict[str, str] = {}
    after = -1
    while page := await store.events(run, after=after, limit=PAGE):
        events: list[Event] = []
        pieces: list[EvidenceChunk] = []
        kept = [(event, decode_event(event.data)) for event in page if keep(event)]
        keys = [key for event, known in kept if (key := content_key(event.type, known)) is not None]
        beside = await store.contents(run, CONTENT, keys) if keys else {}
        for event, known in kept:
            new = ids[known.eventId] = new_event_id()
            events.append(msgspec.structs.replace(event, data=_rewrite_event(known, new, ids), sequence=-1))
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
