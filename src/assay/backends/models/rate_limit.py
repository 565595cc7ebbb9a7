"""An adaptive limit on concurrent requests and their rate, learned from 429s. Waiting requests keep their order."""

import asyncio
import heapq
import math
from collections.abc import Callable
from typing import Literal, NamedTuple


class RequestRate(NamedTuple):
    """`slots` requests at once and `rate` per second; `failed` is the concurrency that was last too high."""

    slots: float
    rate: float = math.inf
    failed: float = math.inf


PROBING = 0.1  # how much slower it goes from where it failed


def adjust(rate: RequestRate, event: Literal["answered", "throttled"], ceiling: RequestRate) -> RequestRate:
    """
    Half of the rate when throttled, and a quarter of the slots: from 64 to one in three attempts, which every call may
    make (`max_retries`). Half of the slots where they are near the last failure. Never less than one slot; back by a
    slot for each round of answers.

    One slot below where it last failed it goes on at a tenth of that. A rate comes back by a fiftieth of its ceiling
    with each answer; one that was never set stays infinite.
    """
    if event == "throttled":
        part = 2 if rate.slots > rate.failed - 1 else 4
        return RequestRate(max(1.0, rate.slots / part), max(ceiling.rate / 64, rate.rate / 2), rate.slots)
    if ceiling.slots < 1:
        return rate  # another process has the only slots for now
    step = (1.0 if rate.slots + 1 < rate.failed else PROBING) / rate.slots
    return RequestRate(
        min(ceiling.slots, rate.slots + step), min(ceiling.rate, rate.rate + ceiling.rate / 50), rate.failed
    )


def spacing(next_slot: float, now: float, rate: float) -> tuple[float, float]:
    """
    How long the next request waits, and when the one after it is due (GCRA).

    Up to one second's worth may go at once after a silence; then they are spaced evenly.
    """
    if math.isinf(rate):
        return 0.0, now
    gap = 1 / rate
    slack = max(1.0, rate) * gap
    after = max(next_slot, now) + gap
    return max(0.0, after - slack - now), after


class SendTimes(NamedTuple):
    """When a request may be sent: every `gap` seconds, first in `first` seconds, at most `late` seconds late."""

    gap: float
    first: float
    late: float


class AdaptiveLimiter:
    """The queue of requests to one provider, in the order of their tickets, on one event loop."""

    def __init__(self, ceiling: RequestRate) -> None:
        self.pace = ceiling
        self.configured = self._ceiling = self._base = ceiling
        self.throttles = 0
        self._loop = asyncio.get_running_loop()
        self._line: list[tuple[int, asyncio.Future[None]]] = []
        self._out = 0
        self._next_slot = 0.0
        self._closed_until = 0.0
        self._slowed_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._news: Callable[[], None] | None = None
        self._times: SendTimes | None = None  # from `_times_at` on
        self._times_at = 0.0
        self._until = math.inf  # when its part lapses
        self._used_at = self._loop.time()

    def share(self, news: Callable[[], None]) -> None:
        """Admit nothing until `divide` sets a part. `news` is called when a request needs a part, and after a 429."""
        self._news = news
        self._ceiling = RequestRate(0, self.configured.rate)

    async def enter(self, ticket: int) -> None:
        if self._news is not None and self._ceiling.slots < 1 and not self._line:
            self._news()
        turn: asyncio.Future[None] = self._loop.create_future()
        heapq.heappush(self._line, (ticket, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # let in at the moment it gave up
                self.leave()
            else:
                self._admit()  # the next in the queue may be first now
            raise

    def leave(self) -> None:
        self._out -= 1
        self._used_at = self._loop.time()
        self._admit()

    def on_success(self) -> None:
        self.pace = adjust(self.pace, "answered", self._ceiling)
        self._admit()

    def on_throttle(self, *, sent_at: float, until: float) -> None:
        """Admit no request before `until`. Failures of requests sent before the slowdown do not slow it down again."""
        self.throttles += 1
        self._slow_down(sent_at, until)
        if self._news is not None:
            self._news()

    def on_throttle_elsewhere(self, seconds: float) -> None:
        """Another process was throttled: go slower here too, and admit no request for `seconds`."""
        now = self._loop.time()
        self._slow_down(now, now + seconds)

    @property
    def closed_seconds(self) -> float:
        """Seconds until a request may be admitted again after a throttle; 0: now."""
        return max(0.0, self._closed_until - self._loop.time())

    @property
    def ceiling(self) -> RequestRate:
        """The part of the configured limits that this process may use."""
        return self._ceiling

    @property
    def slots_in_use(self) -> int:
        """The requests that are in flight, or may be at any moment."""
        return max(int(self._ceiling.slots), self._out)

    @property
    def rate_in_use(self) -> float:
        return self._ceiling.rate if self._ceiling.slots and math.isfinite(self._ceiling.rate) else 0.0

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request; 0 while one waits or is in flight."""
        return 0.0 if self._out or self._line else self._loop.time() - self._used_at

    def divide(self, slots: int, rate: float, times: SendTimes | None = None) -> None:
        """
        Use these parts of the configured limits from now on; other processes have the rest. 0 slots admit nothing.

        A part that changes begins without a burst: another process may have had it.
        """
        self._times, self._times_at = times, self._loop.time()
        if (slots, rate) == (self._ceiling.slots, self._ceiling.rate):
            return
        self._ceiling = RequestRate(slots, rate)
        if slots > 0:
            whole = self.pace.slots >= self._base.slots and self.pace.rate >= self._base.rate
            self._base = self._ceiling
            pace = (
                self._ceiling
                if whole
                else RequestRate(min(self.pace.slots, slots), min(self.pace.rate, rate))
            )
            self.pace = RequestRate(max(1.0, pace.slots), pace.rate, self.pace.failed)
            if math.isfinite(rate):
                self._next_slot = max(self._next_slot, self._loop.time() + (max(1.0, rate) - 1) / rate)
        self._admit()

    def renew(self, until: float) -> None:
        """The part holds until this time of the loop. Then nothing is admitted until it is renewed."""
        self._until = until
        self._admit()

    def _slow_down(self, sent_at: float, until: float) -> None:
        self._closed_until = max(self._closed_until, until)
        if sent_at >= self._slowed_at:
            self._slowed_at = self._loop.time()
            self.pace = adjust(self.pace, "throttled", self._ceiling)

    def _admit(self) -> None:
        while self._line:
            turn = self._line[0][1]
            if turn.done():  # cancelled in line
                heapq.heappop(self._line)
                continue
            if self._out >= min(int(self.pace.slots), self._ceiling.slots):
                return
            now = self._loop.time()
            if now >= self._until:
                return
            wait, due = spacing(self._next_slot, now, self.pace.rate)
            wait = max(wait, self._closed_until - now)
            if self._times is not None:
                wait, due = self._next_time(now, wait, due)
            if wait > 0:
                self._wake(now + wait)
                return
            heapq.heappop(self._line)
            self._out += 1
            self._next_slot = due
            turn.set_result(None)

    def _next_time(self, now: float, wait: float, due: float) -> tuple[float, float]:
        """`wait` until one of the send times; when the request after it is due."""
        assert self._times is not None
        gap, first, late = self._times
        since = (now + wait - self._times_at - first) % gap
        if late < since < gap - late / 1000:  # a moment that a rounding error puts a little later is now
            return wait + gap - since, due
        return wait, due - min(since, late)

    def _wake(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._admit)
