"""
A SQLite store for short commands: by Python's `sqlite3` alone, because SQLAlchemy takes half of their time to load.

It answers the common questions, and writes what a run of this process writes. For everything else, after any error, and
after many commits, it opens the whole store (`sql/store.py`) and asks that. The contract tests run on it too.
"""

import asyncio
import os
import re
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from assay.backends.stores.records import queries
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.codec import MARKER_KIND, MARKER_TENANT, RecordCodec
from assay.backends.stores.records.failpoints import VARIABLE as FAILPOINT
from assay.backends.stores.records.failpoints import from_environment
from assay.backends.stores.records.queries import Database, Values
from assay.backends.stores.records.record_rows import Row
from assay.backends.stores.records.record_store import RecordStore
from assay.backends.stores.records.record_writer import RecordWriter
from assay.backends.stores.records.sqlite_schema import (
    BUSY_SECONDS,
    HEAD,
    PRAGMAS,
    create_schema,
    make_private,
)
from assay.backends.stores.records.sqlite_statements import INSERT
from assay.backends.stores.records.transactions import count_commit
from assay.errors import Conflict
from assay.ports import (
    Clock,
    ReencryptStep,
    Store,
    SystemClock,
    Transaction,
)
from assay.ports.audit import AuditEntry, AuditRecord, LaneHead
from assay.ports.deletion import Destruction, TenantContent

T = TypeVar("T")
REFUSED = sqlite3.Error, UnicodeEncodeError, OverflowError  # of SQLite: the whole store is asked
OpenStore = Callable[[], Awaitable[Store]]
_ADDRESS = re.compile(r"sqlite:///([^?#%]+)\Z")  # other forms are for SQLAlchemy to read
# A run that commits more, or more bytes of evidence, continues with the whole store: its writer has a thread and groups
# commits.
COMMITS = 200
COMMIT_BYTES = 4 * 1024 * 1024


class WholeStoreMethods(ABC):
    @abstractmethod
    async def _store(self) -> Store:
        """The whole store. The first call opens it."""

    async def erase(self, *runs: str, kind: str | None = None, limit: int = 500) -> int:
        return await (await self._store()).erase(*runs, kind=kind, limit=limit)

    async def sweep(self, kind: str, *, before: datetime, limit: int = 1000) -> int:
        return await (await self._store()).sweep(kind, before=before, limit=limit)

    async def ping(self) -> None:
        await (await self._store()).ping()

    async def audit(
        self, tenant: str | None = None, *, following: AuditRecord | None = None, limit: int = 1000
    ) -> list[AuditRecord]:
        return await (await self._store()).audit(tenant, following=following, limit=limit)

    async def heads(self, tenant: str | None = None) -> Sequence[LaneHead]:
        return await (await self._store()).heads(tenant)

    async def misfits(self, tenant: str | None = None) -> int:
        return await (await self._store()).misfits(tenant)

    async def survey(self, tenant: str) -> TenantContent:
        return await (await self._store()).survey(tenant)

    async def retire(self, tenant: str, lines: Sequence[AuditEntry]) -> datetime:
        return await (await self._store()).retire(tenant, lines)

    async def delete_documents(
        self, tenant: str, *, kept: frozenset[str], before: datetime, limit: int = 200
    ) -> int:
        return await (await self._store()).delete_documents(tenant, kept=kept, before=before, limit=limit)

    async def compact(self) -> bool:
        return await (await self._store()).compact()

    async def destroy(self, tenant: str, lines: Sequence[AuditEntry]) -> Destruction:
        return await (await self._store()).destroy(tenant, lines)

    async def reencrypt(self, cursor: str = "") -> ReencryptStep:
        return await (await self._store()).reencrypt(cursor)


def open_light(address: str, open_store: OpenStore, clock: Clock | None = None) -> "LightStore | None":
    """
    The store at this address. A missing file is created.

    None if only the whole store can open it: it is older, encrypted, of another program or not SQLite, or a test uses
    failpoints.
    """
    match = _ADDRESS.match(address)
    if match is None or match[1] == ":memory:":
        return None
    file = Path(match[1]).absolute()
    is_new = not file.exists()
    if is_new and (FAILPOINT in os.environ or not file.parent.is_dir()):
        return None
    connection: sqlite3.Connection | None = None
    try:
        if is_new:
            make_private(str(file))
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode=rw", timeout=BUSY_SECONDS, isolation_level=None, uri=True
        )
        if is_new:
            create_schema(connection)
        connection.executescript("".join(f"PRAGMA {pragma};" for pragma in PRAGMAS))
        version = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        mode = connection.execute("PRAGMA journal_mode").fetchone()
        marked = connection.execute(
            "SELECT 1 FROM documents WHERE tenant = ? AND kind = ? LIMIT 1", (MARKER_TENANT, MARKER_KIND)
        ).fetchone()
        if version == [(HEAD,)] and mode == ("wal",) and marked is None:
            return LightStore(connection, open_store, clock or SystemClock())
    except sqlite3.Error:  # the whole store says what is wrong, or waits
        pass
    if connection is not None:
        connection.close()
    return None


