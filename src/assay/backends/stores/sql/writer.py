"""Writes several transactions in one database transaction, each as a whole or not at all."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Engine, TextClause, text

from assay.backends.stores.records import sqlite_statements as statements
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.failpoints import Reach
from assay.backends.stores.records.queries import Database, Values
from assay.backends.stores.records.record_rows import Row, moment
from assay.backends.stores.records.record_writer import RecordWriter
from assay.errors import EnvironmentFailure
from assay.ports import Clock, Transaction
from assay.ports.audit import AuditEntry

Outcome = rules.Outcome

# PostgreSQL's clock, so that leases mean the same on every machine; and the name of the transaction, to ask after it
_BEGUN = text(
    "SELECT pg_current_xact_id()::text AS id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now"
)
_ENDED = text("SELECT pg_xact_status(CAST(:id AS xid8))")
_INSERT = {
    mark: {table: statements.insertion(table, mark=mark) for table in statements.COLUMNS}
    for mark in ("?", "%s")
}


@lru_cache(1024)
def _text(statement: str) -> TextClause:
    return text(statement)


class SqlDatabase(Database):
    def __init__(self, connection: Connection, codec: RecordCodec) -> None:
        super().__init__(connection, codec, postgres=connection.dialect.name == "postgresql")

    def rows(self, statement: str, values: Mapping[str, Any]) -> Sequence[Any]:
        return self.connection.execute(_text(statement), values).all()

    def change(self, statement: str, rows: Sequence[Values]) -> None:
        if rows:
            self.connection.execute(_text(statement), rows)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        if rows:
            self.connection.exec_driver_sql(_INSERT["%s" if self.postgres else "?"][table], rows)


class UncertainCommit:
    """Transactions whose commit was interrupted by a lost connection: they may have been written."""

    transaction: str | None = None
    outcomes: list[Outcome]


class SqlWriter:
    def __init__(self, engine: Engine, codec: RecordCodec, clock: Clock, reach: Reach) -> None:
        self._engine, self._codec, self._clock, self._reach = engine, codec, clock, reach
        self._records = RecordWriter()

    def write(self, batches: Sequence[Transaction], uncertain: UncertainCommit) -> list[Outcome]:
        """Write durably and return each outcome. Called again after a lost connection, it skips what was written."""
        with self._engine.connect().execution_options(writes=True) as connection:
            if uncertain.transaction is not None and self._is_committed(connection, uncertain.transaction):
                return uncertain.outcomes
            uncertain.transaction = None
            with connection.begin():
                db = SqlDatabase(connection, self._codec)
                transaction, now = self._start(db)
                outcomes, lanes = self._records.write(db, batches, now)
                self._reach("commit.written")
                uncertain.transaction, uncertain.outcomes = transaction, outcomes
                self._records.forget(lanes)  # if it is not known what became of them, others begin
            self._records.keep(lanes)
            self._reach("commit.after")
            uncertain.transaction = None
            return outcomes

    def now(self, db: Database) -> datetime:
        """The time of a transaction."""
        return self._start(db)[1]

    def _start(self, db: Database) -> tuple[str | None, datetime]:
        """The id of this transaction, if the database has one, and the time."""
        if not db.postgres:
            return None, self._clock.now()
        row = db.connection.execute(_BEGUN).one()
        return row.id, moment(row.now)

    def add_lines(self, db: Database, lines: Sequence[AuditEntry], now: datetime) -> None:
        """Write audit entries in the transaction of other work. The next entry begins another lane."""
        self._records.forget(self._records.add_lines(db, lines, now))

    def _is_committed(self, connection: Connection, transaction: str) -> bool:
        for _ in range(100):
            with connection.begin():
                state = connection.execute(_ENDED, {"id": transaction}).scalar()
            if state != "in progress":
                return state == "committed"
            time.sleep(0.05)  # its server process has not noticed yet that we are gone
        raise EnvironmentFailure(
            "the connection to the database was lost during a commit, and its outcome is unknown"
        )
