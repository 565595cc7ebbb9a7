"""The worker that `assay worker` runs: it conducts runs of the store, and executes units of all of them (ADR-0072)."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec

from assay.backends.models.fleet_limits import FleetLimits, ProviderReport
from assay.backends.stores.records.codec import RecordCodec
from assay.concurrency.event_loop import run_guarded, supervise
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure, UsageError
from assay.extras import missing_extra
from assay.host import host, parts
from assay.ports import RunQuery, Store
from assay.ports.kinds import RunKind
from assay.runs.executor import RunExecutor
from assay.runs.leases import AdoptionPace
from assay.runs.work_queue import HEARTBEATS, WorkerRegistry
from assay.settings import Settings
from assay.version import __version__

log = logging.getLogger("assay.worker")
UNIT_VERSION = __version__  # of units and results; a worker of another version leaves them
CONNECTIONS = 8  # to the tables of DBOS
ADOPT = AdoptionPace(seconds=0.5, limit=16, most=256)
FORGOTTEN = 10  # looks at a unit that is neither executed nor written: its result could not be written
PACE = 0.25  # seconds between two looks at the limits of providers
WATCH = 1.0  # seconds between two looks at the units that run here
SWEEP, KEEP = 60.0, timedelta(hours=1)  # between two sweeps; how long results wait for a conductor


class Worker:
    """A worker of this process, once it is open. `kinds` are those that it can conduct and execute."""

    def __init__(self, settings: Settings, store: Store, registry: WorkerRegistry) -> None:
        from assay.backends.engines.dbos.engine import DbosEngine  # deferred import: the extra `workers`
        from assay.backends.engines.dbos.envelope import Envelope  # deferred import
        from assay.backends.engines.dbos.unit_queue import UnitQueue, open_unit_engine  # deferred import
        from assay.backends.engines.dbos.unit_worker import UnitWorker, WorkerLimits  # deferred import

        self._settings, self._store, self.registry = settings, store, registry
        self._kinds: dict[str, RunKind] = {}
        self._database = open_unit_engine(settings.database_url, CONNECTIONS)
        self._queue = UnitQueue(self._database, UNIT_VERSION)
        envelope = Envelope(RecordCodec(parts.cipher(settings)))
        limits = WorkerLimits(
            concurrency=settings.concurrency,
            tenant_concurrency=settings.workers.tenant_units,
            tenant_units_per_minute=settings.workers.tenant_units_per_minute,
            attempts=settings.limits.max_run_attempts,
        )
        self.units = UnitWorker(
            self._database, self._queue, envelope, self._perform, registry.confirm, UNIT_VERSION, limits
        )
        self.engine = DbosEngine(
            self._queue,
            envelope,
            UNIT_VERSION,
            self._perform,
            window=self._window,
            performs_here=self._performs_here,
        )
        self._limits = FleetLimits()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped: set[str] = set()  # cancelled runs whose units were interrupted here

    def open(self, kinds: Iterable[RunKind]) -> None:
        """Take units from the queue. This process is registered by now."""
        self._kinds = {kind.name: kind for kind in kinds}
        self.units.launch(self.registry.executor_id)
        self.engine.open()
        self._limits.open()
        loops = {
            "heartbeat of the worker": self._beat,
            "units here": self._watch,
            "lost units": self._reap,
            "limits of providers": self._share_limits,
        }
        self._tasks = [supervise(name, loop) for name, loop in loops.items()]

    async def close(self) -> None:
        """Stop, and put the units that run here back into the queue."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._limits.close()
        with suppress(EnvironmentFailure):
            await self.registry.leave()
        await run_guarded("lost units", run_blocking(self._give_back), EnvironmentFailure)
        await self.engine.close()
        self.units.stop()
        self._queue.close()
        self._database.dispose()

    def _give_back(self) -> None:
        """Queue the units of this worker again, also those that have not begun. That it stops is no attempt."""
        held = self._queue.units_of(self.registry.executor_id)
        log.info("worker %s stops: %d units go back to the queue", self.registry.executor_id, len(held))
        self.units.recover([self.registry.executor_id])
        self._queue.forgive(list(held))

    async def _perform(self, work: str, unit: bytes) -> bytes:
        kind = self._kinds.get(work)
        if kind is None:
            raise EnvironmentFailure(f"this worker cannot execute units of {work!r}")
        return await kind.perform(unit)

    def _performs_here(self, work: str, unit: bytes) -> bool:
        waits: Any = getattr(self._kinds[work], "is_control_step", None)
        return waits is not None and waits(unit)

    def _window(self) -> int:
        """Units of one run in the queue: enough for every worker, and some in reserve."""
        return self._settings.concurrency * (max(1, self.registry.view.alive) + 1)

    async def _beat(self) -> None:
        registry = self.registry
        while True:
            await asyncio.sleep(registry.lease / HEARTBEATS)
            await run_guarded("heartbeat of the worker", self._renew(), EnvironmentFailure)
            if registry.lost:
                await run_guarded("heartbeat of the worker", self._begin_again(), EnvironmentFailure)

    async def _renew(self) -> None:
        await self.registry.beat(
            lambda: {
                "executed": self.units.executed,
                "repeated": self.engine.repeated,
                "refused": self.engine.refused + self.units.refused,
                "providers": self._limits.report(),
            }
        )

    async def _share_limits(self) -> None:
        """Publish a 429 to the other workers at once, and apply theirs. Without providers this only waits."""
        while True:
            await self._limits.wait(PACE)
            await run_guarded("limits of providers", self._divide_limits(), EnvironmentFailure)
            await asyncio.sleep(PACE / 5)  # many 429s at once need one report

    async def _divide_limits(self) -> None:
        me, now = self.registry.executor_id, self.registry.clock.now().timestamp()
        reports = await self._provider_reports()
        if self._limits.claim(me, reports, now):
            await self._renew()
            reports = await self._provider_reports()
        if me == self.registry.executor_id:
            self._limits.grant(me, reports, now, self.registry.certain_until)

    async def _provider_reports(self) -> dict[str, dict[str, ProviderReport]]:
        workers = await self.registry.others()
        return {id: msgspec.convert(one.providers, dict[str, ProviderReport]) for id, one in workers.items()}

    async def _begin_again(self) -> None:
        """This worker stood still for longer than its lease: others have its units. It goes on as another executor."""
        await run_blocking(self._queue.forgive, self.units.give_up())
        self._limits.drop()
        executor = await self.registry.register()
        self.units.stop()
        self.units.launch(executor)
        log.warning(
            "stood still for longer than a lease; others have its units; goes on as worker %s", executor
        )

    async def _watch(self) -> None:
        idle: Counter[str] = Counter()
        while True:
            await asyncio.sleep(min(WATCH, self.registry.lease / HEARTBEATS))
            await run_guarded("units here", self._compare_units(idle), EnvironmentFailure)
            await run_guarded("units here", self._stop_cancelled_runs(), EnvironmentFailure)

    async def _compare_units(self, idle: Counter[str]) -> None:
        """Stop units that were cancelled or that another executor has. Put back those that are not executed here."""
        executor, running = self.units.executor_id, self.units.running
        held = await run_blocking(self._queue.units_of, executor)
        if executor != self.units.executor_id:
            return
        if gone := [id for id in running if id not in held]:
            self.units.drop(gone)
            await run_blocking(self._queue.forgive, gone)  # others have them because this process had paused
        lost = held.difference(running, self.units.running)
        for id in [id for id in idle if id not in lost]:
            del idle[id]
        idle.update(lost)
        if forgotten := [id for id, looks in idle.items() if looks >= FORGOTTEN]:
            await run_blocking(self._queue.put_back, forgotten)

    async def _stop_cancelled_runs(self) -> None:
        """Interrupt the units of cancelled runs, so that they return what they have, to whichever conductor."""
        if not self.units.running:
            return
        cancelling = await self._store.runs(RunQuery(statuses=frozenset({"cancelling"}), limit=1000))
        for run in cancelling:
            if run.id not in self._stopped and (kind := self._kinds.get(run.kind)) is not None:
                kind.stop(run.id)
        self._stopped = {run.id for run in cancelling}

    async def _reap(self) -> None:
        swept = asyncio.get_running_loop().time()
        while True:
            await run_guarded("lost units", self._recover_lost_units(), EnvironmentFailure)
            now = asyncio.get_running_loop().time()
            if now - swept > SWEEP:
                swept = now
                before = self.registry.clock.now() - KEEP
                await run_guarded("old units", self._sweep(before), EnvironmentFailure)
            await asyncio.sleep(self.registry.lease / HEARTBEATS)

    async def _sweep(self, before: datetime) -> None:
        """Delete old results, and old units of versions that no worker has any more."""
        alive = {one.version for one in (await self.registry.others()).values()}
        await run_blocking(self._queue.sweep, before, alive)

    async def _recover_lost_units(self) -> None:
        """Queue the units of executors that are not registered. Units are read first: later ones are registered."""
        executors = await run_blocking(self._queue.executors)
        alive = await self.registry.bury()
        if lost := executors.difference(alive, {self.registry.executor_id}):
            await run_blocking(self._recover, sorted(lost))

    def _recover(self, lost: list[str]) -> None:
        """
        Queue the units of executors that are gone.

        One unit at most has killed its executor: the one that was there each time.

        So an attempt counts only for the units of an executor that have lost the most executors.
        """
        innocent: list[str] = []
        for executor in lost:
            units = self._queue.statuses(list(self._queue.units_of(executor)))
            most = max((unit.attempts for unit in units.values()), default=0)
            innocent += [id for id, unit in units.items() if unit.attempts < most]
        taken = self.units.recover(lost)
        self._queue.forgive(innocent)
        if taken:
            log.warning("took over %d units of workers that are gone: %s", taken, ", ".join(lost))


