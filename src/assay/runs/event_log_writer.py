"""The only writer of a run's log. It commits outcomes in the order they come, all that wait in one transaction."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from assay.errors import Conflict
from assay.ports import RunUpdate, Store, Transaction
from assay.ports.kinds import Ending, RunState, UnitOutcome

BEHIND = 256  # outcomes that may wait to be written; then `add` waits


class LogWriter:
    """
    Writes the log of one run whose lease this process holds.

    `events` is how many events the caller has read: a process that missed some cannot write.

    When a commit fails, `on_failure` is called; the next `add`, or `end`, raises the error.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        holder: str,
        state: RunState,
        on_failure: Callable[[], None],
        *,
        executing: Callable[[], Sequence[str]],
        events: int = 0,
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`executing`: the names of the units in flight, in each record. `metadata`: of every record of the run."""
        self._store, self._run, self._holder, self._state, self._on_failure = (
            store,
            run,
            holder,
            state,
            on_failure,
        )
        self._executing, self._events, self._metadata = executing, events, metadata
        self._waiting: list[UnitOutcome] = []
        self._writing: asyncio.Task[None] | None = None

    async def begin(self, outcome: UnitOutcome) -> bool:
        """Record the start of a pending run. False: it was cancelled before."""
        events, evidence, documents, cases = outcome
        entry = RunUpdate(
            run=self._run,
            holder=self._holder,
            when=frozenset({"pending"}),
            expected=self._events,
            status="running",
            events=events,
            evidence=evidence,
            cases=cases,
            metadata={**self._state.metadata(), **self._metadata},
        )
        try:
            await self._store.commit(Transaction(entries=[entry], documents=documents))
        except Conflict as conflict:
            if conflict.reason != "status":
                raise
            return False
        self._events += len(events)
        for event in events:
            self._state.add(event)
        self._state.on_commit()
        return True

    async def add(self, outcome: UnitOutcome) -> None:
        """Queue an outcome. When too many wait, return only after they are written."""
        self._waiting.append(outcome)
        if self._writing is not None and self._writing.done():
            self._writing.result()  # raises the error of its commit, if any
            self._writing = None
        if self._writing is None:
            self._writing = self._start_write()
        if len(self._waiting) >= BEHIND:
            await self.drain()

    async def drain(self) -> None:
        """Wait until everything is written."""
        while self._writing is not None:
            await asyncio.shield(self._writing)
            self._writing = self._start_write() if self._waiting else None

    async def end(self, ending: Ending) -> None:
        await self.drain()
        entry = RunUpdate(
            run=self._run,
            holder=self._holder,
            expected=self._events,
            status=ending.status,
            events=ending.events,
            evidence=ending.evidence,
            metadata={**ending.metadata, **self._metadata},
            facts=ending.facts,
        )
        await self._store.commit(Transaction(entries=[entry]))

    def _start_write(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._write())
        task.add_done_callback(self._on_written)
        return task

    def _on_written(self, task: asyncio.Task[None]) -> None:
        """Without this call, a unit that waits for an earlier one to be recorded would wait for ever."""
        if not task.cancelled() and task.exception() is not None:
            self._on_failure()

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            events = [event for outcome in batch for event in outcome.events]
            for event in events:
                self._state.add(event)
            entry = RunUpdate(
                run=self._run,
                holder=self._holder,
                expected=self._events,
                events=events,
                evidence=[chunk for outcome in batch for chunk in outcome.evidence],
                cases=[block for outcome in batch for block in outcome.cases],
                metadata={**self._state.metadata(), **self._metadata},
                executing=self._executing(),
            )
            documents = [change for outcome in batch for change in outcome.documents]
            await self._store.commit(Transaction(entries=[entry], documents=documents))
            self._events += len(events)
            self._state.on_commit()
