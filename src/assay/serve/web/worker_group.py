"""
What the server processes of one `assay serve --processes N` share: counts for the limits, and their metrics (ADR-0082).

The parent makes a `WorkerGroup` and forks. Every worker has one row of counts, which it alone writes; the parent clears
the row of a worker that died. A worker adds to its row first and reads the others' rows then, so that all together
never exceed a limit.
"""

import hashlib
import os
import shutil
import tempfile
import threading
from functools import lru_cache
from mmap import mmap
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import RateLimited
from assay.ports.telemetry import BOUNDS, Histogram, Metrics
from assay.serve.web.limit_settings import ServerLimits

REQUESTS, STREAMS, BODY_BYTES, RUNS, CONNECTIONS, READY, PID = range(7)  # columns of a row
HEADER = 8  # numbers of a row before the tenants'
ENTRY = 5  # numbers of a tenant: its digest, then REQUESTS to RUNS
PROBES = 64  # places of a tenant's entry
CAPACITY = 4096  # entries, at least


class WorkerGroup:
    """The shared memory and the folder of all workers. It is made before they are forked."""

    def __init__(self, size: int, serving: ServerLimits) -> None:
        active = serving.max_requests + serving.max_followers + serving.max_runs
        self.size = size
        self.capacity = 1 << (max(CAPACITY, 2 * active) - 1).bit_length()
        self.stride = HEADER + ENTRY * self.capacity
        self._memory = mmap(-1, 8 * self.stride * size)  # anonymous, and shared with forked processes
        self.cells: Any = memoryview(self._memory).cast("q")
        self.folder = Path(tempfile.mkdtemp(prefix="assay-serve-"))

    def clear(self, index: int) -> None:
        """The worker of this row is dead: nothing of it counts any more."""
        first = index * self.stride
        self.cells[first : first + self.stride] = memoryview(bytes(8 * self.stride)).cast("q")

    def is_ready(self, index: int) -> bool:
        return bool(self.cells[index * self.stride + READY])

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class WorkerMember:
    """One worker of a group: writes its own row and reads those of the others."""

    def __init__(self, group: WorkerGroup, index: int) -> None:
        self.group, self.index = group, index
        self._cells, self._first = group.cells, index * group.stride
        self._others = [at * group.stride for at in range(group.size) if at != index]
        self._mask = group.capacity - 1
        self._entries: dict[str, int] = {}  # the place of each active tenant in the own row
        self._used: set[int] = set()
        self._fence = threading.Lock()  # taking it orders the writes before the reads
        self._cells[self._first + PID] = os.getpid()

    @property
    def size(self) -> int:
        return self.group.size

    def ready(self) -> None:
        self._cells[self._first + READY] = 1

    def publish(self, column: int, count: int) -> None:
        """Say this worker's count."""
        self._cells[self._first + column] = count

    def others(self, column: int) -> int:
        """The count of all other workers."""
        with self._fence:
            pass
        return sum(self._cells[first + column] for first in self._others)

    def fewest(self, column: int) -> int | None:
        """The smallest count of another worker that is ready; None if there is none."""
        cells = self._cells
        return min((cells[first + column] for first in self._others if cells[first + READY]), default=None)

    def publish_tenant(self, tenant: str, column: int, count: int) -> None:
        """Say this worker's count of a tenant."""
        at = self._entries.get(tenant)
        if at is None:
            if not count:
                return
            at = self._allocate(tenant)
        self._cells[at + 1 + column] = count
        if not count and not any(self._cells[at + 1 : at + ENTRY]):
            del self._entries[tenant]
            self._used.discard(at)

    def tenant_others(self, tenant: str, column: int) -> int:
        """The count of a tenant in all other workers."""
        with self._fence:
            pass
        cells, digest = self._cells, _digest(tenant)
        total = 0
        for first in self._others:
            for step in range(PROBES):
                at = first + HEADER + ENTRY * ((digest + step) & self._mask)
                found = cells[at]
                if found == digest:
                    total += cells[at + 1 + column]
                    break
                if not found:  # never used, so the tenant is not behind it either
                    break
        return total

    def _allocate(self, tenant: str) -> int:
        digest = _digest(tenant)
        for step in range(PROBES):
            at = self._first + HEADER + ENTRY * ((digest + step) & self._mask)
            if at not in self._used:
                self._used.add(at)
                self._entries[tenant] = at
                self._cells[at] = digest
                return at
        raise RateLimited("too many tenants have requests in flight", retry_after=1)


@lru_cache(maxsize=4096)
def _digest(tenant: str) -> int:
    """A number for a tenant, never 0."""
    digest = hashlib.blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


class MetricsSnapshot(msgspec.Struct, frozen=True):
    """The metrics of one worker. `times` are the counts of the buckets and the total seconds."""

    pid: int
    counts: list[tuple[tuple[str, ...], float]]
    times: list[tuple[tuple[str, ...], list[int], float]]
    gauges: dict[str, float]


class WorkerMetrics(NamedTuple):
    """The metrics of all workers together, and the process ids of those that are ready."""

    metrics: Metrics
    pids: dict[int, int]


_decode = msgspec.json.Decoder(MetricsSnapshot).decode


def snapshot(metrics: Metrics) -> MetricsSnapshot:
    return MetricsSnapshot(
        os.getpid(),
        list(metrics.counts.items()),
        [(key, list(one.counts), one.total) for key, one in list(metrics.times.items())],
        {name: gauge() for name, gauge in metrics.gauges.items()},
    )


def write_metrics(member: WorkerMember, metrics: Metrics) -> None:
    """For the other workers. The file is replaced at once."""
    path = _path(member, member.index)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(snapshot(metrics)))
    new.replace(path)


def restore_metrics(member: WorkerMember, metrics: Metrics) -> None:
    """A worker in the place of a dead one counts on from there: counters never fall."""
    stored = _read(member, member.index)
    if stored is not None:
        _add(metrics, stored)


def merged_metrics(member: WorkerMember, metrics: Metrics) -> WorkerMetrics:
    """The sums over all workers: this one's as they are, the others' as of their last write."""
    merged, gauges, pids = Metrics(), dict[str, float](), dict[int, int]()
    for index in range(member.size):
        stored = snapshot(metrics) if index == member.index else _read(member, index)
        if stored is None:
            continue
        _add(merged, stored)
        if index == member.index or member.group.is_ready(index):
            pids[index] = stored.pid
            for name, value in stored.gauges.items():
                gauges[name] = gauges.get(name, 0) + value
    merged.gauges = {name: lambda value=value: value for name, value in gauges.items()}
    return WorkerMetrics(merged, pids)


def _add(metrics: Metrics, stored: MetricsSnapshot) -> None:
    for key, value in stored.counts:
        metrics.counts[key] = metrics.counts.get(key, 0) + value
    for key, counts, total in stored.times:
        histogram = metrics.times.setdefault(key, Histogram())
        if len(counts) == len(BOUNDS) + 1:
            histogram.counts = [one + more for one, more in zip(histogram.counts, counts, strict=True)]
            histogram.total += total


def _read(member: WorkerMember, index: int) -> MetricsSnapshot | None:
    try:
        return _decode(_path(member, index).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def _path(member: WorkerMember, index: int) -> Path:
    return member.group.folder / f"metrics-{index}.json"
