"""The limits of providers over all workers: each has its part of them, and a 429 that one gets slows all of them down."""

import math
from collections.abc import Mapping
from weakref import WeakSet

from msgspec import Struct

from assay.backends.models.rate_limit import AdaptiveLimiter

ROTATION = (
    10.0  # seconds after which a slot goes to the next worker, where there are fewer slots than workers
)


class ProviderReport(Struct, frozen=True):
    """What a worker says about one provider: how many 429s it got, and for how many seconds it admits no request."""

    throttles: int = 0
    closed: float = 0.0


class Gates:
    """The limiters of one process, by the name of their provider."""

    def __init__(self) -> None:
        self._gates: dict[str, WeakSet[AdaptiveLimiter]] = {}

    def add(self, provider: str, gate: AdaptiveLimiter) -> None:
        self._gates.setdefault(provider, WeakSet()).add(gate)

    def items(self) -> Mapping[str, list[AdaptiveLimiter]]:
        return {name: list(gates) for name, gates in self._gates.items()}


GATES = Gates()


class FleetLimits:
    """The part of this worker in the limits of every provider that it uses."""

    def __init__(self, gates: Gates = GATES) -> None:
        self._gates = gates
        self._seen: dict[
            tuple[str, str], int
        ] = {}  # by worker and provider: the 429s that were taken into account

    def report(self) -> dict[str, ProviderReport]:
        """By provider, for the other workers."""
        return {
            name: ProviderReport(
                sum(gate.throttles for gate in gates),
                round(max((gate.closed_seconds for gate in gates), default=0.0), 3),
            )
            for name, gates in self._gates.items().items()
        }

    def apply(self, me: str, reports: Mapping[str, Mapping[str, ProviderReport]], seconds: float) -> None:
        """Take the reports of all workers, by id, into account. `seconds` is a time that all workers agree on."""
        for name, gates in self._gates.items().items():
            users = sorted({me, *(worker for worker, report in reports.items() if name in report)})
            at = (users.index(me) + int(seconds // ROTATION)) % len(users)
            news = [
                self._news(worker, name, reports[worker][name])
                for worker in users
                if worker in reports and worker != me and name in reports[worker]
            ]
            for gate in gates:
                gate.divide(
                    part(int(gate.configured.slots), len(users), at), gate.configured.rate / len(users)
                )
                if (closed := max(news, default=-math.inf)) >= 0:
                    gate.on_throttle_elsewhere(closed)
        self._seen = {key: many for key, many in self._seen.items() if key[0] in reports}

    def _news(self, worker: str, provider: str, report: ProviderReport) -> float:
        """For how long the provider wants no requests, if that worker got a 429 since the last look; else below 0."""
        before = self._seen.get((worker, provider))
        self._seen[worker, provider] = report.throttles
        fresh = report.throttles > (before or 0) if before is not None else report.closed > 0
        return report.closed if fresh else -math.inf


def part(slots: int, workers: int, at: int) -> int:
    """The slots of the worker at this place. The parts of all places add up to all slots."""
    return slots // workers + (at < slots % workers)
