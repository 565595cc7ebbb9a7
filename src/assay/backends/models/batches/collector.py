"""Collects the calls of a run into batches of one provider, follows the batches, and answers the calls."""

import asyncio
import hashlib
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TypeVar

from assay.backends.models.batches.followed_batch import FollowedBatch, WaitingCall
from assay.backends.models.batches.journal import OrphanAnswers
from assay.backends.models.provider_faults import Rejected
from assay.concurrency.parking import parked
from assay.errors import CostReached, Fault, ForeignFault
from assay.ports import Provider
from assay.ports.batches import (
    BatchAnswers,
    BatchOptions,
    BatchProvider,
    BatchRequest,
    BatchResponse,
    OpenBatch,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

BATCH_BYTES = 64 * 1024 * 1024  # of the bodies in one batch; both providers take more
QUIET = 10.0  # seconds without another call until a batch is submitted, if `batch_poll` is not shorter
ROUNDS = 12  # of quiet that are waited for at most
CANCEL_SECONDS = 10.0  # for cancelling at the end of a run


class SingleCall(Exception):
    """The batch took longer than the caller wants to wait: the call is to be made by itself."""


class _Unknown(Exception):
    """A batch may have been submitted: the provider gave no answer, also when it was asked whether it has it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class BatchCollector:
    """
    The batches of one provider, on one event loop.

    Calls are collected until there are enough, or no more come. What waits is bounded by the window of the run.
    """

    def __init__(self, backend: BatchProvider, provider: Provider, options: BatchOptions) -> None:
        self._backend, self._provider, self._options = backend, provider, options
        self._budget = options.budget
        whose = f"{provider.name}\0{provider.kind}\0{provider.base_url}"
        self._salt = whose.encode(errors="surrogatepass")
        self._journal = options.journals.journal(hashlib.sha256(self._salt).hexdigest()[:16])
        self._pending: deque[WaitingCall] = deque()
        self._followed: dict[str, FollowedBatch] = {}
        self._orphans = OrphanAnswers(())
        self._arrivals = self._unanswered = 0
        self._full, self._settled = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._submitting: set[asyncio.Task[None]] = set()
        self._collecting: asyncio.Task[None] | None = None
        self._recovery = asyncio.ensure_future(self._recover())

    async def ask(self, model: str, body: bytes, estimate: float) -> BatchResponse | None:
        """The answer to one call; None: its batch ended without it. The caller then settles the estimate."""
        digest = hashlib.sha256(self._salt + body).hexdigest()[:40]
        self._arrivals += 1
        call = WaitingCall(self._arrivals, model, body, digest, estimate)
        self._unanswered += 1
        with parked():
            await asyncio.shield(self._recovery)
            if (orphan := self._orphans.take(digest)) is not None:
                batch, request = orphan
                self._budget.reserve(estimate)
                self._followed[batch.name].join(request, call)
                self._follow(self._followed[batch.name])
            else:
                self._pending.append(call)
                if len(self._pending) >= self._provider.batch_requests:
                    self._full.set()
                if self._collecting is None:
                    self._collecting = self._start(self._collect())
            try:
                answer = await call.answer
            except (
                CostReached
            ):  # its case, and those after it, may get no result: the answers stay in the journal
                raise
            except (Fault, SingleCall):
                self._unanswered -= 1
                raise
        self._unanswered -= 1
        return answer

    def settle(self, estimate: float, cost: float) -> None:
        self._budget.settle(estimate, cost)
        self._settled.set()

    async def close(self) -> None:
        """
        Cancel what the run no longer waits for.

        Batches whose answers may not be in a result stay in the journal: a run that continues takes what they answered.
        """
        if self._submitting:  # else a batch would go on that nothing knows
            await asyncio.wait(self._submitting, timeout=CANCEL_SECONDS)
        under_way = [one for one in self._followed.values() if one.under_way]
        for task in (*self._tasks, self._recovery):
            task.cancel()
        await asyncio.gather(*self._tasks, self._recovery, return_exceptions=True)
        for one in under_way:
            with suppress(Fault, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    if (
                        await self._journal.write(one.batch) and one.batch.id
                    ):  # else another process waits for it
                        await self._backend.cancel(one.batch.id)
        if not self._unanswered and not under_way:
            for one in self._followed.values():
                if one.ended:
                    await self._forget(one.batch)
        for one in self._followed.values():
            one.close()
        await self._journal.close()

    async def _recover(self) -> None:
        """Find the batches that dead processes left, also those whose submission they could not record."""
        batches = await self._journal.open()
        known = {batch.id for batch in batches}
        found: list[OpenBatch] = []
        for batch in batches:
            candidates = [batch.id]
            if not batch.id:
                candidates = await self._patient(lambda batch=batch: self._find(batch, known))
            if candidates:
                found.append(batch)
                self._followed[batch.name] = FollowedBatch(batch, candidates, None)
            else:
                await self._forget(batch)
        self._orphans = OrphanAnswers(found)

    async def _find(self, batch: OpenBatch, known: set[str]) -> list[str]:
        """The ids that a batch may have. None: it was not submitted. A fault: that is not known."""
        try:
            listed = await self._backend.find(batch.name, count=len(batch.requests), since=batch.at)
        except Rejected:
            return []  # it cannot be asked
        return [id for id in listed if id not in known]

    async def _collect(self) -> None:
        """Submit batches until no call waits."""
        while self._pending:
            await self._quiet()
            group = self._next_group()
            if group:
                task = self._start(self._submit(group))
                self._submitting.add(task)
                task.add_done_callback(self._submitting.discard)
            elif self._pending and self._budget.reserved:
                self._settled.clear()
                await self._settled.wait()
            else:
                self._budget.refused = self._budget.refused or bool(self._pending)
                for call in self._pending:
                    call.resolve(CostReached())
                self._pending.clear()
        self._collecting = None

    async def _quiet(self) -> None:
        """Wait until enough calls are there, or no more come."""
        for _ in range(ROUNDS):
            arrivals = self._arrivals
            self._full.clear()
            if len(self._pending) >= self._provider.batch_requests:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), min(QUIET, self._provider.batch_poll))
            if arrivals == self._arrivals:
                return

    def _next_group(self) -> list[WaitingCall]:
        """The next calls of one model that a batch and the money can hold. A call that was given up is left out."""
        self._pending = deque(sorted(self._pending, key=lambda call: call.number))
        group: list[WaitingCall] = []
        others: deque[WaitingCall] = deque()
        size = 0
        while self._pending and len(group) < self._provider.batch_requests and size < BATCH_BYTES:
            call = self._pending.popleft()
            if call.answer.done():
                continue
            if group and call.model != group[0].model:
                others.append(call)
                continue
            if not self._budget.admits(call.estimate):
                self._pending.appendleft(call)
                break
            self._budget.reserve(call.estimate)
            group.append(call)
            size += len(call.body)
        self._pending.extendleft(reversed(others))
        return group

    async def _submit(self, calls: list[WaitingCall]) -> None:
        counts: Counter[str] = Counter()
        waiting: dict[str, WaitingCall] = {}
        for call in calls:
            waiting[f"{call.digest}-{counts[call.digest]}"] = call
            counts[call.digest] += 1
        name = secrets.token_hex(12)
        batch = OpenBatch(name=name, requests=list(waiting), at=time.time())
        followed = self._followed[name] = FollowedBatch(batch, [], waiting)
        try:
            await self._journal.write(batch)
            requests = [BatchRequest(id, call.body) for id, call in waiting.items()]
            followed.candidates = await self._submitted(batch, requests)
            if not await self._journal.write(batch):
                if batch.id:
                    await self._backend.cancel(batch.id)
                raise ForeignFault("another process has taken this run over")
        except _Unknown as unknown:  # the next run asks the provider again
            del self._followed[name]
            await followed.end(unknown.fault)
            return
        except Fault as fault:
            await self._forget(batch)
            del self._followed[name]
            await followed.end(fault)
            return
        if batch.id:
            self._notify(batch, f"has {len(calls)} calls")
        for call in calls:
            call.body = b""
        self._follow(followed)

    async def _submitted(self, batch: OpenBatch, requests: list[BatchRequest]) -> list[str]:
        """Submit once, and return the ids that the batch may have. If an answer got lost, ask the provider for it."""
        known = {one.batch.id for one in self._followed.values()}
        trouble: Fault | None = None
        for _ in range(self._provider.max_retries + 1):
            try:
                return [await self._backend.submit(batch.name, requests)]
            except Fault as fault:
                if not fault.recoverable:
                    raise
                trouble = fault
                log.info("provider %s: a batch may not be submitted: %s", self._provider.name, fault)
            await asyncio.sleep(self._provider.batch_poll)
            try:
                found = await self._find(batch, known)
            except Fault:
                raise _Unknown(trouble) from None
            if found:
                return found
        assert trouble is not None
        raise trouble

    def _follow(self, followed: FollowedBatch) -> None:
        if followed.task is None:
            if followed.inherited and followed.batch.id:
                self._notify(followed.batch, "was submitted by an earlier run, and is taken over")
            followed.task = self._start(self._watch(followed))

    async def _watch(self, followed: FollowedBatch) -> None:
        """Look at a batch until it ends, and answer its calls. Of several candidates, the one that has its requests."""
        wanted = set(followed.batch.requests)
        late = False
        answers: BatchAnswers | None = None
        try:
            for id in followed.candidates:
                late = await self._until_ended(followed, id) or late
                followed.close()  # of another candidate
                answers = followed.read = await self._patient(lambda id=id: self._backend.responses(id))
                if wanted & answers.ids():
                    followed.batch.id = id
                    break
        except (Fault, SingleCall) as end:
            await followed.end(end)
            return
        assert answers is not None
        unanswered = followed.waiting.keys() - answers.ids()
        if late:
            for request in unanswered:
                followed.waiting[request].resolve(SingleCall())
        many = len(unanswered)
        self._notify(followed.batch, "ended" + (f"; {many} calls were not answered" if many else ""))
        await followed.end(answers)

    async def _until_ended(self, followed: FollowedBatch, id: str) -> bool:
        """Wait for the end of a batch. Whether it was cancelled because the caller does not want to wait longer."""
        late = False
        while True:
            state = await self._patient(lambda: self._backend.state(id))
            if state.problem:
                raise ForeignFault(f"provider {self._provider.name!r} refused a batch: {state.problem}")
            if state.ended:
                return late
            limit = self._options.single_after
            if limit is not None and not late and time.time() - followed.batch.at >= limit:
                if not followed.batch.id:  # it may be a batch of another process
                    raise SingleCall
                late = True
                await self._patient(lambda: self._backend.cancel(id))
            await asyncio.sleep(self._provider.batch_poll)

    async def _patient(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: a provider that is away for a while has the batch still."""
        while True:
            try:
                return await ask()
            except Fault as fault:
                if not fault.recoverable:
                    raise
                log.info("provider %s: a batch cannot be looked at: %s", self._provider.name, fault)
            await asyncio.sleep(self._provider.batch_poll)

    def _notify(self, batch: OpenBatch, text: str) -> None:
        self._options.notify(f"batch {batch.id} of provider {self._provider.name!r} {text}")

    async def _forget(self, batch: OpenBatch) -> None:
        batch.closed = True
        with suppress(Fault):  # then a later run looks at it once more
            await self._journal.write(batch)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
