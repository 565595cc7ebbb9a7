"""Batches of a provider: many requests at once, answered hours later at a lower price."""

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple, Protocol

import msgspec


class BatchRequest(NamedTuple):
    """One request of a batch: its id in the batch, and the body that a single call would have."""

    id: str
    body: bytes


class BatchResponse(NamedTuple):
    """The answer to one request: the status and the body that a single call would have had."""

    status: int
    body: bytes


class BatchState(NamedTuple):
    """`ended`: no more answers will come. `problem`: why the provider refused the whole batch."""

    ended: bool
    answered: int = 0
    problem: str = ""


class SubmittedBatch(NamedTuple):
    """A batch that the provider lists, and whether it is surely the one that was looked for."""

    id: str
    certain: bool


class BatchAnswers(Protocol):
    """
    The answers of a batch that ended, by the ids of its requests. They need not be in memory.

    A request that was not answered, because it expired, was cancelled or got lost, is missing.
    """

    def ids(self) -> Set[str]: ...

    def get(self, id: str) -> BatchResponse | None: ...

    def close(self) -> None: ...


class BatchProvider(Protocol):
    """The batches of one provider. A failure is a fault, as that of a Model."""

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        """Submit a batch under a name of ours. Returns the provider's id."""
        ...

    async def find(self, name: str, *, count: int, since: float) -> list[SubmittedBatch]:
        """The batches that may have been submitted under this name, with so many requests, since this time."""
        ...

    async def state(self, batch: str) -> BatchState: ...

    async def responses(self, batch: str) -> BatchAnswers:
        """The answers of a batch that ended. The caller closes them."""
        ...

    async def cancel(self, batch: str) -> None:
        """Ask that the batch end early. What was answered can still be read."""
        ...


class BatchBudget:
    """The dollars of a run that are spent, and those that requests under way will cost by an estimate."""

    def __init__(self, ceiling: float | None = None) -> None:
        self.ceiling, self.spent, self.reserved = ceiling, 0.0, 0.0

    def admits(self, estimate: float) -> bool:
        """Whether a request may be submitted. One that is too dear is submitted alone, as a single call would be."""
        if self.ceiling is None or not self.reserved:
            return self.ceiling is None or self.spent < self.ceiling
        return self.spent + self.reserved + estimate <= self.ceiling

    def reserve(self, estimate: float) -> None:
        self.reserved += estimate

    def settle(self, estimate: float, cost: float) -> None:
        """Replace an estimate by the truth."""
        self.reserved = max(0.0, self.reserved - estimate)
        self.spent += cost


def _silent(text: str) -> None: ...


class BatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the judges of a run use batches. `folder` has what a restart needs to know of them."""

    folder: str
    budget: BatchBudget
    notify: Callable[[str], None] = _silent  # says that a batch was submitted or ended
    single_after: float | None = (
        None  # seconds until unanswered requests are made as single calls; None: never
    )
