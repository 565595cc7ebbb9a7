"""The store: runs with their events and evidence, documents, and leases on runs. One transaction covers all of them."""

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, Protocol

import msgspec

from assay.ports.audit import AuditEntry, AuditLog
from assay.ports.cases import NO_FACTS, CaseBlock, CaseTable, RunFacts, RunGroup
from assay.ports.deletion import TenantContents
from assay.ports.encryption import Reencryptable

RunStatus = Literal[
    "pending", "running", "cancelling", "paused", "waiting-approval", "waiting-input", "waiting-external",
    "completed", "failed", "cancelled",
]  # fmt: skip
# an executor works on it, or will
ACTIVE: frozenset[RunStatus] = frozenset({"pending", "running", "cancelling"})
CLOSED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})  # final

# Seconds that a request waits for a database that does not answer; None: a task without a client, which waits longer.
store_patience: ContextVar[float | None] = ContextVar("store_patience", default=None)


ERASED = "erased"  # in the metadata of a run: when its content was erased
ERASED_BY = "erasedBy"  # beside it: `RETENTION` or `DELETION`; absent, if a person erased this run
EXECUTING = (
    "executing"  # in the metadata of an active run: the units that its holder executes; absent: not known
)
LOSSES = "losses"  # and the holders in a row that were lost while they executed each unit
ANY_UNIT = ""  # the name in LOSSES for a death during which the units were not known
RETENTION = "retention"
DELETION = "deletion"  # of all content of the tenant


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run without its log. No field holds content."""

    id: str
    tenant: str
    kind: str
    status: RunStatus = "pending"
    name: str = ""  # of the experiment or suite
    metadata: dict[str, Any] = {}  # small: counts, digests, links to other runs
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    events: int = 0  # their number, which is the sequence of the next one
    holder: str | None = None  # the executor that holds the lease until `leased`
    leased: datetime | None = None
    granted: datetime | None = None  # when the lease was granted or renewed
    takeovers: int = 0  # executors in a row that died while they executed one and the same unit
    facts: RunFacts = NO_FACTS

    @property
    def erased(self) -> str:
        """When the content of the run was erased; an empty text if it was not."""
        return self.metadata.get(ERASED, "")

    @property
    def erased_by(self) -> str:
        """What erased its content: `RETENTION` or `DELETION`; empty if a person did, or nothing did."""
        return self.metadata.get(ERASED_BY, "")

    @property
    def erasure(self) -> str:
        """What happened to its content, for a person to read; an empty text if nothing did."""
        if self.erased and self.erased_by == DELETION:
            return f"its content was deleted on {self.erased[:10]}"
        if self.erased and self.erased_by:
            return f"evidence removed by {self.erased_by} on {self.erased[:10]}"
        return f"its content was erased at {self.erased}" if self.erased else ""


class Event(msgspec.Struct, frozen=True):
    """One event of a run, as stored; it never holds content. The store assigns the sequence, gapless from 0."""

    type: str
    data: bytes  # JSON
    at: datetime
    sequence: int = -1


class ChunkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of evidence without its data: its key, and the ordinals first to last that it covers."""

    kind: str
    key: str = ""
    first: int = 0
    last: int = 0
    size: int = 0


