"""Every seam on one page: what the engine asks of the world, and the limits it keeps (decision 40)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, Protocol

import msgspec

from assay.ports.audit import AuditEntry, AuditLog
from assay.ports.encryption import Cipher as Cipher
from assay.ports.encryption import Reencryptable
from assay.ports.encryption import ReencryptStep as ReencryptStep
from assay.ports.secret import Secret as Secret
from assay.protocol.completion import RESERVED_PARAMETERS as RESERVED_PARAMETERS
from assay.protocol.completion import Completion, CompletionRequest, Embeddings
from assay.protocol.completion import Message as Message
from assay.protocol.completion import ToolCall as ToolCall


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far anything may go. Each is a setting (`ASSAY_MAX_…`, `[limits]` in assay.toml) with a default."""

    max_line_bytes: int = 64 * 1024 * 1024
    max_request_bytes: int = 512 * 1024 * 1024
    max_cases: int = 1_000_000
    max_checks: int = 1_000
    max_depth: int = 500
    max_nodes: int = 100_000
    check_seconds: float = 60.0
    run_seconds: float = 86_400.0
    max_tasks: int = 10_000
    task_seconds: float = 300.0
    max_suite_cost_usd: float = 100.0
    max_node_executions: int = 1_000
    max_loop_iterations: int = 25
    max_run_attempts: int = 3


class Clock(Protocol):
    """What time it is, for records; and a stopwatch."""

    def now(self) -> datetime: ...


class SystemClock:
    now = staticmethod(partial(datetime.now, UTC))  # asked several times a case


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking, by the credential and never by the request (contract §2.2). The id is opaque."""

    tenant: str
    id: str
    scopes: frozenset[str] = frozenset()

    def may(self, scope: str) -> bool:
        return scope in self.scopes


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: Annotated[float, msgspec.Meta(ge=0)]
    output: Annotated[float, msgspec.Meta(ge=0)] = 0.0


Positive = Annotated[float, msgspec.Meta(gt=0)]


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who answers, and how it may be asked (`[providers.NAME]`, decision 39)."""

    name: str
    kind: Literal["openai_compatible", "wordllama", "scripted"] = "openai_compatible"
    base_url: str | None = None  # None: OpenAI's own
    api_key: Secret | None = None
    timeout: Positive = 60.0  # seconds for one attempt
    deadline: Positive = 180.0  # seconds for one call: every attempt and the waits, time in line aside
    queue_timeout: Positive = 600.0  # seconds in line for one call: for its turn, and for what a 429 asks
    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 3  # after the first attempt, whatever it failed of
    max_concurrency: Annotated[int, msgspec.Meta(ge=1)] = 64
    requests_per_minute: Positive | None = None
    structured: bool = True  # False: the endpoint knows no `response_format`; the schema goes into the prompt
    script: str | None = None  # of kind scripted: the file with what it says
    prices: Prices | None = None  # instead of the published ones
    wire: Literal["direct", "aiohttp", "openai"] = "direct"  # the SDK takes ten times the processor time


class Model(Protocol):
    """Answers questions. A failure is a Fault (decision 26): a TimeFault, or a ForeignFault that says if it may pass."""

    async def complete(self, ask: CompletionRequest) -> Completion: ...

    async def close(self) -> None: ...


class Embedder(Protocol):
    """Places texts in a space. It fails as a Model does."""

    async def embed(
        self, texts: Sequence[str], *, model: str, dimensions: int | None = None
    ) -> Embeddings: ...

    async def close(self) -> None: ...


Config = Mapping[str, Any] | None
Embed = Callable[[Sequence[str]], Awaitable[Embeddings]]


