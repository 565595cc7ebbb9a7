"""SQLite's log is written back into the file beside the commits: they go on meanwhile, and do not wait for the disk."""

import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from assay.ports.supervise import log_crash

GROWN = 16 * 1024 * 1024  # bytes that are worth writing back: what many commits change is written once
LONG = 8_000  # pages in the log after which it is to begin anew, for which commits wait a moment


class Log(NamedTuple):
    """How many pages it has, and how many of them are in the file too."""

    pages: int
    written: int


class Checkpoints:
    """
    One writer's. What could not be written back stays in the log, and is written back later.

    While commits go on, the log is never all written back, and only grows. So once it is long the writer's thread itself does what little
    is left; the commit after that begins the log anew.
    """

    def __init__(self, engine: Engine, *, grown: int = GROWN, long: int = LONG) -> None:
        self._engine, self._ours = engine, engine.dialect.name == "sqlite"
        self._enough, self._most = grown, long
        self._grown = 0
        self.due = self._long = (
            False  # the next transaction begins the log anew, or should: it waits for the disk
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-store-checkpoint")
        self._beside: Future[None] | None = None
        self._turn = threading.Lock()  # where one is at it, SQLite turns another away at once

    def grew(self, size: int) -> None:
        """Called after a transaction."""
        self._grown += size
        if self._grown >= self._enough and self._ours and (self._beside is None or self._beside.done()):
            self._grown = 0
            self._beside = self._thread.submit(self._catch_up)
            self._beside.add_done_callback(_told)

    def catch_up(self) -> None:
        """Called before a transaction, where nothing is held up by waiting for the disk."""
        long, self.due, self._long = self._long, False, False
        if long:
            with suppress(sqlite3.Error, SQLAlchemyError):
                self.write_back()

    def empty(self) -> None:
        """What the log holds is gone from it, as far as nobody is reading it."""
        if self._ours:
            self.write_back("TRUNCATE")

    def write_back(self, mode: str = "PASSIVE") -> Log:
        connection = self._engine.raw_connection()
        try:
            with self._turn:
                _, pages, written = connection.cursor().execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            return Log(pages, written)
        finally:
            connection.close()

    def close(self) -> None:
        self._thread.shutdown()

    def _catch_up(self) -> None:
        log = self.write_back()
        if log.pages >= self._most:
            log = self.write_back()  # what was committed meanwhile, which is less
            self._long = log.written < log.pages
        self.due = self._long or log.written == log.pages


def _told(done: Future[None]) -> None:
    """The next transaction that makes it grow tries again."""
    if not done.cancelled() and (trouble := done.exception()) is not None:
        log_crash("checkpoint", trouble)
