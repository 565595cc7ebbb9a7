"""The work queue between processes: a server stores runs, and the workers that are registered take them."""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from assay.concurrency.event_loop import run_guarded, supervise
from assay.errors import Conflict, EnvironmentFailure, Unavailable
from assay.ports import (
    ACTIVE,
    DeleteDocument,
    Document,
    Engine,
    PutDocument,
    Run,
    RunQuery,
    RunUpdate,
    Store,
    Transaction,
    store_patience,
)
from assay.ports.kinds import REQUIRED_VERSION, STANDING, RunKind
from assay.runs.executor import RunExecutor
from assay.runs.leases import LEASE
from assay.version import __version__, is_older

LOOK = 2.0  # seconds between two counts of runs and workers
COUNTED = 5_000  # runs
PATIENCE = 3.0  # seconds that a client waits for the first worker
WARN = 60.0  # seconds between two warnings
NO_WORKER = "no worker is running, so runs wait: start `assay worker` with the same database_url, on this machine or on others"
OLD_WORKERS = "every running worker is older than assay {}, so runs wait: start `assay worker` of that version or a newer one"

log = logging.getLogger("assay.runs")


class DelegatingExecutor(RunExecutor):
    """
    Stores runs and leaves them to workers.

    It conducts only the end of a run that is cancelled while no worker holds it.

    The counts of active runs are those of the whole store, as of the last look, and the runs that started here since
    then.
    """

    counts_store = True

    def __init__(
        self, store: Store, engine: Engine, kinds: Mapping[str, RunKind], *, lease: float = LEASE
    ) -> None:
        super().__init__(store, engine, kinds, lease=lease)
        self._fleet = FleetView(store, lease)
        self._counts: Counter[str] = Counter()
        self._handovers: set[asyncio.Task[None]] = set()
        self._look_task: asyncio.Task[None] | None = None
        self._warned = -WARN

    async def open(self, *, adopting: bool = False) -> None:
        await super().open(adopting=False)
        await run_guarded("workers", self.look(), EnvironmentFailure)
        self._look_task = supervise("workers", self._look_loop)

    def start(self, run: Run) -> None:
        """Release the run, so that a worker adopts it."""
        self.check_open()
        self._counts[run.tenant] += STANDING not in run.metadata
        task = asyncio.create_task(self._hand_over(run))
        self._handovers.add(task)
        task.add_done_callback(self._handovers.discard)

    async def _hand_over(self, run: Run) -> None:
        # a Conflict: a worker has it already, because this process was slower than its lease
        if await run_guarded("handover", self._release(run), EnvironmentFailure, Conflict) is not None:
            self._leases.orphan(run.id)

    async def _release(self, run: Run) -> None:
        """Hand the run over to workers, with the version of this server: older workers leave it."""
        metadata = {**run.metadata, REQUIRED_VERSION: __version__}
        entry = RunUpdate(run=run.id, holder=self.executor_id, metadata=metadata)
        await self.store.commit(Transaction(entries=[entry]))
        await self._leases.release(run.id)

    async def wait(self, run: str) -> Run:
        """Wait until the run ends or rests. A run that no worker can begin is Unavailable; it stays stored."""
        ended = asyncio.ensure_future(super().wait(run))
        try:
            while True:
                await asyncio.wait({ended}, timeout=PATIENCE)
                if ended.done():
                    return ended.result()
                found = await self.store.run(run)
                if found is None or found.status not in ("pending", "running"):
                    continue
                version = found.metadata.get(REQUIRED_VERSION, __version__)
                if not self._fleet.able(version):
                    message = f"run {run} is stored, but {self.no_worker(version)}"
                    raise Unavailable(message, retry_after=10, reason="no_worker")
        finally:
            ended.cancel()

    @property
    def workers(self) -> int:
        """How many workers are alive that can execute the runs of this server."""
        return self._fleet.able(__version__)

    def no_worker(self, version: str = __version__) -> str:
        """Why runs of this version wait."""
        return OLD_WORKERS.format(version) if self._fleet.alive else NO_WORKER

    @property
    def active_runs(self) -> int:
        return self._counts.total()

    def active_runs_of(self, tenant: str) -> int:
        return self._counts[tenant]

    async def close(self, seconds: float = 10.0) -> None:
        if self._look_task is not None:
            self._look_task.cancel()
        if self._handovers:
            await asyncio.wait(self._handovers, timeout=seconds)
        await super().close(seconds)

    async def look(self) -> None:
        """Count the active runs and the workers; warn if there are runs and no workers."""
        await self._fleet.look()
        before = self._counts.copy()
        active = await self.store.runs(RunQuery(statuses=ACTIVE, limit=COUNTED))
        started = self._counts - before  # while the store was read
        self._counts = Counter(run.tenant for run in active if STANDING not in run.metadata) + started
        now = asyncio.get_running_loop().time()
        if active and not self.workers and now - self._warned >= WARN:
            self._warned = now
            log.warning(self.no_worker(__version__))

    async def _look_loop(self) -> None:
        while True:
            await run_guarded("workers", self.look(), EnvironmentFailure)
            await asyncio.sleep(min(LOOK, self.lease / 5))


