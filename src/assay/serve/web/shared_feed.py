"""The feed of a run: the first follower opens it, later followers share it, and the last one closes it."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from assay.concurrency.event_loop import KeyedLock, run_guarded
from assay.errors import EnvironmentFailure, Refusal
from assay.ports import CLOSED, Event, Run, Store, store_patience
from assay.runs.log_reader import follow

MAX_BYTES = 4 * 1024 * 1024  # of the latest frames, kept for followers that are almost up to date
T = TypeVar("T")


class SharedFeed(ABC, Generic[T]):
    """The frames of the latest events of one run: one for each event, read once and encoded once."""

    def __init__(self, store: Store, run: Run, turns: KeyedLock) -> None:
        """`turns`: the followers of a tenant take turns, so that they do not hold up other tenants."""
        self._store, self._run, self._turns = store, run, turns
        self._frames: deque[tuple[T, int]] = deque()  # with the bytes of each
        self._size, self._first = 0, run.events  # of the frames: their bytes, and the first one's sequence
        self._is_live = self._is_closed = False
        self._error: Refusal | None = None
        self._news = asyncio.Event()
        self._tasks = [asyncio.create_task(self._read())]
        self.followers = 0

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._is_closed = True
        self._notify()

    @abstractmethod
    async def _prepare(self) -> None:
        """Called before the first new event."""

    @abstractmethod
    async def _add(self, event: Event) -> None:
        """Make the frame of a new event, and keep it."""

    @property
    def _next(self) -> int:
        return self._first + len(self._frames)

    def _keep(self, frame: T, size: int) -> None:
        self._frames.append((frame, size))
        self._size += size
        while self._size > MAX_BYTES and len(self._frames) > 1:
            self._size -= self._frames.popleft()[1]
            self._first += 1
        self._notify()

    async def _take(self, sequence: int) -> T | None:
        """The frame of an event; None: it is no longer in memory."""
        async with self._turns.hold(self._run.tenant):
            if self.followers > 1:  # or all of them send in one iteration of the event loop
                await asyncio.sleep(0)
            at = sequence - self._first
            return self._frames[at][0] if at >= 0 else None

    async def _wait(self, news: asyncio.Event) -> bool:
        """Wait for news; False: there will be none."""
        if self._error is not None:
            raise self._error
        if not self._is_closed:
            await news.wait()
            return True
        return False

    async def _read(self) -> None:
        store_patience.set(None)  # a short outage does not end a stream
        self._fail(await run_guarded("feed", self._reading(), Refusal))

    async def _reading(self) -> None:
        await self._prepare()
        self._is_live = True
        self._notify()
        if self._run.status not in CLOSED:
            async for event in follow(self._store, self._run.id, after=self._next - 1):
                if event is not None:
                    await self._add(event)
        self._is_closed = True

    def _fail(self, error: Exception | None) -> None:
        """Followers get an error, and can reconnect at their last event."""
        if error is not None:
            unreadable = EnvironmentFailure("the events of the run cannot be read for now")
            self._error = error if isinstance(error, Refusal) else unreadable
        self._notify()

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


F = TypeVar("F", bound=SharedFeed[Any])


@contextmanager
def shared_feed(feeds: dict[str, F], run: str, make: Callable[[], F]) -> Generator[F]:
    feed = feeds.get(run)
    if feed is None:
        feed = feeds[run] = make()
    feed.followers += 1
    try:
        yield feed
    finally:
        feed.followers -= 1
        if not feed.followers:
            feed.close()
            feeds.pop(run, None)
