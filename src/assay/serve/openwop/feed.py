"""A run's events for all who follow it here: read once, encoded once, and sent to each (contract §4.4)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple

import msgspec

from assay.errors import Refusal
from assay.ports import CLOSED, Run, Store
from assay.runs.follow import follow
from assay.runs.reading import document, documents

KEPT = 4 * 1024 * 1024  # bytes of the end of a run, for those who are nearly there
BEHIND = 1_000  # frames without an id that may wait for a slow follower
_encode = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """An event on its way; one without a sequence is not in the log: progress, an annotation."""

    sequence: int | None
    type: str
    data: bytes


class LogFeeds:
    """One feed a run, as long as somebody follows it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._feeds: dict[str, LogFeed] = {}

    def close(self) -> None:
        """Everybody is sent home; they know where they were."""
        for feed in self._feeds.values():
            feed.close()

    @property
    def followed(self) -> int:
        """How many runs somebody follows."""
        return len(self._feeds)

    def tell(self, run: str, type: str, data: bytes) -> None:
        """Something that is not in the log, to those who follow now."""
        if (feed := self._feeds.get(run)) is not None:
            feed.tell(Frame(None, type, data))

    async def follow(self, run: Run, after: int) -> AsyncGenerator[Frame]:
        """Each event after that one once, in order, to the end of the run or as long as this host goes on."""
        feed = self._feeds.get(run.id)
        if feed is None:
            feed = self._feeds[run.id] = LogFeed(self._store, run)
        feed.followers += 1
        try:
            async for frame in feed.read(after):
                yield frame
        finally:
            feed.followers -= 1
            if not feed.followers:
                feed.close()
                self._feeds.pop(run.id, None)


class LogFeed:
    """The end of one run, encoded."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store, self._run = store, run
        self._frames: deque[Frame] = deque()
        self._size, self._first = 0, run.events  # of the frames: their bytes, and the first one's sequence
        self._aside: deque[tuple[int, Frame]] = deque(maxlen=BEHIND)
        self._told = 0
        self._ended = False
        self._trouble: Refusal | None = None
        self._news = asyncio.Event()
        self._pump = asyncio.create_task(self._read())
        self.followers = 0

    def close(self) -> None:
        self._pump.cancel()
        self._ended = True
        self._ring()

    def tell(self, frame: Frame) -> None:
        self._told += 1
        self._aside.append((self._told, frame))
        self._ring()

    @property
    def _next(self) -> int:
        return self._first + len(self._frames)

    async def read(self, after: int) -> AsyncIterator[Frame]:
        sequence, told = after + 1, self._told
        while True:
            news = self._news
            if sequence < self._first:
                for frame in await self._older(sequence):
                    yield frame
                    sequence += 1
            elif sequence < self._next:
                yield self._frames[sequence - self._first]
                sequence += 1
            elif self._trouble is not None:
                raise self._trouble
            elif told < self._told:
                missed = [frame for number, frame in self._aside if number > told]
                told = self._told
                for frame in missed:
                    yield frame
            elif self._ended:
                return
            else:
                await news.wait()

    async def _older(self, sequence: int) -> list[Frame]:
        """Some of those that are not at hand any more."""
        some = min(100, self._first - sequence)
        docs = await documents(self._store, self._run.id, after=sequence - 1, limit=some)
        return [Frame(one["sequence"], one["type"], _encode(one)) for one in docs]

    async def _read(self) -> None:
        try:
            if self._run.status not in CLOSED:
                async for event in follow(self._store, self._run.id, after=self._first - 1):
                    if event is not None:
                        one = await document(self._store, self._run.id, event)
                        self._add(Frame(event.sequence, event.type, _encode(one)))
            self._ended = True
        except Refusal as trouble:
            self._trouble = trouble
        self._ring()

    def _add(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._size += len(frame.data)
        while self._size > KEPT and len(self._frames) > 1:
            self._size -= len(self._frames.popleft().data)
            self._first += 1
        self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
