"""The part of a worker that executes units: DBOS takes them from the queue, `perform` runs them on this loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, Queue
from sqlalchemy import Engine

from assay.backends.engines.dbos.envelope import Envelope, UnitOutcome, outcome_of
from assay.backends.engines.dbos.unit_queue import (
    APPLICATION,
    QUEUE,
    SCHEMA,
    UNIT,
    UnitQueue,
    in_plain_errors,
)
from assay.ports.bugs import log_bug
from assay.ports.telemetry import telemetry

POLL = 0.1  # seconds between two looks at the queue
THREADS = 16  # of DBOS, for its statements
IS_SECOND = "run_admin_server" in DBOSConfig.__annotations__  # the major version of DBOS; else the third
Perform = Callable[[str, bytes], Awaitable[bytes]]

log = logging.getLogger("assay.workers")
log.addHandler(logging.NullHandler())


class WorkerLimits(NamedTuple):
    """How many units run at once, on this worker and of one tenant on all of them; 0: no limit."""

    concurrency: int = 16
    tenant_concurrency: int = 0
    tenant_units_per_minute: int = 0
    attempts: int = 3  # executors in a row that a unit may lose


class UnitWorker:
    """
    Executes units of one version under an executor id. DBOS has one instance in a process, so there is one of these.

    `confirm` says whether this executor still holds its lease; it may wait for a heartbeat. A result is written only
    then.
    """

    def __init__(
        self,
        engine: Engine,
        queue: UnitQueue,
        envelope: Envelope,
        perform: Perform,
        confirm: Callable[[], Awaitable[bool]],
        version: str,
        limits: WorkerLimits,
    ) -> None:
        self._engine, self._queue, self._envelope, self._perform = engine, queue, envelope, perform
        self._confirm, self._version, self._limits = confirm, version, limits
        self._running: dict[str, asyncio.Task[bytes]] = {}  # until their results may be written
        self._fenced: set[str] = set()  # units that ended after this executor had lost its lease
        self.executor_id = ""
        self.executed = self.refused = 0  # executions that ended here, and those that were fenced

    def launch(self, executor_id: str) -> None:
        """Take units from the queue under this executor id. The event loop of the caller executes them."""
        self.executor_id = executor_id
        self._fenced.clear()
        logging.getLogger("dbos").setLevel(logging.CRITICAL)  # its messages may hold content
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._engine,
            "dbos_system_schema": SCHEMA,
            "serializer": DBOSPortableJSONSerializer(),
            "executor_id": executor_id,
            "application_version": self._version,
            "use_listen_notify": False,
            "log_level": "CRITICAL",
            "max_executor_threads": THREADS,
            "scheduler_polling_interval_sec": 3600.0,
            "notification_listener_polling_interval_sec": 0.2,
        }
        if IS_SECOND:
            config["run_admin_server"] = False
        DBOS(config=config)
        DBOS.workflow(name=UNIT, max_recovery_attempts=self._limits.attempts - 1)(self._unit_function())
        if IS_SECOND:  # the limits of this worker
            DBOS.listen_queues([Queue(QUEUE, **self._queue_limits())])
            DBOS.launch()
        else:  # a queue is a row of the database, whose limits the worker that starts last writes
            DBOS.listen_queues([QUEUE])
            DBOS.launch()
            register = partial(
                DBOS.register_queue, QUEUE, on_conflict="always_update", **self._queue_limits()
            )
            with ThreadPoolExecutor(1) as thread:  # it refuses a thread with an event loop
                thread.submit(register).result()

    def stop(self) -> None:
        """Take no more units, and drop those that run here."""
        self.drop(list(self._running))
        DBOS.destroy(destroy_registry=True)
        # DBOS has made its threads those of the event loop, and has ended them
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())

    @in_plain_errors
    def recover(self, executors: Sequence[str]) -> int:
        """Put the units of executors that are gone back into the queue; return their number. It blocks."""
        # the public `resume_workflow` would also take a unit from an executor that has it by now
        return len(DBOS._recover_pending_workflows(list(executors)))  # pyright: ignore[reportPrivateUsage]

    @property
    def running(self) -> list[str]:
        return list(self._running)

    def drop(self, ids: Sequence[str]) -> None:
        """Stop executing these units; nothing of them is written."""
        for id in ids:
            if (task := self._running.get(id)) is not None:
                task.cancel()

    def give_up(self) -> list[str]:
        """Stop all units here, and return those that others have: this executor had paused, and did not die of them."""
        self._fenced |= self._running.keys()
        self.drop(self.running)
        return list(self._fenced)

    async def _execute(self, work: str, sealed: str, id: str) -> str:
        executor = self.executor_id
        unit, traceparent = self._envelope.open_unit(sealed, id)
        with telemetry.within(traceparent):  # the task has a copy of this context
            task = self._running[id] = asyncio.ensure_future(self._perform(work, unit))
        try:
            outcome = await self._outcome(work, task, executor)
            confirmed = await self._confirm()
        finally:
            if self._running.get(id) is task:
                del self._running[id]
        if not confirmed or executor != self.executor_id:
            self.refused += 1
            if executor == self.executor_id:
                self._fenced.add(id)
            raise asyncio.CancelledError  # DBOS writes nothing
        self.executed += 1
        return self._envelope.seal_outcome(outcome, id)

    async def _outcome(self, work: str, task: asyncio.Task[bytes], executor: str) -> UnitOutcome:
        try:
            return UnitOutcome(executor=executor, result=await task)
        except Exception as error:  # noqa: BLE001  # the conductor raises it again
            outcome = outcome_of(error, executor)
            if outcome.bug is not None:
                log_bug(log.name, f"a unit of the kind {work}", error)
            return outcome

    def _unit_function(self) -> Callable[[str, str], Awaitable[str]]:
        async def unit(work: str, sealed: str) -> str:
            id: Any = DBOS.workflow_id
            return await self._execute(work, sealed, id)

        return unit

    def _queue_limits(self) -> dict[str, Any]:
        limits = self._limits
        here = min(limits.concurrency, limits.tenant_concurrency or limits.concurrency)
        per_minute = limits.tenant_units_per_minute
        return {
            "worker_concurrency": limits.concurrency,
            "partition_worker_concurrency": here,  # it makes a partition of each tenant
            "partition_concurrency": limits.tenant_concurrency or None,
            "partition_limiter": {"limit": per_minute, "period": 60.0} if per_minute else None,
            "polling_interval_sec": POLL,
        }
