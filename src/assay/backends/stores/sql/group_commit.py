"""Group commit: a thread writes, and transactions that arrive during a commit are written together in the next one."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from assay.backends.stores.records.failpoints import Reach
from assay.backends.stores.records.transactions import Changes
from assay.backends.stores.sql.connect import RetryPolicy
from assay.backends.stores.sql.liveness import Checkpoints
from assay.backends.stores.sql.writer import Outcome, SqlWriter, UncertainCommit
from assay.concurrency.event_loop import log_crash
from assay.errors import Conflict, EnvironmentFailure, StoreLocked
from assay.errors.storage import DatabaseUnavailable
from assay.ports import Transaction, store_patience

T = TypeVar("T")
Work = Callable[[Connection], Any]

MAX_BATCHES = 256  # in one database transaction
MAX_BYTES = 16 * 1024 * 1024
OVERHEAD = 16 * 1024  # bytes that a transaction writes besides its evidence, about
LOCK_SECONDS = 2.5  # that a request waits for another process's lock; an executor waits longer
RETRY_SECONDS = 0.1  # until a transaction is tried again that was locked, or that the database did not answer


class _Task(NamedTuple):
    """A transaction, which may be written together with others; or other work, which is written alone."""

    work: Transaction | Work
    answer: asyncio.Future[Any]
    since: float
    patience: float | None  # of its request


class GroupCommitter:
    """Writes transactions in groups. The answers of a group reach the event loop together."""

    def __init__(
        self, engine: Engine, writer: SqlWriter, checkpoints: Checkpoints, retry: RetryPolicy, reach: Reach
    ) -> None:
        self._engine, self._writer, self._retry, self._reach = engine, writer, retry, reach
        self._checkpoints = checkpoints
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Task] = deque()
        self._news = threading.Condition()
        self._closed = False
        self._later: list[_Task] = []  # locked by another process; only the thread uses it
        self._next_write = 0.0
        self._thread = threading.Thread(target=self._serve, name="assay-store-writer", daemon=True)
        self._thread.start()

    def write(self, batch: Transaction) -> asyncio.Future[Changes]:
        return self._enqueue(batch)

    def do(self, statement: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Run work in its own database transaction. It may run twice if the connection is lost."""
        return self._enqueue(statement)

    def close(self) -> None:
        """Write the queue, then stop the thread."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()

    def _enqueue(self, work: Transaction | Work) -> asyncio.Future[Any]:
        task = _Task(work, self._loop.create_future(), time.monotonic(), store_patience.get())
        with self._news:
            if self._closed:
                raise EnvironmentFailure("the store is closed")
            self._queue.append(task)
            self._news.notify()
        return task.answer

    def _serve(self) -> None:
        while self._wait():
            self._write_some()

    def _wait(self) -> bool:
        """Wait until the thread has something to write; False at the end."""
        with self._news:
            while not self._closed and not self._queue:
                left = self._next_write - time.monotonic()
                if self._later and left <= 0:
                    break
                self._news.wait(left if self._later else None)
            if self._closed or time.monotonic() >= self._next_write:
                self._queue.extendleft(reversed(self._later))
                self._later.clear()
            return bool(self._queue)

    def _write_some(self) -> None:
        group = [task for task in self._next_group() if not task.answer.done()]
        if not group:
            return
        try:
            self._checkpoints.catch_up()
            self._reach("commit.before")
            self._settle(group)
            self._reach("commit.acknowledged")
            self._checkpoints.grew(sum(OVERHEAD + _weight(task.work) for task in group))
        except Exception as surprise:  # noqa: BLE001 - a bug in assay or a driver: callers must not wait for ever
            log_crash("writer", surprise)
            self._resolve_on_loop(group, [surprise] * len(group))  # callers with an answer are skipped

    def _next_group(self) -> list[_Task]:
        """Take the next group off the queue, in order."""
        with self._news:
            group: list[_Task] = []
            weight = 0
            while self._queue and len(group) < MAX_BATCHES:
                work = self._queue[0].work
                weight += _weight(work) if isinstance(work, Transaction) else MAX_BYTES
                if group and weight >= MAX_BYTES:
                    break
                group.append(self._queue.popleft())
            return group

    def _settle(self, group: Sequence[_Task]) -> None:
        work = group[0].work
        try:
            if isinstance(work, Transaction):
                self._conclude(group, self._write(group))
            else:
                until = time.monotonic() + RETRY_SECONDS
                self._conclude(group, [self._retry.over(lambda: self._execute(work), until=lambda: until)])
        except StoreLocked as locked:
            if len(group) == 1:
                self._conclude(group, [locked])
            else:
                self._write_each(group)  # one waits for another process; the others need not
        except EnvironmentFailure as failure:
            self._conclude(group, [failure] * len(group))
        except IntegrityError:
            self._write_each(group)  # another process wrote the same, or two of these conflict

    def _write_each(self, group: Sequence[_Task]) -> None:
        for task in group:
            self._conclude([task], [self._write_alone(task)])

    def _conclude(self, group: Sequence[_Task], outcomes: Sequence[Any]) -> None:
        """
        Answer the callers. What is locked, or what the database did not answer, is retried until its time limit.

        The thread does not wait for the database meanwhile: a request behind an executor's transaction has a shorter
        time limit.
        """
        done: list[tuple[_Task, Any]] = []
        now = time.monotonic()
        for task, outcome in zip(group, outcomes, strict=True):
            retried = isinstance(outcome, StoreLocked | DatabaseUnavailable)
            if (
                retried
                and not self._closed
                and now < self._deadline_of(task, locked=isinstance(outcome, StoreLocked))
            ):
                self._later.append(task)
                self._next_write = now + RETRY_SECONDS
            else:
                done.append((task, outcome))
        self._resolve_on_loop([task for task, _ in done], [outcome for _, outcome in done])

    def _deadline_of(self, task: _Task, *, locked: bool) -> float:
        """The time limit of a task: an executor may wait longer than a request."""
        if isinstance(task.work, Transaction) and any(entry.holder for entry in task.work.entries):
            return task.since + self._retry.seconds
        seconds = LOCK_SECONDS if locked else task.patience
        return task.since + (self._retry.seconds if seconds is None else min(seconds, self._retry.seconds))

    def _write(self, group: Sequence[_Task]) -> list[Outcome]:
        batches = [task.work for task in group if isinstance(task.work, Transaction)]
        uncertain, soon = UncertainCommit(), time.monotonic() + RETRY_SECONDS
        longest = max(self._deadline_of(task, locked=False) for task in group)

        def until() -> float:  # a commit with an unknown outcome must not be written again as if it were new
            return soon if uncertain.transaction is None else longest

        try:
            return self._retry.over(lambda: self._writer.write(batches, uncertain), until=until)
        except DatabaseUnavailable as unavailable:
            if uncertain.transaction is None:
                raise
            raise EnvironmentFailure("the outcome of a commit is unknown") from unavailable

    def _write_alone(self, task: _Task) -> Outcome | EnvironmentFailure:
        for _ in range(3):
            try:
                return self._write([task])[0]
            except EnvironmentFailure as failure:
                return failure
            except IntegrityError:
                continue  # now the other process's write is visible
        return Conflict("exists", "batch", "some of its evidence exists already")

    def _resolve_on_loop(self, group: Sequence[_Task], outcomes: Sequence[Any]) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(_resolve, group, outcomes)

    def _execute(self, work: Work) -> Any:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            return work(connection)


def _weight(work: Transaction | Work) -> int:
    if not isinstance(work, Transaction):
        return 0
    size = 0
    for entry in work.entries:
        for piece in entry.evidence:
            size += len(piece.data)
    return size


def _resolve(group: Sequence[_Task], outcomes: Sequence[Any]) -> None:
    for task, outcome in zip(group, outcomes, strict=True):
        if task.answer.done():
            continue  # its caller was cancelled
        if isinstance(outcome, Exception):
            task.answer.set_exception(outcome)
        else:
            task.answer.set_result(outcome)
