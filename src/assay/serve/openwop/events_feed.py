"""The event feed of a run: read once, encoded once, and sent to all its followers (openwop-contract §4.4)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from assay.agenteval.kind import progress_of
from assay.concurrency.event_loop import KeyedLock, run_guarded
from assay.errors import InvalidRequest, Problem, Refusal
from assay.ports import CLOSED, Event, Run, Store
from assay.runs.annotations import AnnotationCursor
from assay.runs.log_reader import read_page, with_content
from assay.serve.web.shared_feed import SharedFeed, shared_feed

BEHIND = 1_000  # frames without an id, kept for slow followers
EVERY = 1.0  # seconds between two looks for annotations of other processes
_encode = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """An encoded event. Without a sequence it is not in the log: progress, an annotation."""

    sequence: int | None
    type: str
    data: bytes


class RunFeeds:
    """One feed per run, as long as it has followers. `annotations`: followers also get the annotations of the run."""

    def __init__(self, store: Store, *, annotations: bool = True) -> None:
        self._store, self._hearing = store, annotations
        self._turns = KeyedLock()
        self._feeds: dict[str, RunFeed] = {}

    def close(self) -> None:
        """End all streams. Clients know their last event and can reconnect."""
        for feed in self._feeds.values():
            feed.close()

    @property
    def active_runs(self) -> int:
        """The number of runs with followers."""
        return len(self._feeds)

    def publish(self, run: str, type: str, data: bytes) -> None:
        """Send something that is not in the log to the current followers."""
        if (feed := self._feeds.get(run)) is not None:
            feed.publish(Frame(None, type, data))

    def look_for_annotations(self, run: str) -> None:
        """An annotation was added in this process: the feed of the run looks for it at once."""
        if (feed := self._feeds.get(run)) is not None:
            feed.annotated.set()

    async def follow(self, run: Run, after: int) -> AsyncGenerator[Frame]:
        """Each event after `after`, once and in order, until the run ends or the server stops."""
        with shared_feed(
            self._feeds, run.id, lambda: RunFeed(self._store, run, self._turns, annotations=self._hearing)
        ) as feed:
            async for frame in feed.read(after):
                yield frame


class Ephemeral(NamedTuple):
    """A frame without a sequence, and the sequence of the event after it."""

    before: int
    frame: Frame


class RunFeed(SharedFeed[Frame]):
    """It also has frames that are not in the log."""

    def __init__(self, store: Store, run: Run, turns: KeyedLock, *, annotations: bool) -> None:
        super().__init__(store, run, turns)
        self._ephemeral: deque[Ephemeral] = deque(maxlen=BEHIND)
        self._last_sequence = 0
        self._annotations = AnnotationCursor(store, run) if annotations and run.status not in CLOSED else None
        self._listening = asyncio.Lock()
        self.annotated = asyncio.Event()

    def publish(self, frame: Frame) -> None:
        self._last_sequence += 1
        self._ephemeral.append(Ephemeral(self._next, frame))
        self._notify()

    async def read(self, after: int) -> AsyncIterator[Frame]:
        sequence, seen_count = after + 1, self._last_sequence
        while True:
            news = self._news
            waiting = min(self._last_sequence - seen_count, len(self._ephemeral))
            if waiting and self._ephemeral[-waiting].before <= sequence:
                seen_count = self._last_sequence - waiting + 1
                yield self._ephemeral[-waiting].frame
            elif self._is_live and sequence < self._first:
                for frame in await self._older(sequence):
                    yield frame
                    sequence += 1
            elif self._is_live and sequence < self._next:
                if (frame := await self._take(sequence)) is not None:
                    yield frame
                    sequence += 1
            elif not await self._wait(news):
                return

    async def _older(self, sequence: int) -> list[Frame]:
        """Some events that are no longer in memory."""
        some = min(100, self._first - sequence)
        async with self._turns.hold(self._run.tenant):
            docs = await read_page(self._store, self._run.id, after=sequence - 1, limit=some)
            return [Frame(doc["sequence"], doc["type"], _encode(doc)) for doc in docs]

    async def _prepare(self) -> None:
        if self._annotations is not None:
            await self._annotations.news()  # skip the annotations from before the first follower
            self._tasks.append(asyncio.create_task(self._listen()))

    async def _add(self, event: Event) -> None:
        if event.type in TERMINAL:
            await self._read_annotations()  # annotations must come before the last event
        (one,) = await with_content(self._store, self._run.id, [event])
        frame = Frame(event.sequence, event.type, _encode(one))
        self._keep(frame, len(frame.data))
        if (step := progress_of(self._run, event)) is not None:
            self.publish(Frame(None, "progress", step))

    async def _listen(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self.annotated.wait()
            if (trouble := await run_guarded("feed", self._read_annotations(), Refusal)) is not None:
                self._fail(trouble)
                return

    async def _read_annotations(self) -> None:
        """Send new annotations, of whichever process, once each and as they are stored."""
        if self._annotations is None:
            return
        async with self._listening:
            self.annotated.clear()
            for document in await self._annotations.news():
                self.publish(Frame(None, "run.annotated", document.data))


# Which events a stream carries, by its `streamMode` (openwop-contract §4.4).

MODES = ("updates", "values", "messages", "debug")
TERMINAL = frozenset({"run.completed", "run.failed", "run.cancelled"})
SUSPENDING = frozenset({"node.suspended", "interrupt.requested"})  # a buffer is flushed before the run waits
LONGEST_BUFFER = 5_000  # milliseconds

_UPDATES = frozenset(
    {
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.suspended",
        "node.dispatched",
        "artifact.created",
        "cap.breached",
    }
)
_FAMILIES = ("run.", "approval.", "clarification.", "interrupt.", "eval.", "deployment.")


def is_update(type: str) -> bool:
    """Whether the mode `updates` carries it: a step that a person who follows the run wants to see."""
    return type in _UPDATES or type.startswith(_FAMILIES)


def carries(modes: Iterable[str], type: str) -> bool:
    """Whether any of these modes carries an event of this type."""
    return any(
        mode == "debug" or (mode == "updates" and is_update(type)) or (mode == "messages" and type == MESSAGE)
        for mode in modes
    )


MESSAGE = "ai.message.chunk"


def modes_of(text: str | None) -> tuple[str, ...]:
    """Parse `streamMode`: one mode, or several with commas; `values` must be alone."""
    if text is None:
        return ("updates",)
    modes = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not set(modes) <= set(MODES) or ("values" in modes and len(modes) > 1):
        expected = (
            f"expected one of {', '.join(MODES)}, got {text[:80]!r}; `values` cannot be combined with others"
        )
        raise InvalidRequest(Problem("streamMode", expected))
    return modes


def buffer_of(text: str | None) -> int:
    """Parse `bufferMs`: 0 to 5000 milliseconds. Others are refused, not clamped (openwop-contract §12, row 11)."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= LONGEST_BUFFER):
        raise InvalidRequest(
            Problem("bufferMs", f"expected a whole number from 0 to {LONGEST_BUFFER}, got {text[:40]!r}")
        )
    return int(text)
