"""The store on SQLite or PostgreSQL. Database calls run in threads, so that the event loop does not block."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

import msgspec
from sqlalchemy import Connection, Engine

from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.failpoints import Reach, from_environment
from assay.backends.stores.records.queries import Database
from assay.backends.stores.records.record_store import RecordStore
from assay.backends.stores.records.transactions import count_commit
from assay.backends.stores.sql import audit_reader, tenant_content
from assay.backends.stores.sql import reencrypt as markers
from assay.backends.stores.sql.connect import RetryPolicy, open_engine, with_snapshots
from assay.backends.stores.sql.group_commit import GroupCommitter
from assay.backends.stores.sql.liveness import Checkpoints, DatabasePing, deliver
from assay.backends.stores.sql.migrate import bring_up
from assay.backends.stores.sql.reencrypt import Reencryption
from assay.backends.stores.sql.tenant_keys import DataKeys
from assay.backends.stores.sql.writer import SqlDatabase, SqlWriter
from assay.concurrency.threads import run_blocking
from assay.errors import EnvironmentFailure
from assay.ports import (
    Cipher,
    Clock,
    ReencryptStep,
    SystemClock,
    Transaction,
    store_patience,
)  # fmt: skip
from assay.ports.audit import AuditEntry, AuditRecord, LaneHead
from assay.ports.deletion import Destruction, TenantContent

T = TypeVar("T")

READERS = 4
CLOSING = 5.0  # seconds for a database to answer while the store closes
EMPTY_SECONDS = 10.0  # that readers may hold up the emptying of SQLite's log


class SqlStore(RecordStore):
    """
    A store on SQLite or PostgreSQL, created by `open`. It belongs to the event loop in which it was opened.

    The writer has its own connection, `writing`: SQLite drops the page cache of one when another has written.
    """

    def __init__(
        self,
        engine: Engine,
        writing: Engine,
        codec: RecordCodec,
        clock: Clock,
        retry_policy: RetryPolicy,
        reach: Reach,
    ) -> None:
        super().__init__()
        self._engine, self._writing, self._codec, self._retry_policy = engine, writing, codec, retry_policy
        self._snapshots = with_snapshots(engine)
        self._sql_writer = SqlWriter(writing, codec, clock, reach)
        self._reencryption = Reencryption(codec, clock)
        self._checkpoints = Checkpoints(engine)
        self._writer = GroupCommitter(writing, self._sql_writer, self._checkpoints, retry_policy, reach)
        self._ping = DatabasePing(retry_policy, engine, writing)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="assay-store-reader")

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        cipher: Cipher | None = None,
        sealing: bool = True,
        clock: Clock | None = None,
        patience: float = 30.0,
        reach: Reach | None = None,
    ) -> "SqlStore":
        """Connect, and migrate an older database. `patience`: seconds that the database may be unreachable."""
        engine = open_engine(address, READERS + 2)  # one writes SQLite's log back, one answers pings
        bearing, reach = RetryPolicy(patience), reach or from_environment()
        vault = RecordCodec(cipher, sealing=sealing, keys=DataKeys(cipher, sealing=sealing))
        try:
            await run_blocking(bearing.over, lambda: bring_up(engine, reach))
            await run_blocking(bearing.over, lambda: markers.compare(engine, vault))
            await run_blocking(bearing.over, lambda: vault.keys.open(engine, clock or SystemClock()))
        except EnvironmentFailure as trouble:
            engine.dispose()
            if engine.dialect.name == "sqlite":
                raise EnvironmentFailure(f"{engine.url.database}: {trouble}") from trouble
            raise
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, open_engine(address), vault, clock or SystemClock(), bearing, reach)

    async def commit(self, batch: Transaction) -> tuple[int, ...]:
        rules.check(batch)
        began = time.perf_counter()
        settled = await self._ping.wait(self._writer.write(batch))
        count_commit(settled, time.perf_counter() - began)
        self._notify(settled)
        return tuple(settled.ends)

    async def erase(self, *runs: str, kind: str | None = None, limit: int = 500) -> int:
        count = await self.change(lambda db, _: tenant_content.erase(db.connection, runs, kind, limit))
        if not count:
            await run_blocking(self._checkpoints.empty)  # the log has the rows as they were
        return count

    async def survey(self, tenant: str) -> TenantContent:
        return await self.ask(lambda db: tenant_content.survey(db.connection, tenant))

    async def retire(self, tenant: str, lines: Sequence[AuditEntry]) -> datetime:
        def retire_key(db: Database, now: datetime) -> datetime:
            retired = tenant_content.retire(db.connection, tenant, lambda: self._sql_writer.now(db))
            self._sql_writer.add_lines(db, lines, retired)
            return retired

        return await self.change(retire_key)

    async def delete_documents(
        self, tenant: str, *, kept: frozenset[str], before: datetime, limit: int = 200
    ) -> int:
        return await self.change(
            lambda db, _: tenant_content.delete_documents(db.connection, tenant, kept, before, limit)
        )

    async def compact(self) -> bool:
        return await run_blocking(self._retry_policy.over, self._checkpoints.compact)

    async def destroy(self, tenant: str, lines: Sequence[AuditEntry]) -> Destruction:
        def destroy_keys(db: Database, now: datetime) -> Destruction:
            done = tenant_content.destroy(db.connection, self._codec, tenant, now)
            if done.keys:
                self._sql_writer.add_lines(db, lines, now)
            return done

        done = await self.change(destroy_keys)
        self._codec.keys.forget(tenant)
        if done.runs:
            return done
        return msgspec.structs.replace(
            done, emptied=await run_blocking(self._checkpoints.empty, EMPTY_SECONDS)
        )

    async def sweep(self, kind: str, *, before: datetime, limit: int = 1000) -> int:
        return await self.change(lambda db, _: tenant_content.sweep(db.connection, kind, before, limit))

    async def audit(
        self, tenant: str | None = None, *, following: AuditRecord | None = None, limit: int = 1000
    ) -> list[AuditRecord]:
        return await self.ask(lambda db: audit_reader.lines_of(db.connection, tenant, following, limit))

    async def heads(self, tenant: str | None = None) -> Sequence[LaneHead]:
        return await self.ask(lambda db: audit_reader.heads_of(db.connection, tenant))

    async def misfits(self, tenant: str | None = None) -> int:
        return await self.ask(lambda db: audit_reader.misfits_of(db.connection, tenant))

    async def reencrypt(self, cursor: str = "") -> ReencryptStep:
        done = await self.change(lambda db, _: self._reencryption.step(db.connection, cursor))
        if not done.cursor:
            await run_blocking(self._checkpoints.empty)
        return done

    async def ping(self) -> None:
        await self._ping.ask()

    async def close(self) -> None:
        """Write what waits, and close all connections. A database without an answer has `CLOSING` seconds."""
        self._retry_policy.lose()
        await self._notifier.close()
        self._ping.close()
        with suppress(TimeoutError):  # threads cannot be killed: they are left behind
            await asyncio.wait_for(run_blocking(self._close), CLOSING)

    def _close(self) -> None:
        self._writer.close()
        self._checkpoints.close()
        self._readers.shutdown()
        self._writing.dispose()
        self._engine.dispose()

    async def ask(self, question: Callable[[Database], T], *, snapshot: bool = False) -> T:
        engine = self._snapshots if snapshot else self._engine

        def ask() -> T:
            with engine.connect() as connection, connection.begin():
                return question(SqlDatabase(connection, self._codec))

        seconds = store_patience.get()
        until = time.monotonic() + min(self._retry_policy.seconds, seconds or self._retry_policy.seconds)
        reading = self._readers.submit(self._retry_policy.over, ask, until=lambda: until)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        reading.add_done_callback(lambda done: deliver(done, answer))
        try:
            return await self._ping.wait(answer)
        finally:
            reading.cancel()  # if it has not begun

    async def change(self, statement: Callable[[Database, datetime], T]) -> T:
        def change(connection: Connection) -> T:
            db = SqlDatabase(connection, self._codec)
            return statement(db, self._sql_writer.now(db))

        return await self._ping.wait(self._writer.do(change))
