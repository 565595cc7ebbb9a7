"""Conducts one run to its end. Recorded units are not done again; units in flight when a process died are."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from assay.concurrency.threads import off_loop
from assay.concurrency.workers import batch
from assay.errors import Conflict, EnvironmentFailure, Refusal
from assay.ports import (
    ANY_UNIT,
    CLOSED,
    EXECUTING,
    LOSSES,
    Engine,
    Run,
    RunStatus,
    RunUpdate,
    Store,
    Transaction,
    store_patience,
)
from assay.ports.bugs import log_bug
from assay.ports.kinds import (
    COPY_IN_PROGRESS,
    EXTERNALLY_DRIVEN,
    PRIORITY,
    REQUIRED_VERSION,
    STANDING,
    USUAL,
    RunKind,
    RunState,
    UnitScope,
    unit_holder,
    unit_scope,
    unit_watch,
    units_stopped,
)
from assay.ports.telemetry import telemetry, tracing
from assay.runs.event_log_writer import LogWriter
from assay.runs.log_reader import read_events

CUT_SHORT = 2.5  # seconds that units have to return after a cancel
LOOK = 1.0  # seconds between looks for a process that comes back
LOST = "process_lost"  # the error code of a run that is not tried again


START, END = "its start", "its end"  # what a process does with a run besides its units
NAMED = 5  # units that a message names


class ExecutingUnits:
    """
    The watch of one run (`assay.ports.kinds`).

    The first process of a run records its units with each result. A later one records each unit before it executes it:
    what ended the process before may end this one at once. In the last attempt of a run, units are executed one by one
    until those that were there each time have ended: so the one that ends its process is found among its neighbours.
    """

    def __init__(
        self, store: Store, run: Run, holder: str, name: Callable[[bytes], str], attempts: int | None
    ) -> None:
        self._store, self._run, self._holder, self._name = store, run.id, holder, name
        self._announces = attempts is not None and EXECUTING in run.metadata
        last = attempts is not None and run.takeovers >= attempts - 1
        self._suspects = {*suspects(run)} - {START, END} if last else set[str]()
        self._alone, self._in_turn = asyncio.Lock(), set[int]()
        self._units: dict[int, str] = {}

    @property
    def names(self) -> list[str]:
        return list(self._units.values())

    async def begin(self, unit: bytes) -> None:
        name = self._name(unit)
        if not name:
            return
        if self._suspects:
            await self._alone.acquire()
            self._in_turn.add(id(unit))
        if not self._suspects:
            self._end_turn(unit)  # they have ended while this one waited
        self._units[id(unit)] = name
        started = False
        try:
            await self.announce(self.names)
            started = True
        finally:
            if not started:
                self.end(unit)

    def end(self, unit: bytes) -> None:
        self._suspects.discard(self._units.pop(id(unit), ""))
        self._end_turn(unit)

    def _end_turn(self, unit: bytes) -> None:
        if id(unit) in self._in_turn:
            self._in_turn.discard(id(unit))
            self._alone.release()

    async def announce(self, names: Sequence[str]) -> None:
        if self._announces:
            entry = RunUpdate(run=self._run, holder=self._holder, executing=names)
            await self._store.commit(Transaction(entries=[entry]))


def suspects(run: Run) -> list[str]:
    """The units that were executed each time when the run lost its process."""
    losses: dict[str, list[str]] = run.metadata.get(LOSSES, {})
    return [unit for unit, lost in losses.items() if len(lost) >= run.takeovers and unit != ANY_UNIT]


def blamed(run: Run) -> str:
    """The suspects, for a person to read."""
    units = suspects(run)
    if not units:
        return "it"
    more = f" and {len(units) - NAMED} more" if len(units) > NAMED else ""
    return ("one of " if len(units) > 1 else "") + ", ".join(units[:NAMED]) + more


class Conductor:
    """Conducts one run whose lease this process holds."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        kind: RunKind,
        run: Run,
        holder: str,
        attempts: int | None = None,
        grace: float = 0.0,
    ) -> None:
        """
        `attempts`: how many processes in a row may die with the same unit before the run fails; None: any number.
        `grace`: the seconds before that in which one of them may come back, because it had only paused.
        """
        self._store, self._engine, self._kind, self._run, self._holder = store, engine, kind, run, holder
        self._attempts, self._grace = attempts, grace
        self._executing = ExecutingUnits(store, run, holder, kind.unit_name, attempts)
        self._stopped = asyncio.Event()
        self._draining = self._write_failed = False
        self._largest = 0  # bytes of the run's own values, a unit or a result so far
        self._working: asyncio.Task[None] | None = None

    @property
    def tenant(self) -> str:
        return self._run.tenant

    @property
    def is_standing(self) -> bool:
        """Whether the run waits for what comes: it is not counted as one in flight."""
        return STANDING in self._run.metadata

    def cancel(self) -> None:
        """Stop. Recorded results stay; the rest is not done."""
        self._stopped.set()

    def drain(self) -> None:
        """Start no more units, let those in flight end, and release the run for another process."""
        self._draining = True
        self._stopped.set()

    def _on_write_failed(self) -> None:
        """The log could not be written: stop the units, which would follow from results that are not recorded."""
        self._write_failed = True
        if self._working is not None:
            self._working.cancel()

    async def conduct(self) -> None:
        """Conduct the run to a terminal event, unless another process holds it by now or this one drains."""
        submitted, current = self._run.metadata.get("traceparent", ""), tracing.get()
        tracing.set(submitted or current)  # this task has a context of its own
        batch.owner.set(self._run.tenant)
        unit_scope.set(UnitScope(self._run.tenant, self._run.metadata.get(PRIORITY, USUAL)))
        unit_watch.set(self._executing)
        unit_holder.set(self._holder)
        units_stopped.set(self._stopped)
        store_patience.set(None)  # it outlives the request that submitted it
        about = {"assay.run.id": self._run.id, "assay.run.kind": self._kind.name}
        # a run that was adopted: the span of the request that submitted it is not open here
        parent = None if submitted in ("", current) else {"traceparent": submitted}
        try:
            with telemetry.span(f"run {self._kind.name}", about, parent):
                await self._conduct()
        except Conflict as conflict:
            if conflict.reason not in ("lease", "closed"):
                raise
            if conflict.reason == "lease":  # this process had paused, and did not die
                await self._store.forgive(self._run.id, self._holder)
        except EnvironmentFailure:
            raise  # the store is unavailable: the run is adopted again when it is back
        except Exception as bug:  # noqa: BLE001  # a bug in a kind ends its run and no other
            log_bug("assay.runs", f"run {self._run.id}", bug)
            await self._fail(f"a bug in assay: {type(bug).__name__}")

    async def _fail(self, message: str, code: str = "internal_error") -> None:
        found = await self._store.run(self._run.id)  # its metadata counts what was recorded meanwhile
        last = await self._kind.failure_events(found or self._run, message, code)
        not_started = code == LOST and self._run.status == "pending"  # its log has the usual first events
        entry = RunUpdate(
            run=self._run.id,
            holder=self._holder,
            status=last.status,
            events=[*(self._kind.start_events(self._run).events if not_started else ()), *last.events],
            metadata=last.metadata,
        )
        await self._store.commit(Transaction(entries=[entry]))

    async def _conduct(self) -> None:
        if self._run.metadata.get(COPY_IN_PROGRESS):
            await self._fail("a crash interrupted the copy from the source run; fork the source again")
            return
        if self._run.metadata.get(EXTERNALLY_DRIVEN):
            await self._fail(
                "the command that ran it was interrupted; the results recorded until then are stored"
            )
            return
        if self._attempts is not None and self._run.takeovers >= self._attempts:
            if await self._is_forgiven(self._attempts):
                await self._store.release(self._run.id, self._holder)  # it is adopted as any other
                return
            await self._fail(
                f"the run is not tried again: {self._run.takeovers} processes in a row died or hung while they executed"
                f" {blamed(self._run)} (ASSAY_MAX_RUN_ATTEMPTS)",
                LOST,
            )
            return
        await self._executing.announce([START])
        state = await self._kind.restore(self._store, self._run)
        self._largest = state.size
        count = await self._replay_events(state)
        metadata = self._run.metadata
        writer = LogWriter(
            self._store,
            self._run.id,
            self._holder,
            state,
            self._on_write_failed,
            executing=lambda: self._executing.names,
            events=count,
            metadata={name: metadata[name] for name in (REQUIRED_VERSION,) if name in metadata},
        )
        await self._executing.announce([])
        may_start = self._run.status != "pending" or await writer.begin(self._kind.start_events(self._run))
        if not may_start or self._run.status == "cancelling":
            self._stopped.set()
        try:
            trouble = await self._units(state, writer)
        except Exception:
            await writer.drain()  # the results before a bug are kept
            raise
        if self._write_failed:
            await writer.drain()  # raises the reason
        if trouble is None and self._draining:
            await writer.drain()
            await self._store.release(self._run.id, self._holder)
            return
        status: RunStatus = "cancelled" if await self._is_cancelled() else "completed"
        await writer.drain()
        await self._executing.announce([END])
        await state.finish(self._store)
        ending = state.ending("failed" if trouble else status, trouble)
        await writer.end(ending)
        if ending.status not in CLOSED:  # it waits for a person
            await self._store.release(self._run.id, self._holder)

    async def _is_forgiven(self, attempts: int) -> bool:
        """Wait for a lost process that had only paused, and return whether the run may be tried again."""
        clock = asyncio.get_running_loop()
        until = clock.time() + self._grace
        while not self._stopped.is_set():
            run = await self._store.run(self._run.id)
            if run is not None and run.takeovers < attempts:
                return True
            left = until - clock.time()
            if left <= 0:
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), min(left, LOOK))
        return self._draining

    async def _is_cancelled(self) -> bool:
        """Whether the run was cancelled. The store may know before this process does: others stop at once."""
        if self._stopped.is_set():
            return True
        run = await self._store.run(self._run.id)
        return run is not None and run.status == "cancelling"

    async def _replay_events(self, state: RunState) -> int:
        """Fold the recorded events into the state; return how many there are."""
        count = 0
        async for event in read_events(self._store, self._run.id):
            state.add(event)
            count = event.sequence + 1
        return count

    async def _units(self, state: RunState, writer: LogWriter) -> Refusal | None:
        """Do the remaining units; return the refusal that ended them, if one did."""
        work = self._working = asyncio.create_task(self._run_units(state, writer))
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not self._draining:
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

    async def _run_units(self, state: RunState, writer: LogWriter) -> None:
        results: Any = self._engine.map(self._kind.name, self._until_stopped(state.units(self._store)))
        try:
            async for result in results:
                telemetry.add("assay_units", 1, self._kind.name)
                # A step of a run with large values removes secrets from all of them.
                size = self._largest = max(self._largest, len(result))
                await writer.add(await off_loop(size, lambda result=result: state.outcome(result)))
        finally:
            await results.aclose()

    async def _until_stopped(self, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for unit in units:
            if self._stopped.is_set():
                return
            self._largest = max(self._largest, len(unit))
            yield unit
