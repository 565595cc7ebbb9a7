"""An adaptive limit on concurrent requests and their rate, learned from 429s. Waiting requests keep their order."""

import asyncio
import heapq
import math
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
    make (`max_retries`). Half of the slots where they are near the last failure. Never less than one slot; back by a slot
    for each round of answers.

    One slot below where it last failed it goes on at a tenth of that. A rate comes back by a fiftieth of its ceiling with
    each answer; one that was never set stays infinite.
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


class AdaptiveLimiter:
    """The queue of requests to one provider, in the order of their tickets, on one event loop."""

    def __init__(self, ceiling: RequestRate) -> None:
        self.pace = ceiling
        self.configured = self._ceiling = ceiling
        self.throttles = 0
        self._loop = asyncio.get_running_loop()
        self._line: list[tuple[int, asyncio.Future[None]]] = []
        self._out = 0
        self._next_slot = 0.0
        self._closed_until = 0.0
        self._slowed_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self, ticket: int) -> None:
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
        self._admit()

    def on_success(self) -> None:
        self.pace = adjust(self.pace, "answered", self._ceiling)
        self._admit()

    def on_throttle(self, *, sent_at: float, until: float) -> None:
        """Admit no request before `until`. Failures of requests sent before the slowdown do not slow it down again."""
        self.throttles += 1
        self._slow_down(sent_at, until)

    def on_throttle_elsewhere(self, seconds: float) -> None:
        """Another process was throttled: go slower here too, and admit no request for `seconds`."""
        now = self._loop.time()
        self._slow_down(now, now + seconds)

    @property
    def closed_seconds(self) -> float:
        """Seconds until a request may be admitted again after a throttle; 0: now."""
        return max(0.0, self._closed_until - self._loop.time())

    def divide(self, slots: int, rate: float) -> None:
        """Use these parts of the configured limits from now on; other processes have the rest. 0 slots admit nothing."""
        if (slots, rate) == (self._ceiling.slots, self._ceiling.rate):
            return
        was, self._ceiling = self._ceiling, RequestRate(slots, rate)
        whole = self.pace.slots >= was.slots and self.pace.rate >= was.rate
        pace = self._ceiling if whole else RequestRate(min(self.pace.slots, slots), min(self.pace.rate, rate))
        self.pace = RequestRate(max(1.0, pace.slots), pace.rate, self.pace.failed)
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
            wait, due = spacing(self._next_slot, now, self.pace.rate)
            wait = max(wait, self._closed_until - now)
            if wait > 0:
                self._wake(now + wait)
                return
            heapq.heappop(self._line)
            self._out += 1
            self._next_slot = due
            turn.set_result(None)

    def _wake(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._admit)
