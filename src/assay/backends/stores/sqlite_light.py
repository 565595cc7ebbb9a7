# ruff: noqa: S608  # the parts of statements are constants here; values are parameters
"""
A SQLite store for short commands: by Python's `sqlite3` alone, because SQLAlchemy takes half of their time to load.

It answers the common questions, and writes what a run of this process writes (`sqlite_writer.py`). For everything else,
after any error, and after many commits, it opens the whole store (`sql.py`) and asks that. The contract tests run on it
too.
"""

import asyncio
import os
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from assay.backends.stores.records import run_branches
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.failpoints import VARIABLE as FAILPOINT
from assay.backends.stores.records.failpoints import from_environment
from assay.backends.stores.records.notifier import RunNotifier, RunPosition
from assay.backends.stores.records.record_rows import (
    COUNTS,
    moment,
    read_document,
    read_run,
    sealed_blob,
    stamp,
)
from assay.backends.stores.records.schema import BUSY_SECONDS, HEAD, MARKER_KIND, MARKER_TENANT
from assay.backends.stores.records.sqlite_statements import create_schema, make_private
from assay.backends.stores.records.transactions import count_commit
from assay.backends.stores.sqlite_writer import LightWriter, fetch, find_document, find_runs, marks, portions
from assay.backends.stores.whole_store import WholeStoreMethods
from assay.ports import (
    CLOSED,
    CaseBlock,
    ChunkInfo,
    Clock,
    Document,
    Event,
    EvidenceChunk,
    Run,
    RunQuery,
    RunStatus,
    Store,
    SystemClock,
    Transaction,
)

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


