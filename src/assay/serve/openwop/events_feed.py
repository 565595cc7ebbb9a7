"""A run's events for all who follow it here: read once, encoded once, and sent to each (contract §4.4)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from assay.agenteval.progress import progress_of
from assay.errors import EnvironmentFailure, Refusal
from assay.ports import CLOSED, Event, Run, Store
from assay.ports.supervise import run_guarded
from assay.runs.annotations import AnnotationCursor
from assay.runs.event_docs import read_page, with_content
from assay.runs.follow import follow
from assay.runs.stream_modes import TERMINAL
from assay.serve.web.keyed_lock import KeyedLock
from assay.serve.web.shared_feed import refcounted

KEPT = 4 * 1024 * 1024  # bytes of the end of a run, for those who are nearly there
BEHIND = 1_000  # frames without an id that may wait for a slow follower
EVERY = 1.0  # seconds after which a feed looks for what was said by way of another process
_encode = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """An event on its way; one without a sequence is not in the log: progress, an annotation."""

    sequence: int | None
    type: str
    data: bytes


class RunFeeds:
    """One feed a run, as long as somebody follows it. `hearing`: what people say of a run is told to who follows it."""

    def __init__(self, store: Store, *, hearing: bool = True) -> None:
        self._store, self._hearing = store, hearing
        self._turns = KeyedLock()  # of a tenant's followers, one by one: together they keep others waiting
        self._feeds: dict[str, RunFeed] = {}

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

    def hear(self, run: str) -> None:
        """Something was said of a run: its feed need not wait to look."""
        if (feed := self._feeds.get(run)) is not None:
            feed.said.set()

    async def follow(self, run: Run, after: int) -> AsyncGenerator[Frame]:
        """Each event after that one once, in order, to the end of the run or as long as this host goes on."""
        with refcounted(
            self._feeds, run.id, lambda: RunFeed(self._store, run, self._turns, hearing=self._hearing)
        ) as feed:
            async for frame in feed.read(after):
                yield frame


class Ephemeral(NamedTuple):
    """A frame without a sequence, and the event it comes before."""

    before: int
    frame: Frame


class RunFeed:
    """The end of one run, encoded."""

    def __init__(self, store: Store, run: Run, turns: KeyedLock, *, hearing: bool) -> None:
        self._store, self._run, self._turns = store, run, turns
        self._frames: deque[Frame] = deque()
        self._size, self._first = 0, run.events  # of the frames: their bytes, and the first one's sequence
        self._asides: deque[Ephemeral] = deque(maxlen=BEHIND)
        self._told = 0
        self._heard = AnnotationCursor(store, run) if hearing and run.status not in CLOSED else None
        self._listening = asyncio.Lock()
        self._open = self._ended = False
        self._trouble: Refusal | None = None
        self._news = asyncio.Event()
        self._work = [asyncio.create_task(self._read())]
        self.said = asyncio.Event()
        self.followers = 0

    def close(self) -> None:
        for task in self._work:
            task.cancel()
        self._ended = True
        self._ring()

    def tell(self, frame: Frame) -> None:
        self._told += 1
        self._asides.append(Ephemeral(self._next, frame))
        self._ring()

    @property
    def _next(self) -> int:
        return self._first + len(self._frames)

    async def read(self, after: int) -> AsyncIterator[Frame]:
        sequence, told = after + 1, self._told
        while True:
            news = self._news
            waiting = min(self._told - told, len(self._asides))
            if waiting and self._asides[-waiting].before <= sequence:
                told = self._told - waiting + 1
                yield self._asides[-waiting].frame
            elif self._open and sequence < self._first:
                for frame in await self._older(sequence):
                    yield frame
                    sequence += 1
            elif self._open and sequence < self._next:
                async with self._turns.hold(self._run.tenant):
                    if self.followers > 1:  # or all of them send in one iteration of the event loop
                        await asyncio.sleep(0)
                    at = sequence - self._first
                    frame = self._frames[at] if at >= 0 else None
                if frame is not None:
                    yield frame
                    sequence += 1
            elif self._trouble is not None:
                raise self._trouble
            elif self._ended:
                return
            else:
                await news.wait()

    async def _older(self, sequence: int) -> list[Frame]:
        """Some of those that are not at hand any more."""
        some = min(100, self._first - sequence)
        async with self._turns.hold(self._run.tenant):
            docs = await read_page(self._store, self._run.id, after=sequence - 1, limit=some)
            return [Frame(one["sequence"], one["type"], _encode(one)) for one in docs]

    async def _read(self) -> None:
        self._stumble(await run_guarded("feed", self._reading(), Refusal))

    async def _reading(self) -> None:
        if self._heard is not None:
            await self._heard.news()  # what was said before anybody followed
            self._work.append(asyncio.create_task(self._listen()))
        self._open = True
        self._ring()
        if self._run.status not in CLOSED:
            async for event in follow(self._store, self._run.id, after=self._first - 1):
                if event is not None:
                    await self._add(event)
        self._ended = True

    def _stumble(self, trouble: Exception | None) -> None:
        """Those who follow are told, and may follow again from where they are."""
        if trouble is not None:
            self._trouble = (
                trouble
                if isinstance(trouble, Refusal)
                else EnvironmentFailure("the run cannot be followed now")
            )
        self._ring()

    async def _add(self, event: Event) -> None:
        if event.type in TERMINAL:
            await self._hear()  # nothing is told behind the last event
        (one,) = await with_content(self._store, self._run.id, [event])
        frame = Frame(event.sequence, event.type, _encode(one))
        self._frames.append(frame)
        self._size += len(frame.data)
        while self._size > KEPT and len(self._frames) > 1:
            self._size -= len(self._frames.popleft().data)
            self._first += 1
        if (step := progress_of(self._run, event)) is not None:
            self.tell(Frame(None, "progress", step))
        self._ring()

    async def _listen(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self.said.wait()
            if (trouble := await run_guarded("feed", self._hear(), Refusal)) is not None:
                self._stumble(trouble)
                return

    async def _hear(self) -> None:
        """What people said meanwhile, to whichever process, once and as it is kept."""
        if self._heard is None:
            return
        async with self._listening:
            self.said.clear()
            for document in await self._heard.news():
                self.tell(Frame(None, "run.annotated", document.data))

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
