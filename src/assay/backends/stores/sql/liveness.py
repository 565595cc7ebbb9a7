"""Checkpoints of SQLite's write-ahead log in a thread, so that commits do not wait for the disk."""

import asyncio
import os
import sqlite3
import threading
import time
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from assay.backends.stores.sql.connect import RetryPolicy, is_full
from assay.concurrency.event_loop import log_crash
from assay.concurrency.threads import unlimited
from assay.errors import EnvironmentFailure
from assay.errors.storage import DatabaseUnavailable
from assay.ports import store_patience

# bytes after which a checkpoint starts: a page that many commits change is written once
GROWN = 16 * 1024 * 1024
COMPACT_SECONDS = 10.0  # that readers may hold up the truncation of the log
LONG = 8_000  # pages after which the log must restart, for which commits wait a moment


class Log(NamedTuple):
    """The pages of the log, and how many of them are in the database file too."""

    pages: int
    checkpointed: int


class Checkpoints:
    """
    Checkpoints for one writer. Pages that could not be written stay in the log for the next checkpoint.

    During commits a checkpoint is never complete, and the log only grows. Once it is long, the writer's thread itself
    writes the few remaining pages; the next commit then restarts the log.
    """

    def __init__(self, engine: Engine, *, growth: int = GROWN, limit: int = LONG) -> None:
        self._engine, self._ours = engine, engine.dialect.name == "sqlite"
        self._threshold, self._limit = growth, limit
        self._growth = 0
        self._long = False  # the writer's thread should write the rest, so that the log restarts
        self._background: Future[None] | None = None
        self._turn = threading.Lock()  # SQLite refuses a second checkpoint at once

    def grew(self, size: int) -> None:
        """Called after a transaction."""
        self._growth += size
        if (
            self._growth >= self._threshold
            and self._ours
            and (self._background is None or self._background.done())
        ):
            self._growth = 0
            self._background = unlimited().future(self._catch_up)[1]
            self._background.add_done_callback(_log_failure)

    def catch_up(self) -> None:
        """Called before a transaction, on a thread that may wait for the disk."""
        long, self._long = self._long, False
        if long:
            with suppress(sqlite3.Error, SQLAlchemyError):
                self.write_back()

    def empty(self, seconds: float = 0.0) -> bool | None:
        """
        Truncate the log, as far as no reader uses it. It waits that many seconds for readers.

        The result is whether the log is empty; None: the database keeps its log itself.
        """
        if not self._ours:
            return None
        until = time.monotonic() + seconds
        while not (emptied := self._truncate()) and time.monotonic() < until:
            time.sleep(0.05)
        return emptied

    def compact(self) -> bool:
        """Write the database file anew, and truncate the log."""
        if not self._ours:
            return False
        with self._engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            try:
                driver.execute("VACUUM")
            except sqlite3.Error as error:
                raise DBAPIError.instance("VACUUM", None, error, sqlite3.Error) from error
        return bool(self.empty(COMPACT_SECONDS))

    def _truncate(self) -> bool:
        connection = self._engine.raw_connection()
        try:
            with self._turn:
                busy, _, _ = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        finally:
            connection.close()

    def write_back(self) -> Log:
        connection = self._engine.raw_connection()
        try:
            with self._turn:
                _, pages, written = connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return Log(pages, written)
        finally:
            connection.close()

    def close(self) -> None:
        if self._background is not None:
            wait([self._background])

    def _catch_up(self) -> None:
        log = self.write_back()
        if log.pages >= self._limit:
            log = self.write_back()  # what was committed during the first
            self._long = log.checkpointed < log.pages


def _log_failure(future: Future[None]) -> None:
    """Log a failed checkpoint. A later transaction starts the next."""
    if not future.cancelled() and (trouble := future.exception()) is not None:
        log_crash("checkpoint", trouble)


# Asks a database for a sign of life, and notices a SQLite file that was removed or replaced.

T = TypeVar("T")

SECONDS = 1.5  # that a database may take for an answer
SPACE = 1024 * 1024  # bytes that must be free for SQLite's log
FULL = "its disk is full"
TICK = 0.2  # seconds between two looks at the answers that are waited for
_WRITABLE = text("SELECT NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::bool")


