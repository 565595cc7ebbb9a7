"""
The event feed of an evaluation: read once, framed once, and sent to all its followers (FEP 5.2, EvaluationProgress).

A recorded event becomes the results of its cases, `id: 5.0`, `id: 5.1`, …, and then their progress, `id: 5`. So a
cursor is a sequence number and the number of results received of that event, and a follower misses nothing and gets
nothing twice.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from assay.cases.outcomes import RESULTS
from assay.concurrency.event_loop import KeyedLock, run_guarded
from assay.errors import EnvironmentFailure, InvalidRequest, Problem, Refusal
from assay.fep.records.run_header import ShardCompleted
from assay.ports import CLOSED, Event, Run, Store, store_patience
from assay.protocol.operations import EvaluationProgress, OperationStatus
from assay.runs.log_reader import follow
from assay.serve.web.shared_feed import shared_feed

MAX_BYTES = 4 * 1024 * 1024  # of the latest frames, kept for followers that are almost up to date
PAGE = 100
_encode = msgspec.json.Encoder().encode
_shard = msgspec.json.Decoder(ShardCompleted).decode
_ENDS: dict[str, OperationStatus] = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


class Cursor(NamedTuple):
    """The position of a follower: the next event, and how many of its results it has. `text` is the Last-Event-ID."""

    sequence: int = 0
    results: int = 0
    text: str = ""


def cursor_of(text: str | None) -> Cursor:
    """The cursor after a Last-Event-ID; without one, the beginning."""
    if not text:
        return Cursor()
    sequence, dot, result = text.partition(".")
    if not (sequence.isascii() and sequence.isdigit() and len(sequence) < 16):
        raise _no_event(text)
    if not dot:
        return Cursor(int(sequence) + 1, text=text)
    if not (result.isascii() and result.isdigit() and len(result) < 16):
        raise _no_event(text)
    return Cursor(int(sequence), int(result) + 1, text)


def _no_event(text: str) -> InvalidRequest:
    message = (
        f"expected the id of an event of this run, got {text[:40]!r}; without one the stream starts "
        "at the beginning"
    )
    return InvalidRequest(Problem("Last-Event-ID", message))


class EvaluationFeeds:
    """One feed per run, as long as it has followers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = (
            KeyedLock()
        )  # the followers of a tenant take turns, so that they do not hold up other tenants
        self._feeds: dict[str, EvaluationFeed] = {}

    def close(self) -> None:
        """End all streams. Clients know their last event and can reconnect."""
        for feed in self._feeds.values():
            feed.close()

    async def check(self, run: Run, cursor: Cursor) -> None:
        """Refuse a cursor that no event of the run has."""
        if cursor.sequence > run.events:
            raise _no_event(cursor.text)
        if cursor.results:
            events = await self._store.events(run.id, after=cursor.sequence - 1, limit=1)
            if not events or cursor.results > _cases(events[0]):
                raise _no_event(cursor.text)

    async def follow(self, run: Run, cursor: Cursor) -> AsyncIterator[bytes]:
        """The frames after the cursor, to the end of the run."""
        with shared_feed(self._feeds, run.id, lambda: EvaluationFeed(self._store, run, self._turns)) as feed:
            async for frames in feed.read(cursor):
                yield frames


class EvaluationFeed:
    """The latest frames of one run; and the number of completed cases after every event."""

    def __init__(self, store: Store, run: Run, turns: KeyedLock) -> None:
        self._store, self._run, self._turns = store, run, turns
        self._done: list[int] = []  # cases, after each event
        self._frames: deque[bytes] = deque()
        self._size = self._first = 0  # of the frames: their bytes, and the first one's sequence
        self._is_live = self._is_closed = False
        self._error: Refusal | None = None
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._read())
        self.followers = 0

    def close(self) -> None:
        self._pump.cancel()
        self._is_closed = True
        self._notify()

    @property
    def _next(self) -> int:
        return len(self._done)

    async def read(self, cursor: Cursor) -> AsyncIterator[bytes]:
        sequence, skip, _ = cursor
        while True:
            news = self._news
            if self._is_live and sequence < self._next:
                if sequence >= self._first and not skip:
                    async with self._turns.hold(self._run.tenant):
                        if self.followers > 1:  # or all of them send in one iteration of the event loop
                            await asyncio.sleep(0)
                        at = sequence - self._first
                        frames = self._frames[at] if at >= 0 else None
                    if frames is not None:
                        yield frames
                        sequence += 1
                    continue
                page = min(PAGE, self._next - sequence)
                for event in await self._store.events(self._run.id, after=sequence - 1, limit=page):
                    async with self._turns.hold(self._run.tenant):
                        parts = await self._frames_of(event, self._done[event.sequence])
                    yield b"".join(parts[skip:])
                    sequence, skip = event.sequence + 1, 0
            elif self._error is not None:
                raise self._error
            elif self._is_closed:
                return
            else:
                await news.wait()

    async def _read(self) -> None:
        store_patience.set(None)  # a short outage does not end a stream
        trouble = await run_guarded("feed", self._reading(), Refusal)
        if trouble is not None:  # followers get an error and can reconnect at their cursor
            self._error = (
                trouble
                if isinstance(trouble, Refusal)
                else EnvironmentFailure("the events of the run cannot be read for now")
            )
        self._notify()

    async def _reading(self) -> None:
        """Count the recorded events, then frame the new ones."""
        while self._next < self._run.events:
            for event in await self._store.events(self._run.id, after=self._next - 1):
                self._count(event)
        self._first, self._is_live = self._next, True
        self._notify()
        if self._run.status not in CLOSED:
            async for event in follow(self._store, self._run.id, after=self._next - 1):
                if event is not None:
                    await self._add(event)
        self._is_closed = True

    async def _add(self, event: Event) -> None:
        done = (self._done[-1] if self._done else 0) + _cases(event)
        frames = b"".join(await self._frames_of(event, done))
        self._frames.append(frames)
        self._size += len(frames)
        while self._size > MAX_BYTES and len(self._frames) > 1:
            self._size -= len(self._frames.popleft())
            self._first += 1
        self._done.append(done)
        self._notify()

    def _count(self, event: Event) -> None:
        self._done.append((self._done[-1] if self._done else 0) + _cases(event))

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _frames_of(self, event: Event, done: int) -> list[bytes]:
        """The results of the event's cases, read from the store, and the progress after it."""
        frames: list[bytes] = []
        if event.type == "evaluation.shard":
            shard = _shard(event.data)
            start, stop = shard.first, shard.last + 1
            while start < stop and (
                pieces := await self._store.chunks(self._run.id, RESULTS, start=start, stop=stop)
            ):
                for piece in pieces:
                    start = max(start, piece.first)
                    for line in piece.lines(start, stop):
                        frames.append(_result(event.sequence, len(frames), start, line))
                        start += 1
        progress = EvaluationProgress(
            evaluation_id=self._run.id,
            status=_ENDS.get(event.type.rpartition(".")[2], "running"),
            completed_test_cases=done,
            total_test_cases=self._run.metadata.get("total", 0),
        )
        frames.append(b"id: %d\nevent: progress\ndata: %b\n\n" % (event.sequence, _encode(progress)))
        return frames


def _cases(event: Event) -> int:
    """The number of cases that an event completes."""
    return _shard(event.data).summary.total_test_cases if event.type == "evaluation.shard" else 0


def _result(sequence: int, at: int, index: int, line: bytes) -> bytes:
    return b'id: %d.%d\nevent: result\ndata: {"index":%d,"result":%b}\n\n' % (sequence, at, index, line)