class Providers(Protocol):
    """
    Who may be asked here: `provider_config` and `model_config` in, somebody to ask out (decision 39).

    What cannot be is an InvalidRequest that places it among a check's arguments. Choosing the same again is quick.
    """

    @property
    def remote(self) -> bool:
        """Whether anything that was chosen so far is asked over the network."""
        ...

    def model(self, provider_config: Config, model_config: Config) -> tuple[Model, CompletionRequest]:
        """Whom to ask, and the question but for what it says; its `timeout` is for an answer and its repair."""
        ...

    def embedding(self, provider_config: Config, model_config: Config) -> tuple[Embed, str]:
        """What places texts in a space, and the name of the model it was asked for."""
        ...

    async def close(self) -> None:
        """Let go of this event loop's connections."""
        ...


class RepeatCounter:
    """How often the same was asked before in this run: a cached reply answers it once (`Ask.repeat`)."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def of(self, question: Any) -> int:
        key = hash(question)
        self._seen[key] = many = self._seen.get(key, -1) + 1
        return many


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What a check may ask of its host. It grows with the checks that need something."""

    clock: Clock = SystemClock()
    limits: Limits = Limits()
    providers: Providers | None = None
    repeats: RepeatCounter | None = None  # of one run; None where nothing is cached
    persists_requests: bool = False  # what is asked is written down as it came, and may hold no secret

    async def close(self) -> None:
        """On every event loop that used them, when it is done with them."""
        if self.providers is not None:
            await self.providers.close()


# The record: three drawers, one transaction.

RunStatus = Literal[
    "pending", "running", "cancelling", "paused", "waiting-approval", "waiting-input", "waiting-external",
    "completed", "failed", "cancelled",
]  # fmt: skip
ACTIVE: frozenset[RunStatus] = frozenset({"pending", "running", "cancelling"})  # somebody is at work on it
CLOSED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})  # nothing follows


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run without reading its log. Nothing here is content."""

    id: str
    tenant: str
    kind: str
    status: RunStatus = "pending"
    name: str = ""  # what it is filed under: an experiment, a suite
    head: dict[str, Any] = {}  # small: counts, digests, links to other runs
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    events: int = 0  # how many it has: the sequence the next one gets
    holder: str | None = None  # who conducts it, as long as `leased` lies ahead
    leased: datetime | None = None
    granted: datetime | None = None  # when the lease was granted or renewed
    takeovers: int = 0  # from holders that were lost, with nothing recorded since


class Event(msgspec.Struct, frozen=True):
    """One fact of a run, as stored: never content. The store gives the sequence, gapless from 0."""

    type: str
    data: bytes  # JSON
    at: datetime
    sequence: int = -1


class ChunkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a piece of evidence lies: under a key, covering the ordinals first to last."""

    kind: str
    key: str = ""
    first: int = 0
    last: int = 0
    size: int = 0


class EvidenceChunk(msgspec.Struct, frozen=True, kw_only=True):
    """
    Evidence as it is kept: one thing under a key, or many of a numbered row as lines.

    A million results are some thousand pieces of kind `results`; about 1 MB each is a good size. Pieces of one key do not overlap.
    """

    kind: str
    key: str = ""
    first: int = 0
    last: int = 0
    data: bytes

    def lines(self, start: int = 0, stop: int | None = None) -> list[bytes]:
        """The lines numbered start to stop (not included), of those that lie in this piece."""
        lines = self.data.split(b"\n")
        return lines[max(0, start - self.first) : None if stop is None else max(0, stop - self.first)]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A named thing that may change: its version is 1 when made and one more with every change."""

    tenant: str
    kind: str
    key: str
    version: int
    data: bytes
    updated: datetime


class PutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Write a document: only if it is absent (version 0), only over that version, or anyway (None)."""

    tenant: str
    kind: str
    key: str
    data: bytes
    version: int | None = 0


class DeleteDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a document: only that version, or any (None), and then it need not exist."""

    tenant: str
    kind: str
    key: str
    version: int | None


class CreateRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that begins with this entry, held by `holder` for `seconds` if one is named."""

    tenant: str
    kind: str
    name: str = ""
    holder: str | None = None
    seconds: float = 30.0


class RunUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What one run gains in a batch, and what must be true for that."""

    run: str
    opens: CreateRun | None = None
    expected: int | None = None  # the sequence its first event must get
    holder: str | None = None  # who must still hold it
    when: frozenset[RunStatus] | None = None  # the status it must have
    status: RunStatus | None = None
    head: dict[str, Any] | None = None
    events: Sequence[Event] = ()
    evidence: Sequence[EvidenceChunk] = ()


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """All or nothing."""

    entries: Sequence[RunUpdate] = ()
    documents: Sequence[PutDocument | DeleteDocument] = ()
    lines: Sequence[AuditEntry] = ()  # of the audit log


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs, newest first; `before` is (created, id) of the last one already seen."""

    tenant: str | None = None
    kind: str | None = None
    name: str | None = None
    statuses: frozenset[RunStatus] | None = None
    since: datetime | None = None
    until: datetime | None = None  # not included
    before: tuple[datetime, str] | None = None
    limit: int = 50


class Store(AuditLog, Reencryptable, Protocol):
    """
    Runs with their events and evidence, and documents beside them.

    Raises Conflict when a batch does not fit, Broken when the world does not let it write or read. A commit that returned is durable.
    One whose caller was cancelled, or that raised Broken, is there whole or not at all.
    """

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        """Write all of it or nothing; of each entry's run, how many events it has now."""
        ...

    async def run(self, run: str, *, tenant: str | None = None) -> Run | None:
        """Another tenant's run is as absent as an unknown one; None asks for the host itself."""
        ...

    async def runs(self, query: RunQuery) -> list[Run]: ...

    async def events(self, run: str, *, after: int = -1, limit: int = 1000) -> list[Event]: ...

    async def wait_for_events(self, run: str, *, after: int, timeout: float) -> bool:
        """True once there is an event after that sequence, or none will come; False when the time is up."""
        ...

    async def chunk_infos(
        self, run: str, kind: str, *, after: ChunkInfo | None = None, limit: int = 1000
    ) -> list[ChunkInfo]:
        """What evidence there is of a kind, by key and ordinal, without reading it."""
        ...

    async def chunks(
        self, run: str, kind: str, *, key: str = "", start: int = 0, stop: int | None = None, limit: int = 4
    ) -> list[EvidenceChunk]:
        """The next pieces under a key that hold anything from start on; go on from `last + 1`, until none comes."""
        ...

    async def contents(self, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """What lies under these keys, where anything does: of each its first piece."""
        ...

    async def erase(self, run: str, *, kind: str | None = None, limit: int = 25) -> int:
        """Delete some evidence of a run; how much. Call it until it says 0."""
        ...

    async def document(self, tenant: str, kind: str, key: str) -> Document | None: ...

    async def documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Document]: ...

    async def sweep(self, kind: str, *, before: datetime, limit: int = 1000) -> int:
        """Delete some documents of a kind not written since, of all tenants; how many."""
        ...

    async def claim(self, run: str, holder: str, *, seconds: float) -> Run | None:
        """
        Hold an active run that nobody holds, or no more; None if somebody does or it is not active.

        Taking a run from a holder whose lease ran out is a takeover, and is counted.
        """
        ...

    async def adopt(
        self, holder: str, *, seconds: float, limit: int = 10, sparing: int | None = None
    ) -> list[Run]:
        """
        Claim active runs nobody holds, or no more: a crashed process's, oldest first.

        A lease that was granted in the future stems from before the clock was set back: it is counted anew from now.
        Runs with exactly `sparing` takeovers are left.
        """
        ...

    async def renew(self, holder: str, *, seconds: float) -> dict[str, RunStatus]:
        """The heartbeat: hold on to all one holds. What is not in the answer is lost; `cancelling` is a request."""
        ...

    async def release(self, run: str, holder: str) -> None: ...

    async def close(self) -> None:
        """Finish what was given to commit, then let go."""
        ...


class Engine(Protocol):
    """Does units of work, here or elsewhere. What crosses it is a name and bytes, never a closure."""

    def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What each unit comes to, in the order they end; a unit that was given up may be done again."""
        ...
