"""Stores a new run of any kind, chunk by chunk. No executor can claim it before it is complete."""

import os
import random
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from msgspec import Struct

from assay.ports import CreateRun, EvidenceChunk, PutDocument, Run, RunUpdate, Store, Transaction
from assay.ports.audit import audit_entry as audited
from assay.runs.run_names import name_documents

PARTIAL = "partial"  # in the metadata of a run that is not stored completely


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to store: its metadata and its request. Its items come as chunks."""

    run: str
    tenant: str
    kind: str
    name: str
    metadata: dict[str, Any]
    request: EvidenceChunk


async def submit(
    store: Store,
    new: NewRun,
    chunks: Iterator[EvidenceChunk],
    holder: str,
    lease: float,
    documents: Sequence[PutDocument] = (),
) -> Run:
    """
    Store the run. When this returns it is pending and leased to `holder`.

    `documents` are written with the last chunk: a client that finds them finds a complete run.
    """
    run, metadata = new.run, new.metadata
    documents = [*documents, *name_documents(new.tenant, run, metadata)]
    first, second = next(chunks, None), next(chunks, None)
    # until it is complete, the intake holds it
    intake = holder if second is None else f"intake-{run}"
    opening = RunUpdate(
        run=run,
        opens=CreateRun(tenant=new.tenant, kind=new.kind, name=new.name, holder=intake, seconds=lease),
        metadata=metadata if second is None else metadata | {PARTIAL: True},
        evidence=[new.request, *([first] if first else [])],
    )
    with_first = documents if second is None else ()
    line = audited(new.tenant, "run.start", run)
    await store.commit(Transaction(entries=[opening], documents=with_first, lines=[line]))
    if second is not None:
        renewed = time.monotonic()
        for chunk in chain((second,), chunks):
            await store.commit(Transaction(entries=[RunUpdate(run=run, holder=intake, evidence=[chunk])]))
            if time.monotonic() - renewed > lease / 4:
                await store.renew(intake, seconds=lease)
                renewed = time.monotonic()
        complete = RunUpdate(run=run, holder=intake, metadata=metadata)
        await store.commit(Transaction(entries=[complete], documents=documents))
        await store.release(run, intake)
        await store.claim(run, holder, seconds=lease)
    stored = await store.run(run)
    assert stored is not None
    return stored


# Ids of runs.

# The generator is seeded by the system once, and again in a forked child. os.urandom for every id would release the GIL
# and cost more
# than the rest of a small request.
_random = random.Random()  # noqa: S311  # an id is not a secret
os.register_at_fork(after_in_child=_random.seed)


def new_id(prefix: Literal["eval_", "run-"]) -> str:
    """
    A new run's id: `eval_` for an evaluation, `run-` for an agent eval or a workflow.

    Ids sort by the time they were made, so that rows written together lie together in a database.
    """
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{_random.getrandbits(64):016x}"
