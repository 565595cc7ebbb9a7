"""
A SQLite store for short commands: by Python's `sqlite3` alone, because SQLAlchemy takes half of their time to load.

It answers the common questions, and writes what a run of this process writes. For everything else, after any error, and
after many commits, it opens the whole store (`sql.py`) and asks that. The contract tests run on it too.
"""

import asyncio
import os
import re
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from assay.backends.stores.records import queries, record_writer, run_lists
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.failpoints import VARIABLE as FAILPOINT
from assay.backends.stores.records.failpoints import from_environment
from assay.backends.stores.records.notifier import RunNotifier, RunPosition
from assay.backends.stores.records.queries import Database, Values
from assay.backends.stores.records.record_rows import Row
from assay.backends.stores.records.record_writer import RecordWriter
from assay.backends.stores.records.schema import BUSY_SECONDS, HEAD, MARKER_KIND, MARKER_TENANT
from assay.backends.stores.records.sqlite_statements import INSERT, create_schema, make_private
from assay.backends.stores.records.transactions import count_commit
from assay.errors import Conflict
from assay.ports import (
    CLOSED,
    CaseBlock,
    CaseTotals,
    ChunkInfo,
    Clock,
    Document,
    Event,
    EvidenceChunk,
    ReencryptStep,
    Run,
    RunGroup,
    RunQuery,
    RunStatus,
    Store,
    SystemClock,
    Transaction,
)
from assay.ports.audit import AuditEntry, AuditRecord, LaneHead
from assay.ports.deletion import Destruction, TenantContent

T = TypeVar("T")
OpenStore = Callable[[], Awaitable[Store]]
_ADDRESS = re.compile(r"sqlite:///([^?#%]+)\Z")  # other forms are for SQLAlchemy to read
_PRAGMAS = (  # as those of connect.py
    "PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; PRAGMA journal_size_limit=67108864; PRAGMA wal_autocheckpoint=16000;"
    "PRAGMA secure_delete=ON;"
)
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

    async def adopt(
        self, holder: str, *, seconds: float, limit: int = 10, max_takeovers: int | None = None
    ) -> list[Run]:
        store = await self._store()
        return await store.adopt(holder, seconds=seconds, limit=limit, max_takeovers=max_takeovers)

    async def forgive(self, run: str, holder: str) -> None:
        await (await self._store()).forgive(run, holder)

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
        connection.executescript(_PRAGMAS)
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


