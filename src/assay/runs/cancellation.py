"""Cancels a run: in this process if it conducts the run, and through the store if another one does."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import msgspec

from assay.errors import Conflict
from assay.ports import ACTIVE, CLOSED, EvidenceChunk, PutDocument, Run, RunUpdate, Store, Transaction
from assay.ports.audit import acting, audit_entry
from assay.protocol.event_record import CANCELLED, CONTENT
from assay.protocol.redaction import redact_text
from assay.runs.conductor import Conductor


class Executor(Protocol):
    """The part of the executor that a cancellation needs."""

    @property
    def store(self) -> Store: ...

    async def get(self, run: str, tenant: str) -> Run: ...

    async def wait(self, run: str) -> Run: ...

    def conductor(self, run: str) -> Conductor | None:
        """The conductor of the run, if it is in this process."""
        ...

    async def claim(self, run: str) -> Conductor | None:
        """Conduct the run here. None: another process holds it."""
        ...


async def cancel(
    executor: Executor,
    run: str,
    tenant: str,
    *,
    reason: str = "",
    documents: Sequence[PutDocument] = (),
    timeout: float | None = None,
) -> Run:
    """
    Cancel a run that has not ended.

    Recorded results stay. The `reason` is content: it is stored with the last event.

    `documents` are written at once. The call waits up to `timeout` seconds for the end of the run, then returns it
    as `cancelling`: the store has the request, even if this process dies.
    """
    until = None if timeout is None else asyncio.get_running_loop().time() + timeout
    found = await executor.get(run, tenant)
    if found.status in CLOSED:
        raise Conflict("closed", f"run {run}", f"it is {found.status}")
    line = audit_entry(tenant, "run.cancel", run)
    await executor.store.commit(Transaction(lines=[line], documents=documents))
    if reason:
        await _store_reason(executor.store, run, reason)
    conductor = executor.conductor(run)
    if conductor is not None:
        conductor.cancel()
    else:
        await _cancel_elsewhere(executor, found)
    ended = await _wait_until(executor, run, until)
    if ended is not None and ended.status not in CLOSED:
        await _cancel_elsewhere(executor, ended)  # it came to rest meanwhile
        ended = await _wait_until(executor, run, until)
    if ended is None:
        await _mark_cancelling(executor.store, run)
        ended = await executor.get(run, tenant)
    return ended


async def _wait_until(executor: Executor, run: str, deadline: float | None) -> Run | None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            return await executor.wait(run)
    return None


async def _store_reason(store: Store, run: str, reason: str) -> None:
    """Store the first reason; later ones are dropped."""
    content = {"reason": redact_text(reason), "cancelledBy": acting.get().who}
    chunk = EvidenceChunk(kind=CONTENT, key=CANCELLED, data=msgspec.json.encode(content))
    try:
        await store.commit(Transaction(entries=[RunUpdate(run=run, evidence=[chunk])]))
    except Conflict as conflict:
        if conflict.reason not in ("exists", "closed"):
            raise


async def _cancel_elsewhere(executor: Executor, run: Run) -> None:
    if run.status not in ACTIVE:  # it rests and waits for a person
        with _status_may_differ():
            entry = RunUpdate(run=run.id, when=frozenset({run.status}), status="cancelling")
            await executor.store.commit(Transaction(entries=[entry]))
    conductor = await executor.claim(run.id)
    if conductor is not None:
        conductor.cancel()
        return
    await _mark_cancelling(executor.store, run.id)


async def _mark_cancelling(store: Store, run: str) -> None:
    """For the executor that conducts the run elsewhere, or after this process."""
    with _status_may_differ():
        entry = RunUpdate(run=run, when=frozenset({"pending", "running"}), status="cancelling")
        await store.commit(Transaction(entries=[entry]))


@contextmanager
def _status_may_differ() -> Generator[None]:
    """Ignore a conflict that says that the run has another status by now."""
    try:
        yield
    except Conflict as conflict:
        if conflict.reason not in ("closed", "status"):
            raise
