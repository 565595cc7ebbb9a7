"""
Group commit: all that came while the last was written goes into one transaction.

A thread writes. Into SQLite's file, what opens runs and asks nothing of the ones that are there is written by the event loop itself, if
nobody else is at it and the lock is free: the two would take turns with Python, and wait for each other longer than they write.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from assay.backends.stores.apply import Changes
from assay.backends.stores.checkpoints import Checkpoints
from assay.backends.stores.connect import RetryPolicy
from assay.backends.stores.failpoints import Reach
from assay.backends.stores.sql_writer import Outcome, SqlWriter, UncertainCommit
from assay.errors import Conflict, EnvironmentFailure, Locked
from assay.ports import Transaction
from assay.ports.supervise import log_crash

T = TypeVar("T")
Work = Callable[[Connection], Any]

MOST_BATCHES = 256  # in one transaction
ENOUGH = 8  # that it is worth beginning with
MOST_BYTES = 16 * 1024 * 1024
MOST_HERE = 1024 * 1024  # bytes that the event loop itself writes
LOOKS = 3  # turns of the event loop in which more may come
BESIDE = 16 * 1024  # bytes that a batch writes beside its evidence, about
AT_MOST = 2.5  # seconds that a request waits for what another process is writing; who conducts a run has more patience
AGAIN = 0.1  # seconds until that is tried again


class _Task(NamedTuple):
    """A batch, which may be written together with others; or other work, which has a transaction of its own."""

    what: Transaction | Work
    answer: asyncio.Future[Any]
    since: float


class GroupCommitter:
    """Its answers are for the event loop it was made in; those of one transaction come there together."""

    def __init__(
        self, engine: Engine, scribe: SqlWriter, checkpoints: Checkpoints, patience: RetryPolicy, reach: Reach
    ) -> None:
        self._engine, self._scribe, self._patience, self._reach = engine, scribe, patience, reach
        self._checkpoints = checkpoints
        self._loop = asyncio.get_running_loop()
        self._given: deque[_Task] = deque()
        self._news = threading.Condition()
        self._pen = threading.Lock()  # whoever takes of what is given, until it is written
        self._closed = self._waking = False
        self._threads = True  # whether what is given is the thread's to write
        self._looks = self._seen = 0
        self._later: list[_Task] = []  # what another process has locked; only the thread sees it
        self._due = 0.0
        self._thread = threading.Thread(target=self._serve, name="assay-store-writer", daemon=True)
        self._thread.start()

    def write(self, batch: Transaction) -> asyncio.Future[Changes]:
        return self._give(batch)

    def do(self, work: Callable[[Connection], T]) -> asyncio.Future[T]:
        """Work in a transaction of its own. It may be done twice, if the database went away the first time."""
        return self._give(work)

    def close(self) -> None:
        """Write what was given, then end."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()

    def _give(self, what: Transaction | Work) -> asyncio.Future[Any]:
        task = _Task(what, self._loop.create_future(), time.monotonic())
        with self._news:
            if self._closed:
                raise EnvironmentFailure("the store is closed")
            self._given.append(task)
            if len(self._given) == ENOUGH and self._threads:
                self._news.notify()
        if not self._waking:  # once the loop has done what it is at: others may give something too
            self._waking = True
            self._loop.call_soon(self._wake)
        return task.answer

    def _wake(self) -> None:
        if not self._threads and self._more_comes():
            self._loop.call_soon(self._wake)
            return
        self._waking = False
        if not self._pen.acquire(blocking=False):
            return  # the thread is writing, and will ask for this again
        done = False
        try:
            done = not self._threads and self._write_here()
        finally:
            self._pen.release()
            if not done:
                with self._news:
                    self._threads = True
                    self._news.notify()

    def _more_comes(self) -> bool:
        """Whether something came in the last turn of the loop: then more may come in the next, and a transaction for many costs less."""
        came, self._seen = len(self._given) > self._seen, len(self._given)
        self._looks += 1
        if came and self._looks <= LOOKS:
            return True
        self._looks = self._seen = 0
        return False

    def _write_here(self) -> bool:
        """Write all that is given in the event loop; no: that is for the thread, and nothing was written."""
        if not self._given:
            return True
        group = [task for task in self._given if not task.answer.cancelled()]
        batches = [task.what for task in group if isinstance(task.what, Transaction)]
        size = sum(map(_weight, batches))
        if len(batches) < len(group) or len(batches) > MOST_BATCHES or size > MOST_HERE:
            return False
        if self._checkpoints.due or not self._scribe.asks_nothing(batches):
            return False
        self._reach("commit.before")
        outcomes = self._scribe.write_here(batches)
        if outcomes is None:
            return False
        with self._news:
            self._given.clear()
        _tell(group, outcomes)
        self._reach("commit.told")
        self._checkpoints.grew(BESIDE * len(batches) + size)
        return True

    def _serve(self) -> None:
        while self._wait():
            with self._pen:
                self._write_some()
            with self._news:
                self._threads = not self._scribe.here
                if self._given and not self._threads:
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._wake)

    def _wait(self) -> bool:
        """Until something is the thread's to write; no: it is the end."""
        with self._news:
            while not self._closed and not (self._given and self._threads):
                left = self._due - time.monotonic()
                if self._later and left <= 0:
                    break
                self._news.wait(left if self._later else None)
            if self._closed or time.monotonic() >= self._due:
                self._given.extendleft(reversed(self._later))
                self._later.clear()
            return bool(self._given)

    def _write_some(self) -> None:
        group = [task for task in self._take() if not task.answer.cancelled()]
        if not group:
            return
        try:
            self._checkpoints.catch_up()
            self._reach("commit.before")
            self._settle(group)
            self._reach("commit.told")
            self._checkpoints.grew(sum(BESIDE + _weight(task.what) for task in group))
        except Exception as surprise:  # noqa: BLE001 - a bug of ours or of a driver: nobody may wait for ever
            log_crash("writer", surprise)
            self._tell(group, [surprise] * len(group))  # those who were told are not told again

    def _take(self) -> list[_Task]:
        """What goes into the next transaction, in the order given."""
        with self._news:
            group: list[_Task] = []
            weight = 0
            while self._given and len(group) < MOST_BATCHES:
                what = self._given[0].what
                weight += _weight(what) if isinstance(what, Transaction) else MOST_BYTES
                if group and weight >= MOST_BYTES:
                    break
                group.append(self._given.popleft())
            return group

    def _settle(self, group: Sequence[_Task]) -> None:
        work = group[0].what
        try:
            if isinstance(work, Transaction):
                self._conclude(group, self._write(group))
            else:
                self._conclude(group, [self._patience.over(lambda: self._do(work), since=group[0].since)])
        except Locked as locked:
            if len(group) == 1:
                self._conclude(group, [locked])
            else:
                self._write_each(group)  # one of these waits for another process, and the others need not
        except EnvironmentFailure as broken:
            self._conclude(group, [broken] * len(group))
        except IntegrityError:
            self._write_each(group)  # another process wrote the same, or one of these is at odds with another

    def _write_each(self, group: Sequence[_Task]) -> None:
        for task in group:
            self._conclude([task], [self._write_alone(task)])

    def _conclude(self, group: Sequence[_Task], outcomes: Sequence[Any]) -> None:
        """Tell what came of each; what another process has locked is tried again, as long as its caller has patience."""
        done: list[tuple[_Task, Any]] = []
        now = time.monotonic()
        for task, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Locked) and not self._closed and now < self._until(task):
                self._later.append(task)
                self._due = now + AGAIN
            else:
                done.append((task, outcome))
        self._tell([task for task, _ in done], [outcome for _, outcome in done])

    def _until(self, task: _Task) -> float:
        conducted = isinstance(task.what, Transaction) and any(entry.holder for entry in task.what.entries)
        return task.since + (self._patience.seconds if conducted else AT_MOST)

    def _write(self, group: Sequence[_Task]) -> list[Outcome]:
        batches = [task.what for task in group if isinstance(task.what, Transaction)]
        doubt = UncertainCommit()
        return self._patience.over(lambda: self._scribe.write(batches, doubt), since=group[0].since)

    def _write_alone(self, task: _Task) -> Outcome | EnvironmentFailure:
        for _ in range(3):
            try:
                return self._write([task])[0]
            except EnvironmentFailure as broken:
                return broken
            except IntegrityError:
                continue  # by now it can be seen what another process wrote
        return Conflict("exists", "batch", "some of its evidence is there already")

    def _tell(self, group: Sequence[_Task], outcomes: Sequence[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_tell, group, outcomes)

    def _do(self, work: Work) -> Any:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            return work(connection)


def _weight(what: Transaction | Work) -> int:
    if not isinstance(what, Transaction):
        return 0
    size = 0
    for entry in what.entries:
        for piece in entry.evidence:
            size += len(piece.data)
    return size


def _tell(group: Sequence[_Task], outcomes: Sequence[Any]) -> None:
    for task, outcome in zip(group, outcomes, strict=True):
        if task.answer.done():
            continue  # its caller was cancelled meanwhile
        if isinstance(outcome, Exception):
            task.answer.set_exception(outcome)
        else:
            task.answer.set_result(outcome)
