"""The interface of a kind of run. `app` makes the table of kinds."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.errors import Refusal
from assay.ports import (
    CaseBlock,
    DeleteDocument,
    Event,
    EvidenceChunk,
    PutDocument,
    Run,
    RunFacts,
    RunStatus,
    Store,
)
from assay.protocol.event_record import CONTENT, PendingEvent, encode_event

# Members of a run's metadata:
LOCAL_ONLY = "apart"  # only the process that was given the run's agents can continue it
COPY_IN_PROGRESS = "copying"  # the run is being copied from another; no executor may start it yet
REQUIRED_VERSION = "assayVersion"  # of a run on workers: workers of an older version of assay leave it
STANDING = "standing"  # the run waits for what comes and does not count as one in flight
EXTERNALLY_DRIVEN = "driven"  # a command executes the run itself; no other process has its cases


class UnitOutcome(NamedTuple):
    """What a unit adds to the log, in one transaction."""

    events: list[Event]
    evidence: list[EvidenceChunk] = []  # noqa: RUF012  # never changed
    documents: list[PutDocument | DeleteDocument] = []  # noqa: RUF012
    cases: list[CaseBlock] = []  # noqa: RUF012


def split(facts: Iterable[PendingEvent], at: datetime) -> UnitOutcome:
    """Split events from their content, which is stored as evidence under the event's id."""
    events: list[Event] = []
    pieces: list[EvidenceChunk] = []
    for fact in facts:
        events.append(Event(fact.type, encode_event(fact), at))
        if fact.content:
            pieces.append(EvidenceChunk(kind=CONTENT, key=fact.id, data=msgspec.json.encode(fact.content)))
    return UnitOutcome(events, pieces)


class Ending(NamedTuple):
    """How a run ends: status, last events, metadata. Or how it suspends, with a status that waits for an answer."""

    status: RunStatus
    events: list[Event]
    metadata: dict[str, Any]
    evidence: list[EvidenceChunk] = []  # noqa: RUF012  # never changed
    facts: RunFacts | None = None


class RunState(Protocol):
    """The state of a run in progress: the fold of its recorded events, and the units that remain."""

    size: int  # bytes, as JSON, of the values that every unit may have to copy

    def add(self, event: Event) -> None: ...
    def on_commit(self) -> None:
        """All events added so far are durable: units that depend on them may start."""
        ...

    def units(self, store: Store) -> AsyncIterator[bytes]:
        """Yield the units that are not recorded yet. It may wait until an earlier unit is recorded."""
        ...

    def outcome(self, result: bytes) -> UnitOutcome:
        """Turn a unit's result into events. A Refusal raised here ends the run `failed`; earlier events stay."""
        ...

    def metadata(self) -> dict[str, Any]: ...
    async def finish(self, store: Store) -> None:
        """All units are recorded: compute what `ending` records of them."""
        ...

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending: ...


class RunKind(Protocol):
    """A kind of run: evaluations, agent evals, workflows."""

    name: str

    async def restore(self, store: Store, run: Run) -> RunState:
        """Return the state of a run before its first event. The caller adds the recorded events next."""
        ...

    def start_events(self, run: Run) -> UnitOutcome:
        """The first events of a run."""
        ...

    def unit_name(self, unit: bytes) -> str:
        """The same name each time the unit is executed, without content. "": it only waits and ends no process."""
        ...

    async def perform(self, unit: bytes) -> bytes:
        """Execute one unit, in any process."""
        ...

    def stop(self, run: str) -> bool:
        """Interrupt the units of a cancelled run so that they return partial results. False: the caller drops them."""
        ...

    async def failure_events(self, run: Run, message: str, code: str) -> Ending:
        """The end of a run that cannot continue: a bug, an incomplete copy, or too many lost processes."""
        ...


# What a conductor tells an engine about its units: for which tenant, how urgent, and who watches those that this
# process executes.

PRIORITY = "priority"  # in the metadata of a run
USUAL = 5  # the priority of units whose run names none
PRIORITIES = range(1, 10)  # units of a lower number start first


class UnitScope(NamedTuple):
    """What a conductor says about all units of its run. It is not part of the unit: equal units stay equal."""

    tenant: str = ""
    priority: int = USUAL


_UNSCOPED = UnitScope()
unit_scope: ContextVar[UnitScope] = ContextVar("unit_scope", default=_UNSCOPED)


class UnitWatch(Protocol):
    """Is told which units of a run this process executes."""

    async def begin(self, unit: bytes) -> None: ...

    def end(self, unit: bytes) -> None: ...


unit_watch: ContextVar[UnitWatch | None] = ContextVar("unit_watch", default=None)
unit_holder: ContextVar[str | None] = ContextVar(
    "unit_holder", default=None
)  # of the lease of their run, if it is here


class StopSignal(Protocol):
    """An event that is set when a conductor wants no more units. A state that waits for units waits for it too."""

    def is_set(self) -> bool: ...

    async def wait(self) -> Any: ...


units_stopped: ContextVar[StopSignal | None] = ContextVar("units_stopped", default=None)
Perform = Callable[[str, bytes], Awaitable[bytes]]


def watched(perform: Perform) -> Perform:
    """`perform` of an engine that executes units in the process of their conductor."""

    async def execute(work: str, unit: bytes) -> bytes:
        watch = unit_watch.get()
        if watch is None:
            return await perform(work, unit)
        await watch.begin(unit)
        try:
            return await perform(work, unit)
        finally:
            watch.end(unit)

    return execute
