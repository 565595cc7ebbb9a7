"""The Engine port on DBOS: units go into a queue, any worker executes them, and the conductor gets their results."""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeVar

from assay.backends.engines.dbos.envelope import Envelope, UnitOutcome, UnitRefused
from assay.backends.engines.dbos.unit_queue import QueuedUnit, UnitQueue, UnitStatus
from assay.backends.engines.local import LocalEngine
from assay.concurrency.event_loop import supervise
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure
from assay.ports.kinds import Perform, unit_scope
from assay.ports.telemetry import telemetry

TICK, AUDIT, PAUSE = 0.03, 3.0, 0.5  # seconds: between two looks, looks for lost units, after a failure
RECORDED = 1024  # results later, a result is in the log: the writer has at most 256 that wait
LEAVE = 20.0  # seconds after the last result of a run until its results are deleted
AGAIN = 0.5  # seconds, more with each try, until a unit goes back that a worker could not do
TRIES = 8  # executions of a unit that ended without a result

log = logging.getLogger("assay.workers")
T = TypeVar("T")


class _Ticket:
    """A unit that waits for its result."""

    def __init__(self, unit: QueuedUnit) -> None:
        self.unit, self.tries = unit, 0
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()


class DbosEngine:
    """
    Queues units and collects their results, for all runs that this process conducts.

    A unit's id is the digest of its work and bytes. A conductor that takes over a run finds the results of units that
    have ended, and waits for those that run: it starts none of them again.

    `performs_here(work, unit)`: the unit only waits for other runs. It is executed here, so that it holds no place of a
    worker.
    """

    def __init__(
        self,
        queue: UnitQueue,
        envelope: Envelope,
        version: str,
        perform: Perform,
        *,
        window: Callable[[], int],
        performs_here: Callable[[str, bytes], bool] = lambda work, unit: False,
    ) -> None:
        self._queue, self._envelope, self._version, self._perform = queue, envelope, version, perform
        self._window, self._performs_here = window, performs_here
        self._waiting: dict[str, _Ticket] = {}
        self._new: list[QueuedUnit] = []
        self._unwanted: list[str] = []  # to cancel
        self._done: list[str] = []  # to delete
        self._leaving: deque[tuple[float, list[str]]] = deque()
        self._news = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self.repeated = 0  # executions beyond the first, of units whose results came back here
        self.refused = 0  # results of executors that had lost the unit

    def open(self) -> None:
        self._pump = supervise("units", self._keep_pumping)

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        self._done += [id for _, ids in self._leaving for id in ids]
        try:
            await run_blocking(lambda: self._send([], self._unwanted, self._done))
        except Exception as trouble:  # noqa: BLE001  # the database is away: a sweep deletes them later
            log.info("units are left in the queue: %s", type(trouble).__name__)

    async def map(self, work: str, units: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        order: deque[str] = deque()  # of the results, oldest first

        async def execute(work: str, unit: bytes) -> bytes:
            if self._performs_here(work, unit):
                return await self._perform(work, unit)
            id = self.id_of(work, unit)
            result = await self._queue_and_wait(work, unit, id)
            order.append(id)
            return result

        try:
            async for result in LocalEngine(execute, self._window(), elsewhere=True).map(work, units):
                yield result
                while len(order) > RECORDED:
                    self._done.append(order.popleft())
        finally:
            if order:
                self._leaving.append((asyncio.get_running_loop().time() + LEAVE, list(order)))
                self._news.set()

    def id_of(self, work: str, unit: bytes) -> str:
        """The id of a unit. Another version of assay has other ids, so it never takes a result for its own."""
        digest = hashlib.blake2b(unit, digest_size=16, person=b"assay.unit")
        digest.update(f"{work}\0{self._version}".encode())
        return f"{work}-{digest.hexdigest()}"

    async def _queue_and_wait(self, work: str, unit: bytes, id: str) -> bytes:
        tenant, priority = unit_scope.get()
        sealed = self._envelope.seal_unit(unit, id, telemetry.current_span())
        ticket = _Ticket(QueuedUnit(id, work, sealed, tenant, priority))
        self._waiting[id] = ticket
        self._new.append(ticket.unit)
        self._news.set()
        try:
            return await ticket.future
        except asyncio.CancelledError:
            self._unwanted.append(id)
            raise
        finally:
            self._waiting.pop(id, None)
            self._news.set()

    async def _keep_pumping(self) -> None:
        loop = asyncio.get_running_loop()
        audited = loop.time()
        while True:
            await self._rest()
            now = loop.time()
            while self._leaving and self._leaving[0][0] <= now:
                self._done += self._leaving.popleft()[1]
            audits = now - audited > AUDIT
            audited = now if audits else audited
            try:
                await self._exchange(audits=audits)
            except Exception as trouble:  # noqa: BLE001  # the database is away: all of it is tried again
                log.info("the queue of units is unavailable: %s", type(trouble).__name__)
                await asyncio.sleep(PAUSE)

    async def _rest(self) -> None:
        """Wait for something to do. The first unit is sent at once, also while results wait to be deleted."""
        if self._waiting:
            await asyncio.sleep(TICK)  # one statement for what comes meanwhile
        elif not (self._new or self._unwanted or self._done):
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), AUDIT / 3 if self._leaving else None)

    async def _exchange(self, *, audits: bool) -> None:
        """Send what is new, and take the results that are there."""
        new, unwanted, done = self._new, self._unwanted, self._done
        self._new, self._unwanted, self._done = [], [], []
        try:
            await run_blocking(self._send, new, unwanted, done)
        except BaseException:
            self._new, self._unwanted, self._done = (
                new + self._new,
                unwanted + self._unwanted,
                done + self._done,
            )
            raise
        ids = list(self._waiting)
        for status in await run_blocking(self._queue.ended, ids):
            self._take(status)
        if audits:
            there = await run_blocking(self._queue.statuses, ids)
            for id in ids:
                if id not in there and (ticket := self._waiting.get(id)) is not None:
                    self._new.append(ticket.unit)  # another conductor has cancelled and deleted it

    def _send(self, new: list[QueuedUnit], unwanted: list[str], done: list[str]) -> None:
        if unwanted:
            self._queue.cancel(unwanted)
        if done:
            self._queue.delete(done)
        if new:
            self._queue.put(new)

    def _take(self, status: UnitStatus) -> None:
        ticket = self._waiting.get(status.id)
        if ticket is None or ticket.future.done():
            return
        if status.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            self._done.append(status.id)
            message = (
                f"a unit of the run is not tried again: {status.attempts - 1} workers in a row died or hung while they"
                " executed it (ASSAY_MAX_RUN_ATTEMPTS)"
            )
            ticket.future.set_exception(UnitRefused(message, "process_lost"))
            return
        outcome = self._open(status)
        if outcome is None or outcome.unavailable is not None:
            self._repeat(ticket, outcome)
            return
        self.repeated += ticket.tries + max(0, status.attempts - 1)
        if outcome.result is not None:
            ticket.future.set_result(outcome.result)
            return
        self._done.append(status.id)  # only results are read twice
        try:
            outcome.unwrap()
        except Exception as error:  # noqa: BLE001  # of the execution: the conductor raises it
            ticket.future.set_exception(error)

    def _open(self, status: UnitStatus) -> UnitOutcome | None:
        """The outcome, if the executor that has the unit wrote it. A late result of another one is refused."""
        if status.status != "SUCCESS":
            return None
        outcome = self._envelope.open_outcome(status.output, status.id)
        if outcome.executor != status.executor:
            self.refused += 1
            return None
        return outcome

    def _repeat(self, ticket: _Ticket, outcome: UnitOutcome | None) -> None:
        """Queue a unit again that ended without a result: it was cancelled, refused, or its worker could not do it."""
        ticket.tries += 1
        self._done.append(ticket.unit.id)
        if ticket.tries < TRIES:
            pause = 0.0 if outcome is None else AGAIN * ticket.tries  # another worker may be able to do it
            asyncio.get_running_loop().call_later(pause, self._put_again, ticket)
            return
        reason = "it was cancelled repeatedly" if outcome is None else outcome.unavailable
        ticket.future.set_exception(
            EnvironmentFailure(f"no worker could execute a unit of the run: {reason}")
        )

    def _put_again(self, ticket: _Ticket) -> None:
        if self._waiting.get(ticket.unit.id) is ticket:
            self._new.append(ticket.unit)
            self._news.set()
