"""What a kind of run must be able to say; the table of those there are is made in `app`."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.errors import Refusal
from assay.ports import DeleteDocument, Event, EvidenceChunk, PutDocument, Run, RunStatus, Store
from assay.protocol.event_record import CONTENT, PendingEvent, stored

LOCAL_ONLY = "apart"  # in the head of a run that only who described its agents can go on with
COPY_IN_PROGRESS = (
    "copying"  # in the head of a run that is being copied from another, and is nobody's to do yet
)
EXTERNALLY_DRIVEN = (
    "driven"  # in the head of a run that a command carries out by itself: nobody else has its cases
)


class UnitOutcome(NamedTuple):
    """What a unit leaves in the record, in one transaction."""

    events: list[Event]
    evidence: list[EvidenceChunk] = []  # noqa: RUF012  # never changed
    documents: list[PutDocument | DeleteDocument] = []  # noqa: RUF012


def split(facts: Iterable[PendingEvent], at: datetime) -> UnitOutcome:
    """Facts in their two drawers: events without content, and the content of each under its event's id."""
    events: list[Event] = []
    pieces: list[EvidenceChunk] = []
    for fact in facts:
        events.append(Event(fact.type, stored(fact), at))
        if fact.content:
            pieces.append(EvidenceChunk(kind=CONTENT, key=fact.id, data=msgspec.json.encode(fact.content)))
    return UnitOutcome(events, pieces)


class Ending(NamedTuple):
    """How a run ends, its last events, and what a list shows of it; or how it comes to rest, with a status that waits for somebody."""

    status: RunStatus
    events: list[Event]
    head: dict[str, Any]
    evidence: list[EvidenceChunk] = []  # noqa: RUF012  # never changed


class RunState(Protocol):
    """One run being conducted: the fold of what is recorded, and what is left to do."""

    def add(self, event: Event) -> None: ...
    def on_commit(self) -> None:
        """All that was added so far is durable: what follows from it may begin."""
        ...

    def units(self, store: Store) -> AsyncIterator[bytes]:
        """What is not recorded yet. It may wait for an earlier unit to be recorded."""
        ...

    def outcome(self, result: bytes) -> UnitOutcome:
        """A refusal raised here ends the run `failed`; what was recorded before stays."""
        ...

    def head(self) -> dict[str, Any]: ...
    def ending(self, status: RunStatus, trouble: Refusal | None = None) -> Ending: ...


class RunKind(Protocol):
    """Evaluations are one; agent evals and workflows come in the same way."""

    name: str

    async def restore(self, store: Store, run: Run) -> RunState:
        """Take up a run that was opened; what is recorded of it is added next."""
        ...

    def start_events(self, run: Run) -> UnitOutcome:
        """Its first events."""
        ...

    async def perform(self, unit: bytes) -> bytes:
        """Do one unit, wherever it landed."""
        ...

    def stop(self, run: str) -> bool:
        """Cut short what is under way here of a run that is cancelled, so that it comes back as far as it came; False: drop it."""
        ...

    def failure_events(self, run: Run, why: str, code: str) -> Ending:
        """The end of a run that cannot go on: a bug of ours, a copy that was cut off, one that loses its processes."""
        ...
