"""
Erases the content of a run that has ended (ADR-0045).

Its evidence, its annotations, the batches of its judges, the answers that wait for them and the stored responses of
Idempotency-Keys go. Its log, its
scorecard and the audit log stay: they hold no content.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from assay.errors import RunNotFinished
from assay.errors.storage import Erased
from assay.ports import (
    CLOSED,
    DeleteDocument,
    Document,
    RequireCount,
    Run,
    RunUpdate,
    Store,
    Transaction,
)
from assay.ports.audit import audit_entry
from assay.ports.batches import BATCHES
from assay.runs.agent_answers import ANSWERS
from assay.runs.annotations import KIND as ANNOTATION
from assay.runs.log_reader import read_documents

IDEMPOTENCY = "idempotency"  # the kind of documents that the Idempotency-Keys of requests are stored as
BATCH = 100  # documents deleted in one transaction
NOTHING: Mapping[str, Any] = MappingProxyType({})
PAGE = 50  # stored responses read at a time; some are large


async def erase_run(store: Store, run: Run, metadata: Mapping[str, Any] = NOTHING) -> Run:
    """
    Erase the content of a run, and return the run as it is stored then. RunNotFinished: it has not ended.

    `metadata` is added to that of the run: numbers that were in its evidence.
    """
    await erase_runs(store, [(run, metadata)])
    return await store.run(run.id) or run


async def erase_runs(
    store: Store,
    chosen: Sequence[tuple[Run, Mapping[str, Any]]],
    outcome: str = "ok",
    requires: Sequence[RequireCount] = (),
) -> None:
    """
    Erase the content of some runs, each with its additional metadata.

    `outcome` is that of their lines in the audit log.

    All runs are marked first in one transaction, if `requires` holds, so that no reader finds half of their content.
    After a crash, a second call completes the first.
    """
    for run, _ in chosen:
        if run.status not in CLOSED:
            raise RunNotFinished(
                f"run {run.id} is {run.status}: only a run that has ended can be erased", run.status
            )
    marks = [
        RunUpdate(run=run.id, metadata=dict(metadata), erases=True)
        for run, metadata in chosen
        if not run.erased
    ]
    lines = [audit_entry(run.tenant, "run.erase", run.id, outcome) for run, _ in chosen if not run.erased]
    if marks:
        await store.commit(Transaction(entries=marks, lines=lines, requires=requires))
    for run, _ in chosen:
        for kind in (ANNOTATION, BATCHES, ANSWERS):
            await _delete(store, read_documents(store, run.tenant, kind, prefix=f"{run.id}/"))
    for tenant in {run.tenant for run, _ in chosen}:
        ids = [run.id for run, _ in chosen if run.tenant == tenant]
        await _delete(store, _mentions(ids, read_documents(store, tenant, IDEMPOTENCY, limit=PAGE)))
    while chosen and await store.erase(*(run.id for run, _ in chosen)):
        pass


async def request_data(store: Store, run: str, kind: str) -> bytes:
    """The stored request of a run, as its kind wrote it. Erased: it is no longer there."""
    chunks = await store.chunks(run, kind)
    if not chunks:
        found = await store.run(run)
        raise Erased(run, found.erased, found.erased_by) if found else Erased(run, "")
    return chunks[0].data


async def _mentions(runs: Sequence[str], documents: AsyncIterator[Document]) -> AsyncIterator[Document]:
    """The documents that name one of the runs: as the run of a key, or inside a stored response."""
    ids = [run.encode() for run in runs]
    async for document in documents:
        if any(id in document.data for id in ids):
            yield document


async def _delete(store: Store, documents: AsyncIterator[Document]) -> None:
    batch: list[DeleteDocument] = []
    async for document in documents:
        batch.append(
            DeleteDocument(tenant=document.tenant, kind=document.kind, key=document.key, version=None)
        )
        if len(batch) == BATCH:
            await _commit(store, batch)
            batch = []
    await _commit(store, batch)


async def _commit(store: Store, batch: Sequence[DeleteDocument]) -> None:
    if batch:
        await store.commit(Transaction(documents=batch))
