"""Taking a run in, whatever its kind: kept in pieces, and nobody's to take up before all of it is there."""

import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct

from assay.ports import CreateRun, EvidenceChunk, PutDocument, Run, RunUpdate, Store, Transaction
from assay.ports.audit import audit_entry as audited

PARTIAL = "partial"  # in the head of a run that has not been taken in whole


class NewRun(Struct, frozen=True, kw_only=True):
    """A run that is about to be: what a list shows of it, and what is kept of its request beside its pieces."""

    run: str
    tenant: str
    kind: str
    name: str
    head: dict[str, Any]
    request: EvidenceChunk


async def submit(
    store: Store,
    incoming: NewRun,
    pieces: Iterator[EvidenceChunk],
    holder: str,
    lease: float,
    documents: Sequence[PutDocument] = (),
) -> Run:
    """
    The run is pending and `holder`'s when this returns.

    `documents` are written when all of it is: whoever finds them finds a run that will be done.
    """
    run, head = incoming.run, incoming.head
    first, second = next(pieces, None), next(pieces, None)
    # until it is all there it is held by its taking in
    intake = holder if second is None else f"intake-{run}"
    opening = RunUpdate(
        run=run,
        opens=CreateRun(
            tenant=incoming.tenant, kind=incoming.kind, name=incoming.name, holder=intake, seconds=lease
        ),
        head=head if second is None else head | {PARTIAL: True},
        evidence=[incoming.request, *([first] if first else [])],
    )
    kept = documents if second is None else ()
    began_it = audited(incoming.tenant, "run.start", run)
    await store.commit(Transaction(entries=[opening], documents=kept, lines=[began_it]))
    if second is not None:
        renewed = time.monotonic()
        for piece in chain((second,), pieces):
            await store.commit(Transaction(entries=[RunUpdate(run=run, holder=intake, evidence=[piece])]))
            if time.monotonic() - renewed > lease / 4:
                await store.renew(intake, seconds=lease)
                renewed = time.monotonic()
        whole = RunUpdate(run=run, holder=intake, head=head)
        await store.commit(Transaction(entries=[whole], documents=documents))
        await store.release(run, intake)
        await store.claim(run, holder, seconds=lease)
    found = await store.run(run)
    assert found is not None
    return found