# The workers that share a store: each has a document that it renews (ADR-0073).

TENANT, KIND = "", "worker"  # of the documents; no client has this tenant
HEARTBEATS = 5  # within a lease
LIMIT = 1000  # workers


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """What a worker says about itself."""

    host: str
    process: int
    version: str = __version__
    executed: int = 0  # units
    repeated: int = 0  # executions beyond the first, of the units whose results it recorded
    refused: int = 0  # results that came too late
    providers: dict[str, Any] = {}  # the reports of its limiters


class StoreClock:
    """
    The clock of the store, so that machines whose clocks differ agree. Until the first heartbeat it is the machine's.

    Any thread may read it: large evaluations are scored off the event loop.
    """

    def __init__(self) -> None:
        self._base: tuple[datetime, float] | None = (
            None  # a moment of the store, and the monotonic time it was set
        )

    def set(self, moment: datetime) -> None:
        """It is `moment` now. A difference below a second is ignored: time does not go back for a late answer."""
        if self._base is None or abs(moment - self.now()) > timedelta(seconds=1):
            self._base = moment, time.monotonic()

    def now(self) -> datetime:
        if self._base is None:
            return datetime.now(UTC)
        moment, at = self._base
        return moment + timedelta(seconds=time.monotonic() - at)


class FleetView:
    """The workers that are alive, as one process sees them."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store, self.lease = store, lease
        self._seen: dict[str, tuple[int, float]] = {}  # by worker: its version, and since when
        self._looked = 0.0
        self.alive = 0
        self._versions: list[str] = []  # of those that are alive

    def able(self, version: str) -> int:
        """The number of live workers that can execute runs of this version of assay: those that are not older."""
        return sum(not is_older(one, version) for one in self._versions)

    async def look(self) -> tuple[list[Document], list[Document]]:
        """All workers, and those of them that are dead."""
        workers = await self._store.documents(TENANT, KIND, limit=LIMIT)
        now = asyncio.get_running_loop().time()
        slept = now - self._looked > self.lease / 2  # what this process did not watch proves nothing
        seen = {} if slept else self._seen
        self._looked = now
        self._seen = {
            one.key: seen[one.key]
            if one.key in seen and seen[one.key][0] == one.version
            else (one.version, now)
            for one in workers
        }
        dead = [one for one in workers if now - self._seen[one.key][1] > self.lease]
        self.alive = len(workers) - len(dead)
        gone = {one.key for one in dead}
        self._versions = [one.version for key, one in records(workers).items() if key not in gone]
        return workers, dead


def records(workers: list[Document]) -> Mapping[str, WorkerRecord]:
    """What the workers say about themselves, by their ids."""
    return {one.key: msgspec.json.decode(one.data, type=WorkerRecord) for one in workers}


class WorkerRegistry:
    """The membership of this process. After it was lost, `register` begins another one, under another id."""

    def __init__(self, store: Store, lease: float) -> None:
        self._store, self.lease = store, lease
        self.view, self.clock = FleetView(store, lease), StoreClock()
        self.executor_id = ""
        self._version, self._beat_at = 0, 0.0
        self._beaten, self._beating = asyncio.Event(), asyncio.Lock()
        self.lost = False

    async def register(self) -> str:
        executor, at = f"worker-{secrets.token_hex(8)}", asyncio.get_running_loop().time()
        await self._put(executor, 0, self._record())
        self.executor_id, self._version, self.lost = executor, 1, False
        self._on_beat(at)
        await self._set_clock()
        return executor

    async def beat(self, counts: Callable[[], dict[str, Any]] = dict) -> bool:
        """
        Renew the membership; `counts` gives members of the WorkerRecord. False if the membership was lost. An older
        record never replaces a newer one.
        """
        async with self._beating:
            return await self._beat(self._record(**counts()))

    async def _beat(self, record: WorkerRecord) -> bool:
        at = asyncio.get_running_loop().time()
        try:
            await self._put(self.executor_id, self._version, record)
            self._version += 1
        except Conflict:
            at = self._beat_at  # when it was written is not known
            found = await self._store.document(TENANT, KIND, self.executor_id)
            self.lost = found is None
            if found is not None:  # a heartbeat whose answer was lost
                self._version = found.version
        self._on_beat(at)
        return not self.lost

    @property
    def certain_until(self) -> float:
        """
        The time of the loop until which this worker knows that no other takes it for dead: half a lease after its
        last heartbeat. What it begins until then has the other half to end.
        """
        return self._beat_at + self.lease / 2

    async def confirm(self) -> bool:
        """Whether this worker is a member. After half a lease without a heartbeat it waits for the next one."""
        while not self.lost and asyncio.get_running_loop().time() > self.certain_until:
            self._beaten.clear()
            await self._beaten.wait()
        return not self.lost

    async def bury(self) -> list[str]:
        """Delete the documents of dead workers; return the ids of all workers that are left."""
        workers, dead = await self.view.look()
        alive = [one.key for one in workers]
        for one in dead:
            if one.key == self.executor_id:
                continue
            change = DeleteDocument(tenant=TENANT, kind=KIND, key=one.key, version=one.version)
            try:
                await self._store.commit(Transaction(documents=[change]))
            except Conflict:
                continue  # it lives, or another worker was faster
            alive.remove(one.key)
        for one in workers:
            if one.key == self.executor_id:
                self.clock.set(one.updated)
        return alive

    async def others(self) -> Mapping[str, WorkerRecord]:
        """The records of all workers, this one among them."""
        return records(await self._store.documents(TENANT, KIND, limit=LIMIT))

    async def leave(self) -> None:
        change = DeleteDocument(tenant=TENANT, kind=KIND, key=self.executor_id, version=None)
        await self._store.commit(Transaction(documents=[change]))
        self.lost = True

    async def _put(self, executor: str, version: int, record: WorkerRecord) -> None:
        store_patience.set(self.lease / HEARTBEATS)
        change = PutDocument(
            tenant=TENANT, kind=KIND, key=executor, data=msgspec.json.encode(record), version=version
        )
        await self._store.commit(Transaction(documents=[change]))

    async def _set_clock(self) -> None:
        found = await self._store.document(TENANT, KIND, self.executor_id)
        if found is not None:
            self.clock.set(found.updated)

    def _on_beat(self, at: float) -> None:
        """`at`: before it was written. The others count from when they see it."""
        self._beat_at = at
        self._beaten.set()

    def _record(self, **counts: Any) -> WorkerRecord:
        return WorkerRecord(host=socket.gethostname(), process=os.getpid(), **counts)
