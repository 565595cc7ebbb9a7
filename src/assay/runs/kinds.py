"""What a kind of run must be able to say; the table of those there are is made in `app`."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from assay.ports import Event, Piece, Run, RunStatus, Store

Outcome = tuple[list[Event], list[Piece]]  # what a unit leaves in the record, in one transaction
Ending = tuple[
    RunStatus, Event, dict[str, Any]
]  # how a run ends, its last event, and what a list shows of it


class Story(Protocol):
    """One run being conducted: the fold of what is recorded, and what is left to do."""

    def add(self, event: Event) -> None: ...
    def units(self, store: Store) -> AsyncIterator[bytes]:
        """What is not recorded yet."""
        ...

    def outcome(self, result: bytes) -> Outcome: ...
    def head(self) -> dict[str, Any]: ...
    def ending(self, status: RunStatus, reason: str = "") -> Ending: ...


class Kind(Protocol):
    """Evaluations are one; agent evals and workflows come in the same way."""

    name: str

    async def story(self, store: Store, run: Run) -> Story:
        """Take up a run that was opened; nothing of it is recorded yet."""
        ...

    def started(self, run: Run) -> Event: ...
    async def perform(self, unit: bytes) -> bytes:
        """Do one unit, wherever it landed."""
        ...
