"""Opens databases by URL, and classifies their errors."""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool

from assay.backends.stores.records.sqlite_schema import BUSY_SECONDS, PRAGMAS, make_private
from assay.errors import EnvironmentFailure, StoreLocked, UsageError
from assay.errors.storage import DatabaseUnavailable

T = TypeVar("T")

STATEMENTS = 256  # prepared statements per SQLite connection: one per table and number of rows

# Temporary errors by SQLSTATE or class: the server stops, starts or is out of connections; a serialization failure.
_PASSING = ("08", "25P03", "40", "53300", "55000", "57P01", "57P02", "57P03", "57P05")
_LOCKED = "55P03"
_HOPELESS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied")


def open_engine(address: str, connections: int = 1) -> Engine:
    """Open `sqlite:///file.db` or `postgresql://…` with at most that many connections."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):  # not quoted: it may contain a password
        raise UsageError("database_url: expected a URL, such as sqlite:///runs.db") from None
    match url.get_backend_name():
        case "sqlite":
            return _sqlite(url, connections)
        case "postgresql":
            return _postgres(url, connections)
        case other:
            raise UsageError(f"there is no SQL store for {other!r}")


def _sqlite(url: URL, connections: int) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise UsageError("expected a file for SQLite; for a store in memory use memory:")
    make_private(url.database)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        connect_args={"timeout": BUSY_SECONDS, "cached_statements": STATEMENTS},
    )

    @event.listens_for(engine, "do_connect")
    def refuse_missing_file(*_: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        if not os.path.exists(url.database or ""):  # SQLite would create an empty database
            raise sqlite3.OperationalError("unable to open database file: it is missing")

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.isolation_level = None  # BEGIN is explicit below: sqlite3 would send it too late
        for pragma in ("journal_mode=WAL", *PRAGMAS):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        # a transaction that begins as a reader fails when it starts to write, in spite of the busy timeout
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def with_snapshots(engine: Engine) -> Engine:
    """
    The same connections, with one snapshot for all statements of a transaction. On SQLite each transaction has one.

    Without it, a run that changes its status between two statements can be in neither of their answers.
    """
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


# A process that hangs inside a transaction blocks others no longer than this. The operator's own settings take
# precedence.
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
            "connect_timeout": 2,
            "application_name": "assay",
            "keepalives_idle": 30,
            "tcp_user_timeout": 5_000,
        },
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        connection.execute(_TIMEOUTS)
        connection.commit()

    return engine


class RetryPolicy:
    """Retries temporary failures for `seconds`, then raises DatabaseUnavailable; others EnvironmentFailure at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._abandoned = threading.Event()
        self.full = False  # whether a write has failed for lack of space, and none has been possible since

    def lose(self) -> None:
        """The store closes: try no more."""
        self._abandoned.set()

    def over(self, call: Callable[[], T], *, until: Callable[[], float] | None = None) -> T:
        """Run `call` with retries. Integrity errors, and exceptions of other kinds, pass through."""
        latest = time.monotonic() + self.seconds
        pause = 0.02
        while True:
            try:
                return call()
            except IntegrityError:
                raise
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == _LOCKED:
                    raise StoreLocked("the database") from error
                self.full = self.full or is_full(error)
                if not _passes(error):
                    raise EnvironmentFailure(_plain_message(error, passing=False)) from error
                deadline = latest if until is None else until()
                if time.monotonic() + pause > deadline or self._abandoned.is_set():
                    raise DatabaseUnavailable(_plain_message(error, passing=True)) from error
            self._abandoned.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that clients do not retry at the same time
            pause = min(1.0, pause * 2)


def is_full(error: DBAPIError) -> bool:
    """Whether the database has no space left."""
    original: Any = error.orig
    full = getattr(original, "sqlite_errorname", "") == "SQLITE_FULL"
    return full or getattr(original, "sqlstate", "") == "53100"


def _passes(error: DBAPIError) -> bool:
    original: Any = error.orig
    if isinstance(original, sqlite3.Error):
        return getattr(original, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    state = getattr(original, "sqlstate", None)
    if state is not None:
        return state.startswith(_PASSING)
    return not any(message in str(original) for message in _HOPELESS)  # no answer: the server is unreachable


def _plain_message(error: DBAPIError, *, passing: bool) -> str:
    original: Any = error.orig
    primary = getattr(getattr(original, "diag", None), "message_primary", None)  # its details may quote a row
    message = " ".join(str(primary or original).split())
    if is_full(error):
        return f"the database's disk is full; nothing was written ({message})"
    if passing:
        return f"the database does not answer, after several attempts ({message})"
    return f"the database refused: {message}"
