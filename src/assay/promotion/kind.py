"""Management runs as a kind of run. No unit is ever executed: an executor only ends a run that was cancelled."""

from collections.abc import AsyncIterator
from typing import Any

from assay.errors import Refusal
from assay.ports import Clock, Event, Run, RunStatus, Store
from assay.ports.kinds import Ending, UnitOutcome, split
from assay.promotion import KIND
from assay.protocol.event_record import CANCELLED, PendingEvent
from assay.protocol.events import ErrorOf, RunCancelled, RunFailed


class ManagementState:
    """The state of a management run that is being cancelled."""

    size = 0

    def __init__(self, run: Run, clock: Clock) -> None:
        self._run, self._clock = run, clock

    def add(self, event: Event) -> None: ...

    def on_commit(self) -> None: ...

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        for unit in ():
            yield unit

    def outcome(self, result: bytes) -> UnitOutcome:
        return UnitOutcome([])

    def metadata(self) -> dict[str, Any]:
        return {
            name: value for name, value in self._run.metadata.items() if name not in ("waiting", "grants")
        }

    async def finish(self, store: Store) -> None: ...

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        if status != "cancelled":
            return ended_with(
                self._clock, "a management run has no work of its own", "internal_error", self.metadata()
            )
        event = PendingEvent(type=CANCELLED, payload=RunCancelled())
        return Ending("cancelled", split([event], self._clock.now()).events, self.metadata())


class ManagementKind:
    """The kind `deployment`."""

    name = KIND

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def restore(self, store: Store, run: Run) -> ManagementState:
        return ManagementState(run, self._clock)

    def start_events(self, run: Run) -> UnitOutcome:
        return UnitOutcome([])

    def unit_name(self, unit: bytes) -> str:
        return ""

    async def perform(self, unit: bytes) -> bytes:
        return b""

    def stop(self, run: str) -> bool:
        return False

    async def failure_events(self, run: Run, message: str, code: str) -> Ending:
        return ended_with(self._clock, message, code, run.metadata)


def ended_with(clock: Clock, message: str, code: str, metadata: dict[str, Any]) -> Ending:
    failed = RunFailed(error=ErrorOf(code=code, message=message))
    events = split([PendingEvent(type="run.failed", payload=failed)], clock.now()).events
    return Ending("failed", events, metadata | {"code": code})
