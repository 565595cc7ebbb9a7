"""One database behind an address: how it is opened, and what its errors mean."""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from assay.errors import EnvironmentFailure, Locked, UsageError

T = TypeVar("T")

BUSY_SECONDS = 5
STATEMENTS = 256  # of SQLite that a connection keeps ready: one for every table and every number of rows

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "journal_size_limit=67108864",
    "wal_autocheckpoint=16000",  # pages, should nobody have written them back before (Checkpoints)
    "secure_delete=ON",  # what is deleted is gone from the file too
)

# What passes: the server stops, starts or is out of connections; two writers met. By SQLSTATE, or its class.
_PASSING = ("08", "25P03", "40", "53300", "55000", "57P01", "57P02", "57P03", "57P05")
_LOCKED = "55P03"
_HOPELESS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied")


def open_engine(address: str, connections: int = 1) -> Engine:
    """`sqlite:///file.db` or `postgresql://…`; at most so many connections at a time."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # not to be repeated: it may hold a password
        raise UsageError("the database's address is no URL; sqlite:///runs.db is one") from None
    match url.get_backend_name():
        case "sqlite":
            return _sqlite(url, connections)
        case "postgresql":
            return _postgres(url, connections)
        case other:
            raise UsageError(f"no store for {other!r}; there are sqlite:///FILE, postgresql://… and memory:")


def _sqlite(url: URL, connections: int) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise UsageError("a SQLite store is a file; for one that is forgotten say memory:")
    _make_private(url.database)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        connect_args={"timeout": BUSY_SECONDS, "cached_statements": STATEMENTS},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # BEGIN is ours to say: sqlite3 would say it too late
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        # a writer that begins as a reader is turned away when it wants to write, busy timeout or not
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _make_private(file: str) -> None:
    """One that is not there yet is made for us alone, and SQLite's files beside it are as it is."""
    with suppress(OSError):  # it is there, and its owner's business; or cannot be made, and SQLite says why
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


# A process that stands still in the middle of a transaction holds up nobody for longer. What an operator set is left as it is.
_TIMEOUTS = """
    SELECT set_config(name, value, false)
    FROM (VALUES ('lock_timeout', '500ms'), ('idle_in_transaction_session_timeout', '2s'), ('statement_timeout', '30s'))
        AS expected (name, value)
    WHERE current_setting(name) = '0'
"""
UNHURRIED = (
    "SELECT set_config(name, '0', true) FROM unnest(ARRAY['lock_timeout', 'statement_timeout']) AS name"
)


def _postgres(url: URL, connections: int) -> Engine:
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_size=connections,
        max_overflow=0,
        connect_args={
            "connect_timeout": 5,
            "application_name": "assay",
            "keepalives_idle": 30,
            "tcp_user_timeout": 15_000,
        },
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.execute(_TIMEOUTS)
        connection.commit()

    return engine


class RetryPolicy:
    """Does again what failed for a passing reason, for so long; then says plainly what is wrong."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._gone = threading.Event()

    def lose(self) -> None:
        """The store closes: try no more."""
        self._gone.set()

    def over(self, work: Callable[[], T], *, since: float | None = None) -> T:
        """What `work` returns in the end. Lets through what is no trouble of the database, and broken rules of it."""
        deadline = (time.monotonic() if since is None else since) + self.seconds
        pause = 0.02
        while True:
            try:
                return work()
            except IntegrityError:
                raise
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == _LOCKED:
                    raise Locked("the database") from error
                passing = _passes(error)
                if not passing or time.monotonic() + pause > deadline or self._gone.is_set():
                    raise EnvironmentFailure(_plainly(error, passing)) from error
            self._gone.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that many do not come back as one
            pause = min(1.0, pause * 2)


def _passes(error: DBAPIError) -> bool:
    original: Any = error.orig
    if isinstance(original, sqlite3.Error):
        return getattr(original, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    state = getattr(original, "sqlstate", None)
    if state is not None:
        return state.startswith(_PASSING)
    return not any(said in str(original) for said in _HOPELESS)  # no answer at all: the server is away


def _plainly(error: DBAPIError, passing: bool) -> str:
    original: Any = error.orig
    primary = getattr(getattr(original, "diag", None), "message_primary", None)  # its details may quote a row
    said = " ".join(str(primary or original).split())
    if (
        getattr(original, "sqlite_errorname", "") == "SQLITE_FULL"
        or getattr(original, "sqlstate", "") == "53100"
    ):
        return f"the disk of the database is full; nothing was written ({said})"
    if passing:
        return f"the database does not answer, tried again and again ({said})"
    return f"the database refused: {said}"
