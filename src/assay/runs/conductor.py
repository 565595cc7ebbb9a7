"""Carrying a run to its end: what is recorded is never done again, what was under way when a process died is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from assay.errors import Conflict, EnvironmentFailure, Refusal
from assay.ports import CLOSED, Engine, Run, RunStatus, RunUpdate, Store, Transaction
from assay.ports.kinds import COPY_IN_PROGRESS, EXTERNALLY_DRIVEN, RunKind, RunState
from assay.ports.telemetry import telemetry, tracing
from assay.runs.log_writer import LogWriter
from assay.runs.paging import read_events
from assay.workers import pool

CUT_SHORT = 2.5  # seconds that units have to come back after a cancel
LOST = "process_lost"  # the code of a run that is set aside


class Conductor:
    """One run, held by this process."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        kind: RunKind,
        run: Run,
        holder: str,
        attempts: int | None = None,
    ) -> None:
        """`attempts`: how many processes in a row the run may lose before it is set aside; None: any number."""
        self._store, self._engine, self._kind, self._run, self._holder = store, engine, kind, run, holder
        self._attempts = attempts
        self._stopped = asyncio.Event()
        self._parking = self._lost = False
        self._working: asyncio.Task[None] | None = None

    @property
    def tenant(self) -> str:
        return self._run.tenant

    def cancel(self) -> None:
        """What is recorded stays; the rest is not done."""
        self._stopped.set()

    def drain(self) -> None:
        """Let what is under way end, begin nothing more, and leave the rest to whoever comes."""
        self._parking = True
        self._stopped.set()

    def _on_write_failed(self) -> None:
        """What was done could not be written, and what would follow from it is not begun."""
        self._lost = True
        if self._working is not None:
            self._working.cancel()

    async def conduct(self) -> None:
        """To a terminal event, unless somebody else has the run by now, or this process parks it."""
        said, now = self._run.head.get("traceparent", ""), tracing.get()
        tracing.set(said or now)  # of a task of our own
        pool.owner.set(self._run.tenant)
        about = {"assay.run.id": self._run.id, "assay.run.kind": self._kind.name}
        parent = (
            None if said in ("", now) else {"traceparent": said}
        )  # who asked is not around: it was taken up
        try:
            with telemetry.span(f"run {self._kind.name}", about, parent):
                await self._conduct()
        except Conflict as conflict:
            if conflict.what not in ("lease", "closed"):
                raise
        except EnvironmentFailure:
            raise  # the store is away: the run is taken up again when it is back
        except Exception as bug:  # noqa: BLE001  # whatever a kind does ends its run, and no other
            await self._fail(f"a bug in assay: {type(bug).__name__}")

    async def _fail(self, why: str, code: str = "internal_error") -> None:
        last = self._kind.failure_events(self._run, why, code)
        unbegun = code == LOST and self._run.status == "pending"  # its log begins as any other
        entry = RunUpdate(
            run=self._run.id,
            holder=self._holder,
            status=last.status,
            events=[*(self._kind.start_events(self._run).events if unbegun else ()), *last.events],
            head=last.head,
        )
        await self._store.commit(Transaction(entries=[entry]))

    async def _conduct(self) -> None:
        if self._run.head.get(COPY_IN_PROGRESS):
            await self._fail("it was copied from another run, and a crash cut that off: fork that again")
            return
        if self._run.head.get(EXTERNALLY_DRIVEN):
            await self._fail("the command that carried it out was cut off; what it had kept by then is here")
            return
        if self._attempts is not None and self._run.takeovers >= self._attempts:
            await self._fail(
                f"set aside: {self._run.takeovers} processes in a row died or hung while they carried it out, and"
                " nothing was recorded meanwhile (ASSAY_MAX_RUN_ATTEMPTS)",
                LOST,
            )
            return
        state = await self._kind.restore(self._store, self._run)
        known = await self._replay_events(state)
        record = LogWriter(
            self._store, self._run.id, self._holder, state, self._on_write_failed, events=known
        )
        begun = self._run.status != "pending" or await record.begin(self._kind.start_events(self._run))
        if not begun or self._run.status == "cancelling":
            self._stopped.set()
        trouble = await self._units(state, record)
        if self._lost:
            await record.drain()  # which raises why
        if trouble is None and self._parking:
            await record.drain()
            await self._store.release(self._run.id, self._holder)
            return
        status: RunStatus = "cancelled" if self._stopped.is_set() else "completed"
        await record.drain()
        ending = state.ending("failed" if trouble else status, trouble)
        await record.end(ending)
        if ending.status not in CLOSED:  # it waits for somebody
            await self._store.release(self._run.id, self._holder)

    async def _replay_events(self, state: RunState) -> int:
        """Fold what is recorded; how much it is."""
        count = 0
        async for event in read_events(self._store, self._run.id):
            state.add(event)
            count = event.sequence + 1
        return count

    async def _units(self, state: RunState, record: LogWriter) -> Refusal | None:
        """Everything that is left; the refusal that ended it, if one did."""
        work = self._working = asyncio.create_task(self._work(state, record))
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not self._parking:
                if self._kind.stop(self._run.id):
                    await asyncio.wait({work}, timeout=CUT_SHORT)
                work.cancel()
            await asyncio.wait({work})
            if work.cancelled():
                return None
            trouble = work.exception()
            if trouble is None or (isinstance(trouble, Refusal) and not isinstance(trouble, Conflict)):
                return trouble
            raise trouble
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    async def _work(self, state: RunState, record: LogWriter) -> None:
        results: Any = self._engine.map(self._kind.name, self._until_stopped(state.units(self._store)))
        try:
            async for result in results:
                telemetry.add("assay_units", 1, self._kind.name)
                await record.add(state.outcome(result))
        finally:
            await results.aclose()

    async def _until_stopped(self, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for unit in units:
            if self._stopped.is_set():
                return
            yield unit
