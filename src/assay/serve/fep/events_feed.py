"""
The event feed of an evaluation: read once, framed once, and sent to all its followers (FEP 5.2, EvaluationProgress).

A recorded event becomes the results of its cases, `id: 5.0`, `id: 5.1`, …, and then their progress, `id: 5`. So a
cursor is a sequence number and the number of results received of that event, and a follower misses nothing and gets
nothing twice.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from assay.cache import ByteCache
from assay.cases.outcomes import RESULTS
from assay.concurrency.event_loop import KeyedLock
from assay.errors import InvalidRequest, Problem
from assay.fep.records.run_header import ShardCompleted
from assay.ports import Event, Run, Store
from assay.protocol.operations import EvaluationProgress, OperationStatus
from assay.serve.web.shared_feed import SharedFeed, shared_feed

PAGE = 20  # events that are read from the store at once
# Bytes of older frames that are made and sent at once. A client that does not read holds at most one batch.
BATCH = 128 * 1024
CACHED = 16 << 20  # bytes of the batches of all runs that are kept for other followers
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


class FrameBatch(NamedTuple):
    """One frame or consecutive ones, and the position of a follower that has them."""

    frames: bytes
    sequence: int
    results: int


class EvaluationFeeds:
    """One feed per run, as long as it has followers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches = ByteCache[FrameBatch](CACHED)
        self._turns = KeyedLock()
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

    async def follow(self, run: Run, cursor: Cursor) -> AsyncGenerator[bytes]:
        """The frames after the cursor, to the end of the run."""
        with shared_feed(
            self._feeds, run.id, lambda: EvaluationFeed(self._store, run, self._turns, self._batches)
        ) as feed:
            async for frames in feed.read(cursor):
                yield frames


class EvaluationFeed(SharedFeed[bytes]):
    """It also has the number of completed cases after every event."""

    def __init__(self, store: Store, run: Run, turns: KeyedLock, batches: ByteCache[FrameBatch]) -> None:
        super().__init__(store, run, turns)
        self._done: list[int] = []  # cases, after each event
        self._batches, self._made = batches, set[tuple[str, int, int]]()

    def close(self) -> None:
        super().close()
        for key in self._made:  # the results may be erased before the next follower comes
            self._batches.drop(key, self._run.tenant)
        self._made.clear()

    async def read(self, cursor: Cursor) -> AsyncIterator[bytes]:
        sequence, results, _ = cursor
        while True:
            news = self._news
            if not self._is_live or sequence >= self._next:
                if not await self._wait(news):
                    return
            elif sequence >= self._first and not results:
                if (frames := await self._take(sequence)) is not None:
                    yield frames
                    sequence += 1
            else:
                frames, sequence, results = await self._older(sequence, results)
                yield frames

    async def _older(self, sequence: int, results: int) -> FrameBatch:
        """Some frames that are not in memory, from this position on. Followers at one position share them."""
        tenant, key = self._run.tenant, (self._run.id, sequence, results)
        async with self._turns.hold(tenant):
            batch = self._batches.get(key, tenant)
            if batch is None:
                batch = await self._batch(sequence, results)
                if not self._is_closed or self.followers:
                    self._made.add(key)
                    self._batches.put(key, batch, len(batch.frames), tenant)
            return batch

    async def _batch(self, sequence: int, results: int) -> FrameBatch:
        frames: list[bytes] = []
        size, page = 0, min(PAGE, self._next - sequence)
        for event in await self._store.events(self._run.id, after=sequence - 1, limit=page):
            async with aclosing(self._frames_of(event, self._done[event.sequence], results)) as made:
                async for frame, sequence, results in made:  # the position moves on
                    frames.append(frame)
                    size += len(frame)
                    if size >= BATCH:
                        return FrameBatch(b"".join(frames), sequence, results)
        return FrameBatch(b"".join(frames), sequence, results)

    async def _prepare(self) -> None:
        while len(self._done) < self._run.events:
            for event in await self._store.events(self._run.id, after=len(self._done) - 1):
                self._count(event)
        self._first = len(self._done)

    async def _add(self, event: Event) -> None:
        self._count(event)
        frames = b"".join([frame async for frame, *_ in self._frames_of(event, self._done[-1])])
        self._keep(frames, len(frames))

    def _count(self, event: Event) -> None:
        self._done.append((self._done[-1] if self._done else 0) + _cases(event))

    async def _frames_of(self, event: Event, done: int, skip: int = 0) -> AsyncGenerator[FrameBatch]:
        """The results of the event's cases after the first `skip`, read from the store, and the progress after them."""
        if event.type == "evaluation.shard":
            shard = _shard(event.data)
            start, stop = shard.first + skip, shard.last + 1
            while start < stop and (
                chunks := await self._store.chunks(self._run.id, RESULTS, start=start, stop=stop, limit=1)
            ):
                for chunk in chunks:
                    start = max(start, chunk.first)
                    for line in chunk.lines(start, stop):
                        at = start - shard.first
                        yield FrameBatch(_result(event.sequence, at, start, line), event.sequence, at + 1)
                        start += 1
        progress = EvaluationProgress(
            evaluation_id=self._run.id,
            status=_ENDS.get(event.type.rpartition(".")[2], "running"),
            completed_test_cases=done,
            total_test_cases=self._run.metadata.get("total", 0),
        )
        frame = b"id: %d\nevent: progress\ndata: %b\n\n" % (event.sequence, _encode(progress))
        yield FrameBatch(frame, event.sequence + 1, 0)


def _cases(event: Event) -> int:
    """The number of cases that an event completes."""
    return _shard(event.data).summary.total_test_cases if event.type == "evaluation.shard" else 0


def _result(sequence: int, at: int, index: int, line: bytes) -> bytes:
    return b'id: %d.%d\nevent: result\ndata: {"index":%d,"result":%b}\n\n' % (sequence, at, index, line)
