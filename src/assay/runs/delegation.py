"""The executor of a server that only serves: workers conduct its runs."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

from assay.concurrency.event_loop import run_guarded, supervise
from assay.errors import EnvironmentFailure, Unavailable
from assay.ports import ACTIVE, Engine, Run, RunQuery, RunUpdate, Store, Transaction
from assay.ports.kinds import REQUIRED_VERSION, RunKind
from assay.runs.executor import RunExecutor
from assay.runs.leases import LEASE
from assay.runs.worker_registry import FleetView
from assay.version import __version__

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
        self._counts[run.tenant] += 1
        task = asyncio.create_task(self._hand_over(run))
        self._handovers.add(task)
        task.add_done_callback(self._handovers.discard)

    async def _hand_over(self, run: Run) -> None:
        if await run_guarded("handover", self._release(run), EnvironmentFailure) is not None:
            self._leases.orphan(run.id)

    async def _release(self, run: Run) -> None:
        """
        Hand the run over to workers, with the version of this server: older workers may lack what it planned, so they
        leave the run.
        """
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
        self._counts = Counter(run.tenant for run in active) + started
        now = asyncio.get_running_loop().time()
        if active and not self.workers and now - self._warned >= WARN:
            self._warned = now
            log.warning(self.no_worker(__version__))

    async def _look_loop(self) -> None:
        while True:
            await run_guarded("workers", self.look(), EnvironmentFailure)
            await asyncio.sleep(min(LOOK, self.lease / 5))
