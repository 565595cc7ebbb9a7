"""
Divides the limits of a provider among all workers. Each worker has a part, and a 429 to one worker slows all workers.

A worker publishes a part before it uses it (`claim`). Then it reads the parts of all workers, and uses its own only if
their sum is at most the limit (`grant`). A part that shrinks stays published until the requests in flight fit into the
smaller one. So the sum never exceeds the limit, in whatever order workers read and write.

A part lapses while the other workers still take this one for alive. So one that stood still, or could not write, sends
nothing until it has read that it is a member.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from weakref import WeakSet

from msgspec import Struct, structs

from assay.backends.models.rate_limit import AdaptiveLimiter, SendTimes

ROTATION = (
    10.0  # seconds after which a slot goes to the next worker, where there are fewer slots than workers
)
IDLE = 30.0  # seconds without a request after which a worker gives up its part
ROUNDING = 1e-9  # tolerance for sums of rates


class ProviderReport(Struct, frozen=True, omit_defaults=True):
    """
    What a worker publishes about one provider: how many 429s it got, and for how many seconds it admits no request.

    `slots` and `rate` are its part of the limits. The rate is 0 if the provider has no limit of requests per minute.
    """

    throttles: int = 0
    closed: float = 0.0
    slots: int = 0
    rate: float = 0.0


Reports = Mapping[str, Mapping[str, ProviderReport]]  # by worker and provider


class Gates:
    """The limiters of one process, by provider. Those of a worker admit nothing until they have a part."""

    def __init__(self) -> None:
        self._gates: dict[str, WeakSet[AdaptiveLimiter]] = {}
        self._news: Callable[[], None] | None = None

    def add(self, provider: str, gate: AdaptiveLimiter) -> None:
        self._gates.setdefault(provider, WeakSet()).add(gate)
        if self._news is not None:
            gate.share(self._news)

    def share(self, news: Callable[[], None] | None) -> None:
        """Share the limits of later limiters. One calls `news` when a request needs a part, or after a 429."""
        self._news = news

    def items(self) -> Mapping[str, list[AdaptiveLimiter]]:
        return {name: sorted(gates, key=id) for name, gates in self._gates.items() if gates}


GATES = Gates()


class FleetLimits:
    """The part of this worker in the limits of every provider that it uses."""

    def __init__(self, gates: Gates = GATES) -> None:
        self._gates = gates
        self._parts: dict[
            str, tuple[int, float]
        ] = {}  # by provider: the slots and the rate that this worker claims
        self._seen: dict[
            tuple[str, str], int
        ] = {}  # by worker and provider: the 429s that were taken into account
        self._news = asyncio.Event()

    def open(self) -> None:
        self._gates.share(self._news.set)

    def close(self) -> None:
        self._gates.share(None)

    async def wait(self, seconds: float) -> None:
        """Wait until a limiter has news, or these seconds are over; without limiters, for news alone."""
        try:
            async with asyncio.timeout(seconds if self._gates.items() else None):
                await self._news.wait()
        except TimeoutError:
            return
        finally:
            self._news.clear()

    def report(self) -> dict[str, ProviderReport]:
        """The reports for other workers, by provider. The part in one is at least what this worker uses."""
        reports = dict[str, ProviderReport]()
        for name, gates in self._gates.items().items():
            slots, rate = self._parts.get(name, (0, 0.0))
            report = ProviderReport(
                sum(gate.throttles for gate in gates),
                round(max((gate.closed_seconds for gate in gates), default=0.0), 3),
                max(slots, sum(gate.slots_in_use for gate in gates)),
                max(rate, sum(gate.rate_in_use for gate in gates)),
            )
            if report.slots or report.closed or not all(gate.idle_seconds > IDLE for gate in gates):
                reports[name] = report
        return reports

    def claim(self, me: str, reports: Reports, seconds: float) -> bool:
        """
        Choose the parts of this worker from the reports of all workers.

        True if `report` has changed, so that it must be published.

        `seconds` is a time that all workers agree on. The slots rotate by it.
        """
        parts = dict[str, tuple[int, float]]()
        for name, gates in self._gates.items().items():
            slots, rate = _whole(gates)
            if all(gate.idle_seconds > IDLE for gate in gates):
                parts[name] = 0, 0.0
                continue
            users = _users(me, name, reports)
            others = _others(me, name, reports)
            target = part(slots, len(users), (users.index(me) + int(seconds // ROTATION)) % len(users))
            parts[name] = (
                max(0, min(target, slots - sum(one.slots for one in others))),
                max(0.0, min(rate / len(users), rate - sum(one.rate for one in others))),
            )
        self._parts = parts
        self._shrink()
        return _lasting(self.report()) != _lasting(reports.get(me, {}))

    def grant(self, me: str, reports: Reports, seconds: float, until: float = math.inf) -> None:
        """
        Use the claimed parts that fit into the limits. The reports must have been read after the claim was published.
        The parts lapse at `until`, a time of the loop.

        A worker that is not in the reports has lost its parts.
        """
        for name, gates in self._gates.items().items():
            slots, rate = self._granted(me, name, gates, reports)
            users = _users(me, name, reports)
            times = _send_times(rate, _whole(gates)[1], users.index(me), len(users), seconds)
            _divide(gates, slots, rate, times)
            for gate in gates:
                gate.renew(until)
            news = (self._news_of(worker, name, reports[worker][name]) for worker in users if worker != me)
            if (closed := max(news, default=-math.inf)) >= 0:
                for gate in gates:
                    gate.on_throttle_elsewhere(closed)
        self._seen = {key: many for key, many in self._seen.items() if key[0] in reports}

    def drop(self) -> None:
        """Give up all parts: this worker was taken for dead, and goes on under another id."""
        self._parts = {}
        for gates in self._gates.items().values():
            _divide(gates, 0, 0.0)

    def _granted(
        self, me: str, name: str, gates: list[AdaptiveLimiter], reports: Reports
    ) -> tuple[int, float]:
        slots, rate = self._parts.get(name, (0, 0.0))
        whole_slots, whole_rate = _whole(gates)
        others, mine = _others(me, name, reports), reports.get(me, {}).get(name)
        if mine is None:
            return 0, rate
        if mine.slots < slots or mine.slots + sum(one.slots for one in others) > whole_slots:
            slots = min(slots, sum(int(gate.ceiling.slots) for gate in gates))
        if mine.rate < rate or mine.rate + sum(one.rate for one in others) > whole_rate + ROUNDING:
            rate = min(rate, sum(gate.rate_in_use for gate in gates))
        return (0 if whole_rate and not rate else slots), rate

    def _shrink(self) -> None:
        """Where this worker claims less than it uses, reduce what it uses now."""
        for name, gates in self._gates.items().items():
            slots, rate = self._parts[name]
            slots = min(slots, sum(int(gate.ceiling.slots) for gate in gates))
            _divide(gates, slots, min(rate, sum(gate.rate_in_use for gate in gates)))

    def _news_of(self, worker: str, provider: str, report: ProviderReport) -> float:
        """For how long the provider wants no requests, if that worker got a 429 since the last look; else below 0."""
        before = self._seen.get((worker, provider))
        self._seen[worker, provider] = report.throttles
        fresh = report.throttles > (before or 0) if before is not None else report.closed > 0
        return report.closed if fresh else -math.inf


def part(slots: int, workers: int, at: int) -> int:
    """The slots of the worker at this place. The parts of all places add up to all slots."""
    return slots // workers + (at < slots % workers)


def _whole(gates: list[AdaptiveLimiter]) -> tuple[int, float]:
    """The slots and the rate of the provider. The rate is 0 if it is not limited."""
    configured = gates[0].configured
    return int(configured.slots), 0.0 if math.isinf(configured.rate) else configured.rate


def _lasting(report: Mapping[str, ProviderReport]) -> dict[str, ProviderReport]:
    """The reports without `closed`, which changes with time alone."""
    return {name: structs.replace(one, closed=0.0) for name, one in report.items()}


def _users(me: str, name: str, reports: Reports) -> list[str]:
    return sorted({me, *(worker for worker, report in reports.items() if name in report)})


def _others(me: str, name: str, reports: Reports) -> list[ProviderReport]:
    return [report[name] for worker, report in reports.items() if worker != me and name in report]


def _divide(gates: list[AdaptiveLimiter], slots: int, rate: float, times: SendTimes | None = None) -> None:
    """Give the limiters of a provider in this process equal parts. A rate of 0 admits nothing."""
    limited = _whole(gates)[1] > 0
    slots = 0 if limited and not rate else slots
    for at, gate in enumerate(gates):
        gate.divide(part(slots, len(gates), at), rate / len(gates) if limited else math.inf, times)


def _send_times(rate: float, whole: float, at: int, workers: int, seconds: float) -> SendTimes | None:
    """
    The times at which this worker may send, if its rate is below one request a second.

    The times of all workers are spread evenly.

    Without them, all workers could send their first request at the same time.
    """
    if workers == 1 or not 0 < rate < 1:
        return None
    gap = workers / whole
    return SendTimes(gap, (at / whole - seconds) % gap, 0.5 / whole)