class SqliteDatabase(Database):
    def rows(self, statement: str, values: Mapping[str, Any]) -> Sequence[Any]:
        with closing(self.connection.execute(statement, values)) as cursor:
            names = [column[0] for column in cursor.description]
            return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in cursor]

    def change(self, statement: str, rows: Sequence[Values]) -> None:
        self.connection.executemany(statement, rows)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        self.connection.executemany(INSERT[table], rows)

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Generator[None]:
        self.connection.execute(begin)
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise


class LightStore(RecordStore, WholeStoreMethods):
    """A Store. `open_store` opens the whole one when it is needed."""

    def __init__(self, connection: sqlite3.Connection, open_store: OpenStore, clock: Clock) -> None:
        super().__init__()
        self._connection, self._open_store, self._clock = connection, open_store, clock
        self._db = SqliteDatabase(connection, RecordCodec())
        self._reach = from_environment()
        self._records = RecordWriter()
        self._whole: Store | None = None
        self._opening = asyncio.Lock()
        self._commits = self._bytes = 0

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        rules.check(batch)
        self._commits += 1
        self._bytes += sum(len(piece.data) for entry in batch.entries for piece in entry.evidence)
        if self._whole is None and self._commits <= COMMITS and self._bytes <= COMMIT_BYTES:
            began = time.perf_counter()
            try:
                changes = self._write_batch(self._db, batch)
            except REFUSED:
                return await self._commit_whole(batch)
            count_commit(changes, time.perf_counter() - began)
            self._notify(changes)
            self._reach("commit.acknowledged")
            return tuple(changes.ends)
        return await self._commit_whole(batch)

    async def _commit_whole(self, batch: Transaction) -> tuple[int, ...]:
        ends = await (await self._store()).commit(batch)
        ids = [entry.run for entry in batch.entries]
        positions = await self.ask(lambda db: queries.positions(db, ids))
        for run, position in positions.items():
            self._notifier.notify(run, position)
        return ends

    def _write_batch(self, db: SqliteDatabase, batch: Transaction) -> rules.Changes:
        """Write it, or raise Conflict. A `sqlite3.Error` means that nothing was written."""
        self._reach("commit.before")
        with db.transaction():
            try:
                (outcome,), lanes = self._records.write(db, [batch], self._clock.now())
            except sqlite3.IntegrityError:
                raise Conflict("exists", "batch", "some of its evidence exists already") from None
            if not isinstance(outcome, rules.Changes):
                raise outcome
            self._reach("commit.written")
            self._records.forget(lanes)
        self._records.keep(lanes)
        self._reach("commit.after")
        return outcome

    async def close(self) -> None:
        await self._notifier.close()
        self._connection.close()
        if self._whole is not None:
            await self._whole.close()

    async def ask(self, question: Callable[[Database], T], *, snapshot: bool = False) -> T:
        """Read here. If SQLite refuses, the whole store waits, or says why."""
        try:
            if not snapshot:
                return question(self._db)
            with self._db.transaction("BEGIN"):
                return question(self._db)
        except REFUSED:
            return await (await self._records_store()).ask(question, snapshot=snapshot)

    async def change(self, statement: Callable[[Database, datetime], T]) -> T:
        """Write here, until the whole store is open: that one waits for locks in its thread."""
        if self._whole is None:
            with suppress(*REFUSED), self._db.transaction():
                return statement(self._db, self._clock.now())
        return await (await self._records_store()).change(statement)

    async def _store(self) -> Store:
        async with self._opening:  # many commits may need it at the same time
            if self._whole is None:
                self._whole = await self._open_store()
        return self._whole

    async def _records_store(self) -> RecordStore:
        store = await self._store()
        assert isinstance(store, RecordStore)  # as every whole store of an address of SQLite
        return store
