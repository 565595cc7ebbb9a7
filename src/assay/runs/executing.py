"""The units of one run that this process executes, recorded so that its death counts for them alone."""

import asyncio
from collections.abc import Callable, Sequence

from assay.ports import ANY_UNIT, EXECUTING, LOSSES, Run, RunUpdate, Store, Transaction

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
        begun = False
        try:
            await self.announce(self.names)
            begun = True
        finally:
            if not begun:
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
