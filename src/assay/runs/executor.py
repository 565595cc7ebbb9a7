"""Starts, finds, cancels and follows runs of every kind; its heartbeat renews leases and adopts lost runs."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from assay.concurrency.event_loop import run_guarded, supervise
from assay.errors import Conflict, EnvironmentFailure, NotFound, Unavailable
from assay.ports import (
    ACTIVE,
    Engine,
    Event,
    PutDocument,
    Run,
    RunQuery,
    Store,
)
from assay.ports.kinds import RunKind
from assay.runs.cancellation import cancel
from assay.runs.conductor import Conductor
from assay.runs.leases import AT_HEARTBEATS, HEARTBEATS, LEASE, Adoption, AdoptionPace, Leases
from assay.runs.log_reader import follow

GRACE, GRACE_LEASES = (
    30.0,
    3,
)  # seconds and leases that a run at its limit waits for a process that had only paused
CLOSING = 2.0  # seconds for each wait for the database while the executor closes
log = logging.getLogger("assay.runs")
log.addHandler(logging.NullHandler())  # a command reports errors itself


class RunExecutor:
    """
    Executes the runs whose leases this process holds.

    `executor_id` is new in each process. When a process crashes, its leases end and another executor adopts its runs.
    `on_change` is called with the tenant of a run that starts or ends here.
    """

    counts_store = False  # whether `active_runs` counts the runs of all processes

    def __init__(
        self,
        store: Store,
        engine: Engine,
        kinds: Mapping[str, RunKind],
        *,
        lease: float = LEASE,
        attempts: int | None = None,
        grace: float | None = None,
        adopts: AdoptionPace = AT_HEARTBEATS,
    ) -> None:
        """
        `attempts`: how many processes in a row may die with one unit of a run before it fails; None: any number.
        `grace`: the seconds that such a run waits for a process that had only paused; None: as long as usual.
        """
        self.store, self._engine, self._kinds = store, engine, kinds
        self.attempts = attempts
        self._grace = max(GRACE, GRACE_LEASES * lease) if grace is None else grace
        self.executor_id = f"executor-{secrets.token_hex(8)}"
        self._conductors: dict[str, tuple[Conductor, asyncio.Task[None]]] = {}
        self._leases = Leases(store, self.executor_id, lease)
        self._adoption = Adoption(
            store,
            self._leases,
            kinds,
            attempts,
            active_runs=self._conductors,
            start=self.conduct,
            pace=adopts,
        )
        self._pace = adopts
        self._restart: set[str] = set()  # claimed again while its last conductor was still ending
        self._following: set[asyncio.Task[None]] = set()
        self._closing = False
        self._adopting = True
        self.on_change: Callable[[str], None] | None = None
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._adoption_task: asyncio.Task[None] | None = None

    async def open(self, *, adopting: bool = True) -> None:
        """Start the heartbeat. With `adopting`, adopt runs that have no holder, now and at each heartbeat."""
        self._adopting = adopting
        await self._adopt()
        self._heartbeat_task = supervise("heartbeat", self._heartbeat_loop)
        if adopting and self._pace.seconds:
            self._adoption_task = supervise("adoption", self._adoption_loop)

    def start(self, run: Run) -> None:
        """Execute a run whose lease this executor holds."""
        self.conduct(run)

    def conduct(self, run: Run) -> None:
        """Conduct the run in this process."""
        self.check_open()
        if run.id in self._conductors:
            self._restart.add(run.id)
            return
        kind = self._kinds[run.kind]
        conductor = Conductor(
            self.store, self._engine, kind, run, self.executor_id, self.attempts, self._grace
        )
        task = asyncio.create_task(conductor.conduct(), name=f"run {run.id}")
        self._conductors[run.id] = conductor, task
        if self.on_change is not None:
            self.on_change(run.tenant)
        task.add_done_callback(lambda task: self._on_done(run.id, task))

    def check_open(self) -> None:
        if self._closing:
            raise Unavailable("this host is stopping and accepts no new work", retry_after=5)

    def _on_done(self, run: str, task: asyncio.Task[None]) -> None:
        """The run ended, rests, or has another holder; or it was orphaned by an error, which is logged."""
        ended = self._conductors.pop(run, None)
        if ended is not None and self.on_change is not None:
            self.on_change(ended[0].tenant)
        if not task.cancelled() and (trouble := task.exception()) is not None:
            self._leases.orphan(run)
            log.warning(
                "run %s is paused until the store can be written again: %s", run, type(trouble).__name__
            )
        elif run in self._restart:
            following = asyncio.create_task(self._take_over_guarded(run))
            self._following.add(following)
            following.add_done_callback(self._following.discard)
        self._restart.discard(run)

    async def _take_over_guarded(self, run: str) -> None:
        if await run_guarded("takeover", self._take_over(run), EnvironmentFailure) is not None:
            self._leases.orphan(run)

    async def _take_over(self, run: str) -> None:
        """Start a run again that was claimed here while its last conductor was ending, unless it has ended."""
        claimed = await self._leases.claim(run)
        if claimed is not None and self._closing:
            self._leases.orphan(run)
        elif claimed is not None:
            self.conduct(claimed)

    @property
    def lease(self) -> float:
        """Seconds that a lease lasts."""
        return self._leases.seconds

    @property
    def closing(self) -> bool:
        return self._closing

    @property
    def active_runs(self) -> int:
        """How many runs this executor conducts, without those that wait for what comes."""
        return sum(not conductor.is_standing for conductor, _ in self._conductors.values())

    def left(self) -> str:
        """What a process leaves that ends by force now."""
        many = len(self._conductors)
        runs = "1 run is" if many == 1 else f"{many:,} runs are"
        return f"{runs} unfinished here; nothing stored is lost, and the next process continues from there"

    def active_runs_of(self, tenant: str) -> int:
        """How many of them belong to a tenant."""
        return sum(
            conductor.tenant == tenant and not conductor.is_standing
            for conductor, _ in self._conductors.values()
        )

    async def get(self, run: str, tenant: str, kind: str | None = None) -> Run:
        """The run, or NotFound. The run of another tenant is not found either."""
        found = await self.store.run(run, tenant=tenant)
        if found is None or (kind is not None and found.kind != kind):
            raise NotFound(f"there is no run {run!r}")
        return found

    async def list(self, query: RunQuery) -> list[Run]:
        return await self.store.runs(query)

    async def cancel(
        self,
        run: str,
        tenant: str,
        *,
        reason: str = "",
        documents: Sequence[PutDocument] = (),
        timeout: float | None = None,
    ) -> Run:
        """Cancel a run that has not ended: see `cancellation.cancel`."""
        return await cancel(self, run, tenant, reason=reason, documents=documents, timeout=timeout)

    async def stop(self, run: str, tenant: str) -> Run:
        """Cancel a run, unless it ends before that."""
        try:
            return await self.cancel(run, tenant)
        except Conflict as conflict:
            if conflict.reason != "closed":
                raise
            return await self.get(run, tenant)

    def conductor(self, run: str) -> Conductor | None:
        """The conductor of the run, if it is in this process."""
        held = self._conductors.get(run)
        return None if held is None else held[0]

    async def claim(self, run: str) -> Conductor | None:
        """Conduct the run here. None: another process holds it."""
        claimed = await self._leases.claim(run)
        if claimed is None:
            return None
        self.conduct(claimed)
        return self.conductor(run)

    async def wait(self, run: str) -> Run:
        """Wait until the run ends or rests, and return it."""
        while True:
            found = await self.store.run(run)
            if found is None:
                raise NotFound(f"there is no run {run!r}")
            if found.status not in ACTIVE:
                return found
            held = self._conductors.get(run)
            if held is not None:
                task = held[1]
                await asyncio.wait({task}, timeout=1)
                still = not task.done() or task.cancelled()  # it goes on here, or with another holder
                if not still and (trouble := task.exception()) is not None:
                    raise trouble
            else:
                await self.store.wait_for_events(run, after=found.events - 1, timeout=1)

    def follow(self, run: str, tenant: str, after: int = -1) -> AsyncIterator[Event | None]:
        return follow(self.store, run, after=after, tenant=tenant)

    async def close(self, seconds: float = 10.0) -> None:
        """Start no more runs, give units in flight `seconds` to end, and release the rest for other processes."""
        self._closing = True
        for task in (self._heartbeat_task, self._adoption_task):
            if task is not None:
                task.cancel()
        held = list(self._conductors.items())
        for _, (conductor, _) in held:
            conductor.drain()
        tasks = {task for _, (_, task) in held}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:  # a run that waits for a database that is away is left alone
                await asyncio.wait(late, timeout=CLOSING)
            self._leases.orphan(*(run for run, (_, task) in held if task in late))
        if self._following:
            await asyncio.wait(self._following, timeout=CLOSING)
        with suppress(EnvironmentFailure, TimeoutError):  # their leases will end
            await asyncio.wait_for(self._leases.release_orphans(), CLOSING)

    async def _heartbeat_loop(self) -> None:
        while True:
            await asyncio.sleep(self.lease / HEARTBEATS)
            # the database may be back before the leases end
            await run_guarded("heartbeat", self._renew_leases(), EnvironmentFailure)
            if self._adoption_task is None:
                await run_guarded("adoption", self._adopt(), EnvironmentFailure)

    async def _adoption_loop(self) -> None:
        while True:
            await asyncio.sleep(self._pace.seconds)
            await run_guarded("adoption", self._adopt(), EnvironmentFailure)

    async def _renew_leases(self) -> None:
        """Renew the leases held here. Stop conducting a run that another process holds by now."""
        mine = list(self._conductors.items())  # a run that starts meanwhile is not in the answer
        held = await self._leases.renew()
        for run, (conductor, task) in mine:
            if run not in held:
                task.cancel()  # another process holds it
                if await run_guarded("heartbeat", self._leases.forgive(run), EnvironmentFailure) is not None:
                    self._leases.orphan(run)  # again at the next heartbeat
            elif held[run] == "cancelling":
                conductor.cancel()

    async def _adopt(self) -> None:
        if self._adopting:
            await self._adoption.adopt()