class DatabasePing:
    """
    One question at a time, in a thread of its own: it is answered while all readers wait.

    `pools` are emptied when the SQLite file at their path is another one, so that later connections open that. After a
    write that failed for lack of space, the question includes whether there is space again.
    """

    def __init__(self, retry_policy: RetryPolicy, engine: Engine, *pools: Engine) -> None:
        self._retry_policy = retry_policy
        self._engine, self._pools = engine, (engine, *pools)
        self._path = engine.url.database if engine.dialect.name == "sqlite" else None
        self._file = _identity(self._path)
        self._question: Future[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Future[Any], float] = {}  # answers of requests, and when to suspect them
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self) -> None:
        """Raise DatabaseUnavailable if there is no answer in time. Callers at the same time share one question."""
        question = self._question
        if question is None or question.done():
            question = self._question = unlimited().future(self._ask)[1]
        await asyncio.wait({asyncio.wrap_future(question)}, timeout=SECONDS)
        # The thread knows better than the event loop, which may have been late for the answer.
        trouble = question.result() if question.done() else f"no answer within {SECONDS:g} s"
        if trouble:
            raise DatabaseUnavailable(f"the database is unavailable ({trouble})")

    async def wait(self, answer: asyncio.Future[T]) -> T:
        """
        Wait for an answer of the database.

        A request that has waited for a while asks for a sign of life, and gives up without one.

        So a database that hangs is noticed like one that is gone, and a slow one is waited for.
        """
        seconds = store_patience.get()
        if seconds is not None:
            self._waiting[answer] = time.monotonic() + seconds - SECONDS
            if self._timer is None:  # one for all: a timer for each answer would cost more than the wait
                self._timer = answer.get_loop().call_later(TICK, self._look)
        try:
            return await answer
        except EnvironmentFailure:
            self.forget_other_file()
            raise
        finally:
            self._waiting.pop(answer, None)

    def _look(self) -> None:
        """Suspect the answers that have been waited for too long."""
        self._timer, now = None, time.monotonic()
        for answer in [answer for answer, due in self._waiting.items() if due <= now]:
            del self._waiting[answer]
            self._suspect(answer)
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(TICK, self._look)

    def _suspect(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            task = answer.get_loop().create_task(self._give_up(answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _give_up(self, answer: asyncio.Future[Any]) -> None:
        """Fail the answer, unless it comes or the database gives signs of life."""
        while not answer.done():
            try:
                await self.ask()
            except DatabaseUnavailable as unavailable:
                if not answer.done():
                    answer.set_exception(unavailable)
                return
            await asyncio.wait({answer}, timeout=1)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def forget_other_file(self) -> None:
        """Close the idle connections if they belong to a file that is no longer there."""
        if self._path is not None and (there := _identity(self._path)) != self._file:
            self._file = there
            for pool in self._pools:
                pool.dispose()

    def _ask(self) -> str:
        """Why the database cannot be used; an empty text if it can."""
        self.forget_other_file()
        try:
            trouble = self._ask_server() if self._path is None else _ask_file(self._path)
            return trouble or (self._ask_space() if self._retry_policy.full else "")
        except (DBAPIError, sqlite3.Error) as error:
            return type(error).__name__

    def _ask_server(self) -> str:
        try:
            return self._ask_writable()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return self._ask_writable()  # the connection was older than the server

    def _ask_space(self) -> str:
        """Take some space, and give it back. Whatever else is wrong, the next write says."""
        kind = (
            "TEMP" if self._path is None else ""
        )  # of PostgreSQL in the same place: nobody waits for the name
        rows = [{"content": os.urandom(2_000).hex()} for _ in range(16)]
        with self._engine.connect() as connection:
            try:
                connection.execute(text(f"CREATE {kind} TABLE assay_space (content TEXT)"))
                connection.execute(text("INSERT INTO assay_space VALUES (:content)"), rows)
            except DBAPIError as error:
                if is_full(error):
                    return FULL
            finally:
                connection.rollback()
        self._retry_policy.full = False
        return ""

    def _ask_writable(self) -> str:
        with self._engine.connect() as connection:
            return "" if connection.execute(_WRITABLE).scalar() else "it is read-only"


def _ask_file(path: str) -> str:
    """A connection of its own: the cache of an open one would hide what has become of the file."""
    if not Path(path).is_file():
        return "the file is missing"
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return "the file is read-only"
    space = os.statvfs(path)
    if space.f_blocks and space.f_bavail * space.f_frsize < SPACE:
        return FULL
    with closing(
        sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=SECONDS)
    ) as connection:
        connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
    return ""


def _identity(path: str | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


def deliver(future: Future[T], answer: asyncio.Future[T]) -> None:
    """From a thread. The reader may have given up by now."""

    def settle() -> None:
        if answer.done():
            return
        if future.cancelled():
            answer.cancel()
        elif (error := future.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(future.result())

    with suppress(RuntimeError):  # the event loop is closed
        answer.get_loop().call_soon_threadsafe(settle)