class LightStore(WholeStoreMethods):
    """A Store. `open_store` opens the whole one when it is needed."""

    def __init__(self, connection: sqlite3.Connection, open_store: OpenStore, clock: Clock) -> None:
        self._connection, self._open_store = connection, open_store
        self._codec = RecordCodec()
        self._reach = from_environment()
        self._writer = LightWriter(connection, self._codec, clock, self._reach)
        self._notifier = RunNotifier(self._positions)
        self._whole: Store | None = None
        self._opening = asyncio.Lock()
        self._commits = self._bytes = 0

    async def run(self, run: str, *, tenant: str | None = None) -> Run | None:
        def read() -> Run | None:
            found = self._find([run])
            return found[0] if found and tenant in (None, found[0].tenant) else None

        return await self._ask(read, lambda store: store.run(run, tenant=tenant))

    async def find(self, runs: Sequence[str], *, tenant: str) -> list[Run]:
        found = await self._ask(lambda: self._find(runs), lambda store: store.find(runs, tenant=tenant))
        return [run for run in found if run.tenant == tenant]

    async def runs(self, query: RunQuery) -> list[Run]:
        if query.order != "created" or query.ascending or query.evidence:
            return await (await self._store()).runs(query)

        def read() -> list[Run]:
            with self._snapshot():
                ids = run_branches.page(self._rows, query)
                if ids is None:
                    return self._runs(query)
                found = {run.id: run for run in self._find(ids)}
                return [found[id] for id in ids]

        return await self._ask(read, lambda store: store.runs(query))

    async def events(self, run: str, *, after: int = -1, limit: int = 1000) -> list[Event]:
        def read() -> list[Event]:
            rows = self._connection.execute(
                "SELECT type, data, at, sequence FROM events WHERE run = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                (run, after, limit),
            )
            return [Event(type, data, moment(at), sequence) for type, data, at, sequence in rows]

        return await self._ask(read, lambda store: store.events(run, after=after, limit=limit))

    async def chunk_infos(
        self, run: str, kind: str, *, after: ChunkInfo | None = None, limit: int = 1000
    ) -> list[ChunkInfo]:
        def read() -> list[ChunkInfo]:
            there = () if after is None else (after.key, after.first)
            rows = self._connection.execute(
                "SELECT key, first, last, size FROM evidence WHERE run = ? AND kind = ?"
                f"{' AND (key, first) > (?, ?)' if there else ''} ORDER BY key, first LIMIT ?",
                (run, kind, *there, limit),
            )
            return [
                ChunkInfo(kind=kind, key=key, first=first, last=last, size=size)
                for key, first, last, size in rows
            ]

        return await self._ask(read, lambda store: store.chunk_infos(run, kind, after=after, limit=limit))

    async def chunks(
        self, run: str, kind: str, *, key: str = "", start: int = 0, stop: int | None = None, limit: int = 4
    ) -> list[EvidenceChunk]:
        def read() -> list[EvidenceChunk]:
            here = "run = :run AND kind = :kind AND key = :key"
            rows = self._rows(
                f"SELECT * FROM evidence WHERE {here} AND last >= :start AND first >= coalesce("
                f"(SELECT max(first) FROM evidence WHERE {here} AND first <= :start), 0)"
                f"{'' if stop is None else ' AND first < :stop'} ORDER BY first LIMIT :limit",
                {"run": run, "kind": kind, "key": key, "start": start, "stop": stop, "limit": limit},
            )
            return [
                EvidenceChunk(
                    kind=kind,
                    key=key,
                    first=row.first,
                    last=row.last,
                    data=self._codec.open(sealed_blob(row), "evidence", run, kind, key, row.first),
                )
                for row in rows
            ]

        return await self._ask(
            read, lambda store: store.chunks(run, kind, key=key, start=start, stop=stop, limit=limit)
        )

    async def contents(self, run: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        def read() -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for some in portions(keys):
                rows = self._rows(
                    f"SELECT * FROM evidence WHERE run = ? AND kind = ? AND key IN ({marks(some)}) ORDER BY first DESC",
                    (run, kind, *some),
                )
                for row in rows:
                    found[row.key] = self._codec.open(
                        sealed_blob(row), "evidence", run, kind, row.key, row.first
                    )
            return found

        return await self._ask(read, lambda store: store.contents(run, kind, keys))

    async def case_blocks(
        self, run: str, *, start: int = 0, limit: int = 500, holding: str = ""
    ) -> Sequence[CaseBlock]:
        def read() -> Sequence[CaseBlock]:
            outcomes = " OR ".join(f"{COUNTS[outcome]} > 0" for outcome in holding)
            rows = self._rows(
                "SELECT * FROM case_blocks WHERE run = :run AND last >= :start AND first >= coalesce("
                "(SELECT max(first) FROM case_blocks WHERE run = :run AND first <= :start), 0)"
                f"{f' AND ({outcomes})' if outcomes else ''} ORDER BY first LIMIT :limit",
                {"run": run, "start": start, "limit": limit},
            )
            blocks = map(vars, rows)
            return [CaseBlock(**{name: row[name] for name in row if name != "run"}) for row in blocks]

        return await self._ask(
            read, lambda store: store.case_blocks(run, start=start, limit=limit, holding=holding)
        )

    async def document(self, tenant: str, kind: str, key: str) -> Document | None:
        def read() -> Document | None:
            return find_document(self._connection, self._codec, tenant, kind, key)

        return await self._ask(read, lambda store: store.document(tenant, kind, key))

    async def documents(
        self, tenant: str, kind: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Document]:
        def read() -> list[Document]:
            first = after.partition("\0")[0]  # nothing lies between the two
            rows = self._rows(
                "SELECT * FROM documents WHERE tenant = ? AND kind = ? AND key >= ? AND substr(key, 1, ?) = ?"
                f"{' AND key > ?' if first else ''} ORDER BY key LIMIT ?",
                (tenant, kind, prefix, len(prefix), prefix, *((first,) if first else ()), limit),
            )
            return [read_document(row, self._codec) for row in rows]

        if "\0" in prefix:
            return []
        return await self._ask(
            read, lambda store: store.documents(tenant, kind, prefix=prefix, after=after, limit=limit)
        )

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        rules.check(batch)

        async def write_whole(store: Store) -> tuple[int, ...]:
            ends = await store.commit(batch)
            positions = await self._positions([entry.run for entry in batch.entries])
            for run, position in positions.items():
                self._notifier.notify(run, position)
            return ends

        def write() -> tuple[int, ...]:
            began = time.perf_counter()
            changes = self._writer.write(batch)
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

    async def wait_for_events(self, run: str, *, after: int, timeout: float) -> bool:
        return await self._notifier.wait(run, after, timeout)

    async def claim(self, run: str, holder: str, *, seconds: float) -> Run | None:
        return await self._write(
            lambda: self._writer.claim(run, holder, seconds),
            lambda store: store.claim(run, holder, seconds=seconds),
        )

    async def renew(self, holder: str, *, seconds: float) -> dict[str, RunStatus]:
        return await self._write(
            lambda: self._writer.renew(holder, seconds), lambda store: store.renew(holder, seconds=seconds)
        )

    async def release(self, run: str, holder: str) -> None:
        await self._write(lambda: self._writer.release(run, holder), lambda store: store.release(run, holder))

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
        found = await self._ask(lambda: self._find(runs), lambda store: _all_runs(store, runs))
        return {run.id: RunPosition(run.events, run.status in CLOSED) for run in found}

    async def _write(self, light: Callable[[], T], whole: Callable[[Store], Awaitable[T]]) -> T:
        """Write here, until the whole store is open: that one waits for locks in its thread."""
        return await (self._ask(light, whole) if self._whole is None else whole(self._whole))

    async def _ask(self, light: Callable[[], T], whole: Callable[[Store], Awaitable[T]]) -> T:
        """Read here. If SQLite refuses, the whole store waits, or says why."""
        try:
            return light()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError):
            return await whole(await self._store())

    def _find(self, ids: Sequence[str]) -> list[Run]:
        return find_runs(self._connection, self._codec, ids)

    def _runs(self, query: RunQuery) -> list[Run]:
        where, values = list[str](), list[Any]()

        def condition(text: str, *parameters: Any) -> None:
            where.append(text)
            values.extend(parameters)

        for column, value in (("tenant", query.tenant), ("kind", query.kind), ("name", query.name)):
            if value is not None:
                condition(f"{column} = ?", value)
        for column, several in (("kind", query.kinds), ("status", query.statuses)):
            if several is not None:
                condition(f"{column} IN ({marks(several)})", *sorted(several))
        if query.since is not None:
            condition("created >= ?", stamp(query.since))
        if query.until is not None:
            condition("created < ?", stamp(query.until))
        if query.passed is not None:
            condition("passed = ?", int(query.passed))
        if query.before is not None:
            condition("(created, id) < (?, ?)", stamp(query.before[0]), query.before[1])
        rows = self._rows(
            f"SELECT * FROM runs {'WHERE ' if where else ''}{' AND '.join(where)} ORDER BY created DESC, id "
            "DESC LIMIT ?",
            (*values, query.limit),
        )
        return [read_run(row, self._codec) for row in rows]

    @contextmanager
    def _snapshot(self) -> Generator[None]:
        """One state of the database for all statements inside."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def _rows(self, statement: str, parameters: Any) -> list[Any]:
        return fetch(self._connection, statement, parameters)


async def _all_runs(store: Store, ids: Sequence[str]) -> list[Run]:
    found = [await store.run(id) for id in ids]
    return [run for run in found if run is not None]
