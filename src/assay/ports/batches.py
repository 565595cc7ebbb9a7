"""Batches of a provider: many requests at once, answered hours later at a lower price."""

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple, Protocol

import msgspec

from assay.ports.store import Run, Store

BATCHES = "judge-batch"  # the kind of documents that the batches of a run are stored as, below its id


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

    async def find(self, name: str, *, count: int, since: float) -> list[str]:
        """The ids of the batches that may have been submitted under this name, of so many requests, since then."""
        ...

    async def state(self, batch: str) -> BatchState: ...

    async def responses(self, batch: str) -> BatchAnswers:
        """The answers of a batch that ended. The caller closes them."""
        ...

    async def cancel(self, batch: str) -> None:
        """Ask that the batch end early. What was answered can still be read."""
        ...


class OpenBatch(msgspec.Struct, kw_only=True):
    """A batch that was submitted, or whose submission is not certain while it has no `id`. It has no content."""

    name: str
    requests: list[str]
    at: float  # when it was submitted, by the clock
    id: str = ""
    closed: bool = False


class BatchJournal(Protocol):
    """
    The open batches of this process at one provider, and those of dead processes that it takes over.

    What was written is durable before what it says counts: a batch before it is submitted, and its id before an answer
    is waited for. A failure is a fault.
    """

    async def open(self) -> list[OpenBatch]:
        """Take over what dead processes left."""
        ...

    async def write(self, batch: OpenBatch) -> bool:
        """Write a batch; one that is closed is forgotten. False: another process has taken it over."""
        ...

    async def close(self) -> None: ...


class BatchJournals(Protocol):
    def bind(self, store: Store, run: Run) -> None:
        """Keep the batches of a run in its store. It is called before the first judge is asked."""
        ...

    def journal(self, provider: str) -> BatchJournal:
        """`provider`: the digest of its name and address. Each provider has its own batches."""
        ...


class BatchBudget:
    """
    The dollars of a run that are spent, and those that requests under way will cost by an estimate.

    `refused`: it left nothing for some request.
    """

    def __init__(self, ceiling: float | None = None) -> None:
        self.ceiling, self.spent, self.reserved, self.refused = ceiling, 0.0, 0.0, False

    def begin(self, ceiling: float | None, spent: float) -> None:
        """The limit of the run, and what it has spent before it goes on."""
        self.ceiling, self.spent = ceiling, max(self.spent, spent)

    def charge(self, cost: float) -> None:
        """Count what was spent otherwise: by the agent, or by single calls."""
        self.spent += cost

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
    """How the judges of a run use batches. `journals` have what a restart needs to know of them."""

    journals: BatchJournals
    budget: BatchBudget
    notify: Callable[[str], None] = _silent  # says that a batch was submitted or ended
    single_after: float | None = (
        None  # seconds until unanswered requests are made as single calls; None: never
    )
