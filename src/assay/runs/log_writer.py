"""The only writer of a run's log: what comes is committed in the order it came, as much at once as has come."""

import asyncio
from collections.abc import Callable

from assay.errors import Conflict
from assay.ports import RunUpdate, Store, Transaction
from assay.ports.kinds import Ending, RunState, UnitOutcome

BEHIND = 256  # outcomes that may wait to be written before their maker has to


class LogWriter:
    """
    One run's, held by one process, with so many `events` so far: who was away and missed some cannot write.

    Trouble with a commit is told to `lost`, and raised to whoever adds next, or at the end.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        holder: str,
        state: RunState,
        lost: Callable[[], None],
        *,
        events: int = 0,
    ) -> None:
        self._store, self._run, self._holder, self._state, self._lost = store, run, holder, state, lost
        self._events = events
        self._waiting: list[UnitOutcome] = []
        self._writing: asyncio.Task[None] | None = None

    async def begin(self, outcome: UnitOutcome) -> bool:
        """Whether it may begin: somebody may have cancelled it before."""
        events, evidence, documents = outcome
        entry = RunUpdate(
            run=self._run,
            holder=self._holder,
            when=frozenset({"pending"}),
            expected=self._events,
            status="running",
            events=events,
            evidence=evidence,
            head=self._state.head(),
        )
        try:
            await self._store.commit(Transaction(entries=[entry], documents=documents))
        except Conflict as conflict:
            if conflict.what != "status":
                raise
            return False
        self._events += len(events)
        for event in events:
            self._state.add(event)
        self._state.on_commit()
        return True

    async def add(self, outcome: UnitOutcome) -> None:
        """Soon; when too much waits, not before that is written."""
        self._waiting.append(outcome)
        if self._writing is not None and self._writing.done():
            self._writing.result()  # the trouble it had, if any
            self._writing = None
        if self._writing is None:
            self._writing = self._begun()
        if len(self._waiting) >= BEHIND:
            await self.drain()

    async def drain(self) -> None:
        """Until everything is written."""
        while self._writing is not None:
            await asyncio.shield(self._writing)
            self._writing = self._begun() if self._waiting else None

    async def end(self, ending: Ending) -> None:
        await self.drain()
        entry = RunUpdate(
            run=self._run,
            holder=self._holder,
            expected=self._events,
            status=ending.status,
            events=ending.events,
            evidence=ending.evidence,
            head=ending.head,
        )
        await self._store.commit(Transaction(entries=[entry]))

    def _begun(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._write())
        task.add_done_callback(self._written)
        return task

    def _written(self, task: asyncio.Task[None]) -> None:
        """What waits for a step to be recorded would wait for ever for one that is not."""
        if not task.cancelled() and task.exception() is not None:
            self._lost()

    async def _write(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting, []
            events = [event for one in some for event in one.events]
            for event in events:
                self._state.add(event)
            entry = RunUpdate(
                run=self._run,
                holder=self._holder,
                expected=self._events,
                events=events,
                evidence=[piece for one in some for piece in one.evidence],
                head=self._state.head(),
            )
            documents = [change for one in some for change in one.documents]
            await self._store.commit(Transaction(entries=[entry], documents=documents))
            self._events += len(events)
            self._state.on_commit()
