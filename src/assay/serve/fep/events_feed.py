"""
A run's news for all who follow it here: read once, framed once, and sent to each (FEP 5.2, EvaluationProgress).

An event of the record becomes the results of its cases, `id: 5.0`, `id: 5.1`, …, and then the progress they make, `id: 5`.
So a place in the stream is a sequence number and how many of the next one's results were had, and nothing is missed or repeated.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from assay.errors import EnvironmentFailure, InvalidRequest, Problem, Refusal
from assay.fep.run_header import RESULTS, ShardCompleted
from assay.ports import CLOSED, Event, Run, Store
from assay.ports.supervise import run_guarded
from assay.protocol.operations import EvaluationProgress, OperationStatus
from assay.runs.follow import follow
from assay.serve.web.keyed_lock import KeyedLock
from assay.serve.web.shared_feed import refcounted

KEPT = 4 * 1024 * 1024  # bytes of frames at the end of a run, for those who are nearly there
PAGE = 100
_encode = msgspec.json.Encoder().encode
_shard = msgspec.json.Decoder(ShardCompleted).decode
_ENDS: dict[str, OperationStatus] = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


class Cursor(NamedTuple):
    """Where a follower is: the next event, and how many of its results it has had; and how it said so."""

    sequence: int = 0
    results: int = 0
    said: str = ""


def cursor_of(text: str | None) -> Cursor:
    """From a Last-Event-ID."""
    if not text:
        return Cursor()
    sequence, dot, result = text.partition(".")
    if not (sequence.isascii() and sequence.isdigit() and len(sequence) < 16):
        raise _no_event(text)
    if not dot:
        return Cursor(int(sequence) + 1, said=text)
    if not (result.isascii() and result.isdigit() and len(result) < 16):
        raise _no_event(text)
    return Cursor(int(sequence), int(result) + 1, text)


def _no_event(text: str) -> InvalidRequest:
    said = f"{text[:40]!r} is the id of no event of this run; without one it is told from the beginning"
    return InvalidRequest(Problem("Last-Event-ID", said))


class EvaluationFeeds:
    """One feed a run, as long as somebody follows it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = KeyedLock()  # of a tenant's followers, one by one: together they keep others waiting
        self._feeds: dict[str, EvaluationFeed] = {}

    def close(self) -> None:
        """Everybody is sent home; they know where they were."""
        for feed in self._feeds.values():
            feed.close()

    async def check(self, run: Run, place: Cursor) -> None:
        """An id that was never given is refused."""
        if place.sequence > run.events:
            raise _no_event(place.said)
        if place.results:
            events = await self._store.events(run.id, after=place.sequence - 1, limit=1)
            if not events or place.results > _cases(events[0]):
                raise _no_event(place.said)

    async def follow(self, run: Run, place: Cursor) -> AsyncIterator[bytes]:
        """Frames from this place on, to the end of the run."""
        with refcounted(self._feeds, run.id, lambda: EvaluationFeed(self._store, run, self._turns)) as feed:
            async for frames in feed.read(place):
                yield frames


class EvaluationFeed:
    """The end of one run, framed; and how far the run was at every event."""

    def __init__(self, store: Store, run: Run, turns: KeyedLock) -> None:
        self._store, self._run, self._turns = store, run, turns
        self._done: list[int] = []  # cases, after each event
        self._frames: deque[bytes] = deque()
        self._size = self._first = 0  # of the frames: their bytes, and the first one's sequence
        self._live = self._ended = False
        self._trouble: Refusal | None = None
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._read())
        self.followers = 0

    def close(self) -> None:
        self._pump.cancel()
        self._ended = True
        self._ring()

    @property
    def _next(self) -> int:
        return len(self._done)

    async def read(self, place: Cursor) -> AsyncIterator[bytes]:
        sequence, skip, _ = place
        while True:
            news = self._news
            if self._live and sequence < self._next:
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
                        parts = await self._framed(event, self._done[event.sequence])
                    yield b"".join(parts[skip:])
                    sequence, skip = event.sequence + 1, 0
            elif self._trouble is not None:
                raise self._trouble
            elif self._ended:
                return
            else:
                await news.wait()

    async def _read(self) -> None:
        trouble = await run_guarded("feed", self._reading(), Refusal)
        if trouble is not None:  # those who follow are told, and may follow again from where they are
            self._trouble = (
                trouble
                if isinstance(trouble, Refusal)
                else EnvironmentFailure("the run cannot be followed now")
            )
        self._ring()

    async def _reading(self) -> None:
        """What is recorded is counted; what is new from here on is framed."""
        while self._next < self._run.events:
            for event in await self._store.events(self._run.id, after=self._next - 1):
                self._count(event)
        self._first, self._live = self._next, True
        self._ring()
        if self._run.status not in CLOSED:
            async for event in follow(self._store, self._run.id, after=self._next - 1):
                if event is not None:
                    await self._add(event)
        self._ended = True

    async def _add(self, event: Event) -> None:
        done = (self._done[-1] if self._done else 0) + _cases(event)
        frames = b"".join(await self._framed(event, done))
        self._frames.append(frames)
        self._size += len(frames)
        while self._size > KEPT and len(self._frames) > 1:
            self._size -= len(self._frames.popleft())
            self._first += 1
        self._done.append(done)
        self._ring()

    def _count(self, event: Event) -> None:
        self._done.append((self._done[-1] if self._done else 0) + _cases(event))

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _framed(self, event: Event, done: int) -> list[bytes]:
        """The results of its cases, filled in from the evidence, and the progress."""
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
            total_test_cases=self._run.head.get("total", 0),
        )
        frames.append(b"id: %d\nevent: progress\ndata: %b\n\n" % (event.sequence, _encode(progress)))
        return frames


def _cases(event: Event) -> int:
    """How many cases an event says are done."""
    return _shard(event.data).summary.total_test_cases if event.type == "evaluation.shard" else 0


def _result(sequence: int, at: int, index: int, line: bytes) -> bytes:
    return b'id: %d.%d\nevent: result\ndata: {"index":%d,"result":%b}\n\n' % (sequence, at, index, line)