class EvidenceChunk(msgspec.Struct, frozen=True, kw_only=True):
    """
    A stored chunk of evidence: one value under a key, or consecutive values of a numbered series, one per line.

    A million results are some thousand chunks of kind `results`; about 1 MB each is a good size. Chunks of one key do
    not overlap.
    """

    kind: str
    key: str = ""
    first: int = 0
    last: int = 0
    data: bytes

    def lines(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """Return the lines numbered start to stop (exclusive) that this chunk holds."""
        lines = self.data.split(b"\n")
        return lines[max(0, start - self.first) : None if stop is None else max(0, stop - self.first)]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A named, mutable value. Its version is 1 when it is created, and every change adds one."""

    tenant: str
    kind: str
    key: str
    version: int
    data: bytes
    updated: datetime


class DocumentInfo(msgspec.Struct, frozen=True):
    """A document without its data: its key, and the bytes that the store has of it."""

    key: str
    size: int


class PutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Write a document: only if it is absent (version 0), only over that version, or unconditionally (None)."""

    tenant: str
    kind: str
    key: str
    data: bytes
    version: int | None = 0


class DeleteDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a document: only that version, or any (None), even if it does not exist."""

    tenant: str
    kind: str
    key: str
    version: int | None


class CreateRun(msgspec.Struct, frozen=True, kw_only=True):
    """Create the run. If `holder` is set, it gets a lease of `seconds`."""

    tenant: str
    kind: str
    name: str = ""
    holder: str | None = None
    seconds: float = 30.0


class RunUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one run in a transaction, and their preconditions."""

    run: str
    opens: CreateRun | None = None
    expected: int | None = None  # the sequence its first event must get
    holder: str | None = None  # must still hold the lease
    when: frozenset[RunStatus] | None = None  # the statuses that the run may have
    status: RunStatus | None = None
    metadata: dict[str, Any] | None = None
    executing: Sequence[str] | None = None  # the names of the units that the holder executes; None: as before
    events: Sequence[Event] = ()
    evidence: Sequence[EvidenceChunk] = ()
    cases: Sequence[CaseBlock] = ()
    facts: RunFacts | None = None  # None: as before
    # mark the run, which has ended, as erased; only `metadata` may be added, and a member that is None is removed
    erases: bool = False
    renames: str | None = (
        None  # with `erases`: the name of the run from now on; it also applies to a run that was erased before
    )


class RequireRun(msgspec.Struct, frozen=True, kw_only=True):
    """A precondition: the run has this status and this number of events, and its content is not erased."""

    run: str
    status: RunStatus
    events: int


class RequireCount(msgspec.Struct, frozen=True, kw_only=True):
    """
    A precondition: this many documents of the kind have a key with the prefix.

    With `versions`, `count` is the sum of their versions: it changes with every change of a document.
    """

    tenant: str
    kind: str
    prefix: str = ""
    count: int
    versions: bool = False


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that are written together or not at all. If a precondition of `requires` fails, nothing is written."""

    entries: Sequence[RunUpdate] = ()
    documents: Sequence[PutDocument | DeleteDocument] = ()
    lines: Sequence[AuditEntry] = ()  # of the audit log
    requires: Sequence[RequireRun | RequireCount] = ()


RunOrder = Literal["created", "score", "cost", "duration"]


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """
    A filter for runs, newest first. `before` is (created, id) of the last run of the previous page.

    In another order, equal runs are newest first, or oldest first if `ascending`. Runs without the number come last,
    newest first. `beyond` is then (number, created, id) of the last run of the previous page; the number of a duration
    is in microseconds.
    """

    tenant: str | None = None
    kind: str | None = None
    kinds: frozenset[str] | None = None
    name: str | None = None
    statuses: frozenset[RunStatus] | None = None
    since: datetime | None = None
    until: datetime | None = None  # not included
    before: tuple[datetime, str] | None = None
    passed: bool | None = None  # the verdict
    evidence: bool = False  # only runs that have evidence in the store
    order: RunOrder = "created"
    ascending: bool = False
    beyond: tuple[float | None, datetime, str] | None = None
    limit: int = 50


class Store(AuditLog, Reencryptable, TenantContents, CaseTable, Protocol):
    """
    Stores runs with their events and evidence, and documents.

    It raises Conflict if a precondition fails and EnvironmentFailure if the database cannot be read or written. A
    commit that returned is durable. A commit that raised EnvironmentFailure, or whose caller was cancelled, is written
    as a whole or not at all.
    """

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        """Write the transaction; return for each entry the number of events its run has now."""
        ...

    async def run(self, run: str, *, tenant: str | None = None) -> Run | None:
        """Return the run, or None. With a tenant, another tenant's run is None too; without one, any run is found."""
        ...

    async def runs(self, query: RunQuery) -> list[Run]: ...

    async def find(self, runs: Sequence[str], *, tenant: str) -> list[Run]:
        """Those of these runs that exist and belong to the tenant."""
        ...

    async def count_runs(self, query: RunQuery) -> dict[tuple[str, RunStatus], int]:
        """The number of runs by kind and status."""
        ...

    async def group_runs(self, query: RunQuery) -> list[RunGroup]:
        """The runs grouped by kind and name; the group with the newest run first."""
        ...

    async def events(self, run: str, *, after: int = -1, limit: int = 1000) -> list[Event]: ...

    async def wait_for_events(self, run: str, *, after: int, timeout: float) -> bool:
        """Return True once there is an event after that sequence or the run is closed; False at the timeout."""
        ...

    async def chunk_infos(
        self, run: str, kind: str, *, after: ChunkInfo | None = None, limit: int = 1000
    ) -> list[ChunkInfo]:
        """List the chunks of a kind by key and ordinal, without their data."""
        ...

    async def chunks(
        self, run: str, kind: str, *, key: str = "", start: int = 0, stop: int | None = None, limit: int = 4
    ) -> list[EvidenceChunk]:
        """Return the next chunks of a key that reach `start` or beyond. Continue with `last + 1` until none is left."""
        ...

    async def contents(self, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the first chunk's data for each of these keys that exists."""
        ...

    async def erase(self, *runs: str, kind: str | None = None, limit: int = 500) -> int:
        """
        Delete a batch of the evidence of some runs and return its size.

        Repeat until it is 0: then no file of the store holds it.

        A batch has `limit` chunks at most, and fewer if they are large.
        """
        ...

    async def document(self, tenant: str, kind: str, key: str) -> Document | None: ...

    async def documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Document]: ...

    async def document_infos(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[DocumentInfo]:
        """List documents by key, without their data."""
        ...

    async def find_documents(self, tenant: str, kind: str, keys: Sequence[str]) -> list[Document]:
        """Those of these documents that exist, by key."""
        ...

    async def measure_documents(self, tenant: str, kind: str, *, prefix: str = "") -> tuple[int, int]:
        """The number of documents, and the bytes that the store has of them."""
        ...

    async def sweep(self, kind: str, *, before: datetime, limit: int = 1000) -> int:
        """Delete a batch of documents of a kind, last written before then, of all tenants; return their number."""
        ...

    async def claim(self, run: str, holder: str, *, seconds: float) -> Run | None:
        """
        Take the lease of an active run without a valid one; None if the run is leased or not active.

        Taking a run whose lease has expired is a takeover, and is counted for the units that its holder executed.
        """
        ...

    async def adopt(
        self, holder: str, *, seconds: float, limit: int = 10, max_takeovers: int | None = None
    ) -> list[Run]:
        """
        Claim active runs without a valid lease, such as those of a crashed process, oldest first.

        A lease granted in the future dates from before the clock was set back: its time starts again now.
        Runs with exactly `max_takeovers` takeovers are skipped.
        """
        ...

    async def renew(self, holder: str, *, seconds: float) -> dict[str, RunStatus]:
        """
        The heartbeat: renew all leases of a holder and return the statuses of its runs.

        A run that is missing from the answer has been lost. The status `cancelling` asks the holder to stop.
        """
        ...

    async def release(self, run: str, holder: str) -> None: ...

    async def forgive(self, run: str, holder: str) -> None:
        """`holder` has lost this run to another but is alive: what it lost does not count. Other losses stay."""
        ...

    async def ping(self) -> None:
        """Raise EnvironmentFailure if the database does not answer within two seconds, or cannot be written."""
        ...

    async def close(self) -> None:
        """Finish pending commits, then close the connections."""
        ...
