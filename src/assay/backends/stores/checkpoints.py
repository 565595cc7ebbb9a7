"""Checkpoints of SQLite's write-ahead log in a thread, so that commits do not wait for the disk."""

import sqlite3
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from assay.concurrency.event_loop import log_crash

GROWN = (
    16 * 1024 * 1024
)  # bytes after which a checkpoint starts: a page that many commits change is written once
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
        self.due = self._long = (
            False  # the next transaction restarts the log, or should: it waits for the disk
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-store-checkpoint")
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
            self._background = self._thread.submit(self._catch_up)
            self._background.add_done_callback(_log_failure)

    def catch_up(self) -> None:
        """Called before a transaction, on a thread that may wait for the disk."""
        long, self.due, self._long = self._long, False, False
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
        self._thread.shutdown()

    def _catch_up(self) -> None:
        log = self.write_back()
        if log.pages >= self._limit:
            log = self.write_back()  # what was committed during the first
            self._long = log.checkpointed < log.pages
        self.due = self._long or log.checkpointed == log.pages


def _log_failure(future: Future[None]) -> None:
    """Log a failed checkpoint. A later transaction starts the next."""
    if not future.cancelled() and (trouble := future.exception()) is not None:
        log_crash("checkpoint", trouble)