@asynccontextmanager
async def open_worker(
    settings: Settings, modules: Iterable[str] = (), *, stop: float = 10.0
) -> AsyncGenerator[tuple[Worker, RunExecutor]]:
    """Open the store and a worker for every kind of run. It stops within `stop` seconds, and leaves the rest."""
    if not settings.database_url.startswith("postgresql"):
        raise UsageError(
            "database_url (ASSAY_DATABASE_URL): expected postgresql://…, through which workers share runs; with SQLite,"
            " `assay serve` executes its runs itself"
        )
    try:
        import dbos as dbos  # deferred import: the extra `workers`
    except ModuleNotFoundError as error:
        raise missing_extra("a worker", "workers", error=error) from error
    lease = settings.workers.lease
    checks, services = parts.registry(settings, modules), host.host_services(settings)
    async with parts.store(settings) as store:
        registry = WorkerRegistry(store, lease)
        services = msgspec.structs.replace(services, clock=registry.clock)
        await registry.register()
        worker = Worker(settings, store, registry)
        kinds = host.build_kinds(settings, store, checks, services)
        by_name = {kind.name: kind for kind in kinds.all}
        executor = RunExecutor(
            store,
            worker.engine,
            by_name,
            lease=lease,
            attempts=settings.limits.max_run_attempts,
            adopts=ADOPT,
        )
        kinds.connect(executor)
        worker.open(kinds.all)
        await executor.open()
        try:
            yield worker, executor
        finally:
            await executor.close(stop)
            await worker.close()
            await parts.close_evals(kinds.evals)
            await services.close()