class LightStore(WholeStoreMethods):
    """A Store. `open_store` opens the whole one when it is needed."""

    def __init__(self, connection: sqlite3.Connection, open_store: OpenStore, clock: Clock) -> None:
        self._connection, self._open_store, self._clock = connection, open_store, clock
        self._db = SqliteDatabase(connection, RecordCodec())
        self._reach = from_environment()
        self._records = RecordWriter()
        self._notifier = RunNotifier(self._positions)
        self._whole: Store | None = None
        self._opening = asyncio.Lock()
        self._commits = self._bytes = 0

    async def run(self, run: str, *, tenant: str | None = None) -> Run | None:
        found = await self._ask(
            lambda db: queries.find_runs(db, [run]), lambda store: _all_runs(store, [run])
        )
        return found[0] if found and tenant in (None, found[0].tenant) else None

    async def find(self, runs: Sequence[str], *, tenant: str) -> list[Run]:
        found = await self._ask(
            lambda db: queries.find_runs(db, runs), lambda store: store.find(runs, tenant=tenant)
        )
        return [run for run in found if run.tenant == tenant]

    async def runs(self, query: RunQuery) -> list[Run]:
        return await self._ask(
            lambda db: self._snapshot(db, run_lists.list_runs, query), lambda store: store.runs(query)
        )

    async def count_runs(self, query: RunQuery) -> dict[tuple[str, RunStatus], int]:
        return await self._ask(
            lambda db: run_lists.count_runs(db, query), lambda store: store.count_runs(query)
        )

    async def group_runs(self, query: RunQuery) -> list[RunGroup]:
        return await self._ask(
            lambda db: self._snapshot(db, run_lists.group_runs, query), lambda store: store.group_runs(query)
        )

    async def events(self, run: str, *, after: int = -1, limit: int = 1000) -> list[Event]:
        return await self._ask(
            lambda db: queries.list_events(db, run, after, limit),
            lambda store: store.events(run, after=after, limit=limit),
        )

    async def chunk_infos(
        self, run: str, kind: str, *, after: ChunkInfo | None = None, limit: int = 1000
    ) -> list[ChunkInfo]:
        return await self._ask(
            lambda db: queries.list_chunk_infos(db, run, kind, after, limit),
            lambda store: store.chunk_infos(run, kind, after=after, limit=limit),
        )

    async def chunks(
        self, run: str, kind: str, *, key: str = "", start: int = 0, stop: int | None = None, limit: int = 4
    ) -> list[EvidenceChunk]:
        return await self._ask(
            lambda db: queries.list_chunks(db, run, kind, key, start, stop, limit),
            lambda store: store.chunks(run, kind, key=key, start=start, stop=stop, limit=limit),
        )

    async def contents(self, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._ask(
            lambda db: queries.list_contents(db, run, kind, keys),
            lambda store: store.contents(run, kind, keys),
        )

    async def case_blocks(
        self, run: str, *, start: int = 0, limit: int = 500, holding: str = ""
    ) -> Sequence[CaseBlock]:
        return await self._ask(
            lambda db: queries.list_blocks(db, run, start, limit, holding),
            lambda store: store.case_blocks(run, start=start, limit=limit, holding=holding),
        )

    async def case_totals(self, runs: Sequence[str]) -> dict[str, CaseTotals]:
        return await self._ask(lambda db: queries.sum_blocks(db, runs), lambda store: store.case_totals(runs))

    async def document(self, tenant: str, kind: str, key: str) -> Document | None:
        found = await self._ask(
            lambda db: queries.find_documents(db, [(tenant, kind, key)]),
            lambda store: _one_document(store, tenant, kind, key),
        )
        return found[0] if found else None

    async def documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Document]:
        if "\0" in prefix:
            return []
        first = after.partition("\0")[0]  # nothing lies between the two
        return await self._ask(
            lambda db: queries.list_documents(db, tenant, kind, prefix, first, limit),
            lambda store: store.documents(tenant, kind, prefix=prefix, after=after, limit=limit),
        )

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        rules.check(batch)

        async def write_whole(store: Store) -> tuple[int, ...]:
            ends = await store.commit(batch)
            positions = await self._positions([entry.run for entry in batch.entries])
            for run, position in positions.items():
                self._notifier.notify(run, position)
            return ends

        def write(db: SqliteDatabase) -> tuple[int, ...]:
            began = time.perf_counter()
            changes = self._write_batch(db, batch)
            count_commit(changes, time.perf_counter() - began)
            for run in changes.runs.values():
                self._notifier.notify(run.id, RunPosition(run.events, run.status in CLOSED))
            return tuple(changes.ends)

        self._commits += 1
        self._bytes += sum(len(piece.data) for entry in batch.entries for piece in entry.evidence)
        if self._commits > COMMITS or self._bytes > COMMIT_BYTES:
            return await write_whole(await self._store())
        ends = await self._write(write, write_whole)
        self._reach("commit.told")
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

    async def wait_for_events(self, run: str, *, after: int, timeout: float) -> bool:
        return await self._notifier.wait(run, after, timeout)

    async def claim(self, run: str, holder: str, *, seconds: float) -> Run | None:
        return await self._change(
            lambda db: record_writer.claim(db, run, holder, self._clock.now(), seconds),
            lambda store: store.claim(run, holder, seconds=seconds),
        )

    async def renew(self, holder: str, *, seconds: float) -> dict[str, RunStatus]:
        return await self._change(
            lambda db: record_writer.renew(db, holder, self._clock.now(), seconds),
            lambda store: store.renew(holder, seconds=seconds),
        )

    async def release(self, run: str, holder: str) -> None:
        await self._change(
            lambda db: record_writer.release(db, run, holder, self._clock.now()),
            lambda store: store.release(run, holder),
        )

    async def close(self) -> None:
        await self._notifier.close()
        self._connection.close()
        if self._whole is not None:
            await self._whole.close()

    async def _store(self) -> Store:
        async with self._opening:  # many commits may need it at the same time
            if self._whole is None:
                self._whole = await self._open_store()
        return self._whole

    async def _positions(self, runs: Sequence[str]) -> dict[str, RunPosition]:
        found = await self._ask(lambda db: queries.find_runs(db, runs), lambda store: _all_runs(store, runs))
        return {run.id: RunPosition(run.events, run.status in CLOSED) for run in found}

    async def _change(self, light: Callable[[Database], T], whole: Callable[[Store], Awaitable[T]]) -> T:
        def change(db: SqliteDatabase) -> T:
            with db.transaction():
                return light(db)

        return await self._write(change, whole)

    async def _write(self, light: Callable[[SqliteDatabase], T], whole: Callable[[Store], Awaitable[T]]) -> T:
        """Write here, until the whole store is open: that one waits for locks in its thread."""
        return await (self._ask(light, whole) if self._whole is None else whole(self._whole))

    async def _ask(self, light: Callable[[SqliteDatabase], T], whole: Callable[[Store], Awaitable[T]]) -> T:
        """Read here. If SQLite refuses, the whole store waits, or says why."""
        try:
            return light(self._db)
        except (sqlite3.Error, UnicodeEncodeError, OverflowError):
            return await whole(await self._store())

    def _snapshot(self, db: SqliteDatabase, read: Callable[[Database, RunQuery], T], query: RunQuery) -> T:
        """One state of the database for all statements of the question."""
        with db.transaction("BEGIN"):
            return read(db, query)


async def _all_runs(store: Store, ids: Sequence[str]) -> list[Run]:
    found = [await store.run(id) for id in ids]
    return [run for run in found if run is not None]


async def _one_document(store: Store, tenant: str, kind: str, key: str) -> list[Document]:
    found = await store.document(tenant, kind, key)
    return [] if found is None else [found]
