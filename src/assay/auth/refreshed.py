"""A value of an issuer, such as its key set: cached, and fetched again when it may have changed."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from assay.concurrency.event_loop import run_guarded
from assay.errors import Refusal, Unavailable

log = logging.getLogger("assay.auth")

T = TypeVar("T")
Tick = Callable[[], float]


class Ages(NamedTuple):
    """Seconds: after which a value is fetched again, for which it is used at most, and between two fetches."""

    fresh: float
    stale: float
    retry: float


class Refreshed(Generic[T]):
    """At most one fetch runs at a time, and at most one in `retry` seconds. `name` is what log lines call the value."""

    def __init__(
        self, name: str, fetch: Callable[[], Awaitable[T]], ages: Ages, *, tick: Tick = time.monotonic
    ) -> None:
        self._name, self._fetch, self._ages, self._tick = name, fetch, ages, tick
        self._value: T | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self.fetching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Fetch the value. A failure is raised, so that the start of the server can report it."""
        self._tried_at = began = self._tick()
        self._value, self._fetched_at = await self._fetch(), began

    async def get(self, suffices: Callable[[T], bool] = lambda _: True) -> T:
        """
        Return the cached value at once if it suffices. Otherwise fetch it first, unless a fetch was just made.

        The value that was fetched need not suffice. Without one that may still be used: Unavailable.
        """
        age = self._tick() - self._fetched_at
        if age < self._ages.stale and self._value is not None and suffices(self._value):
            if age >= self._ages.fresh:
                self._renew()
            return self._value
        if (fetching := self._renew()) is not None:
            await asyncio.wait([fetching])
        if self._value is None or self._tick() - self._fetched_at >= self._ages.stale:
            raise Unavailable(f"{self._name} cannot be fetched", retry_after=self._ages.retry)
        return self._value

    def _renew(self) -> asyncio.Task[None] | None:
        if self.fetching is not None and not self.fetching.done():
            return self.fetching
        if self._tick() - self._tried_at < self._ages.retry:
            return None
        self._tried_at = self._tick()
        self.fetching = asyncio.create_task(self._refetch())
        return self.fetching

    async def _refetch(self) -> None:
        trouble = await run_guarded(self._name, self.open(), Refusal)
        if isinstance(trouble, Refusal):  # the cached value is used until it is stale
            log.warning("%s: %s", self._name, trouble)
