"""Writes several transactions in one database transaction, each as a whole or not at all."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select, text, tuple_

from assay.backends.stores.records import sqlite_statements as statements
from assay.backends.stores.records import transactions as rules
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.failpoints import Reach
from assay.backends.stores.records.record_rows import (
    Row,
    block_row,
    document_values,
    event_row,
    head_row,
    line_row,
    moment,
    name_columns,
    piece_row,
    run_changes,
    run_row,
    stamp,
)
from assay.backends.stores.sql import queries
from assay.backends.stores.sql.audit_log import AuditChain, Lanes
from assay.backends.stores.sql.tables import (
    audit,
    audit_heads,
    case_blocks,
    documents,
    events,
    evidence,
    runs,
)
from assay.errors import EnvironmentFailure
from assay.ports import (
    Clock,
    Document,
    Run,
    Transaction,
)
from assay.ports.audit import AuditEntry

Outcome = rules.Outcome

_UPDATE_RUN, _REMOVE_NAME = text(statements.UPDATE_RUN), text(statements.REMOVE_NAME)
_UPDATE_DOCUMENT, _DELETE_DOCUMENT = text(statements.UPDATE_DOCUMENT), text(statements.DELETE_DOCUMENT)

# PostgreSQL's clock, so that leases mean the same on every machine; and the name of the transaction, to ask after it
_BEGUN = text(
    "SELECT pg_current_xact_id()::text AS id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now"
)
_ENDED = text("SELECT pg_xact_status(CAST(:id AS xid8))")


class UncertainCommit:
    """Transactions whose commit was interrupted by a lost connection: they may have been written."""

    transaction: str | None = None
    outcomes: list[Outcome]


class SqlWriter:
    def __init__(self, engine: Engine, codec: RecordCodec, clock: Clock, reach: Reach) -> None:
        self._engine, self._codec, self._clock, self._reach = engine, codec, clock, reach
        self._postgres = engine.dialect.name == "postgresql"
        self._chain = AuditChain()
        mark = "%s" if self._postgres else "?"
        self._insert = {
            table: statements.insertion(table.name, mark=mark)
            for table in (runs, events, evidence, documents, case_blocks, audit, audit_heads)
        }

    def write(self, batches: Sequence[Transaction], uncertain: UncertainCommit) -> list[Outcome]:
        """Write durably and return each outcome. Called again after a lost connection, it skips what was written."""
        with self._engine.connect().execution_options(writes=True) as connection:
            if uncertain.transaction is not None and self._is_committed(connection, uncertain.transaction):
                return uncertain.outcomes
            uncertain.transaction = None
            with connection.begin():
                transaction, now = self.transaction_start(connection)
                outcomes = self._write(connection, batches, now)
                lanes = self._audit(connection, outcomes, now)
                self._reach("commit.written")
                uncertain.transaction, uncertain.outcomes = transaction, outcomes
                self._chain.forget(lanes)  # if it is not known what became of them, others begin
            self._chain.keep(lanes)
            self._reach("commit.after")
            uncertain.transaction = None
            return outcomes

    def transaction_start(self, connection: Connection) -> tuple[str | None, datetime]:
        """The id of this transaction, if the database has one, and the time."""
        if not self._postgres:
            return None, self._clock.now()
        row = connection.execute(_BEGUN).one()
        return row.id, moment(row.now)

    def add_lines(self, connection: Connection, lines: Sequence[AuditEntry], now: datetime) -> None:
        """Write audit entries in the transaction of other work. The next entry begins another lane."""
        self._chain.forget(self._audit(connection, [rules.Changes(lines=lines)], now))

    def sweep(self, connection: Connection, kind: str, before: datetime, limit: int) -> int:
        name = documents.c.tenant, documents.c.kind, documents.c.key
        old = select(*name).where(documents.c.kind == kind, documents.c.updated < stamp(before))
        return connection.execute(delete(documents).where(tuple_(*name).in_(old.limit(limit)))).rowcount

    def hold(self, connection: Connection, runs: Iterable[Run]) -> None:
        """Write the leases of these runs."""
        runs = list(runs)
        self._codec.keys.prepare(connection, {run.tenant for run in runs}, self._clock.now())
        self._execute_rows(connection, _UPDATE_RUN, [run_changes(run, self._codec) for run in runs])

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

    def _write(self, connection: Connection, batches: Sequence[Transaction], now: datetime) -> list[Outcome]:
        run_names, document_names = rules.names(batches)
        known = {run.id: run for run in queries.find_runs(connection, self._codec, run_names, lock=True)}
        kept = {
            (document.tenant, document.kind, document.key): document
            for document in queries.find_documents(connection, self._codec, document_names, lock=True)
        }
        old_runs, old_documents = set(known), set(kept)
        locked = self._locked_names(connection, batches, known, kept) if self._postgres else {}
        counts = {one: queries.count_documents(connection, one) for one in rules.required_counts(batches)}
        outcomes = rules.apply_all(batches, known, kept, now, locked, counts)
        done = [outcome for outcome in outcomes if isinstance(outcome, rules.Changes)]
        tenants = {run.tenant for one in done for run in one.runs.values()}
        tenants |= {tenant for one in done for tenant, _, _ in one.documents}
        self._codec.keys.prepare(connection, tenants, now)
        self._put_runs(connection, {id: known[id] for one in done for id in one.runs}, old_runs)
        self._add(connection, events, [event_row(*added) for one in done for added in one.events])
        pieces = [
            piece_row(known[run].tenant, run, piece, self._codec) for one in done for run, piece in one.pieces
        ]
        self._add(connection, evidence, pieces)
        self._add(connection, case_blocks, [block_row(*added) for one in done for added in one.blocks])
        changed = {name: kept.get(name) for one in done for name in one.documents}
        self._put_documents(connection, changed, old_documents)
        return outcomes

    def _locked_names(
        self,
        connection: Connection,
        batches: Sequence[Transaction],
        runs: Mapping[str, Run],
        documents: Mapping[rules.Name, Document],
    ) -> dict[str | rules.Name, str]:
        """Rows that exist and are locked by another process, with their descriptions."""
        named = {entry.run for batch in batches for entry in batch.entries if not entry.opens}
        absent = (named | rules.required_runs(batches)) - runs.keys()
        absent -= {entry.run for batch in batches for entry in batch.entries if entry.opens}
        changes = (change for batch in batches for change in batch.documents if change.version != 0)
        missing = {rules.name_of(change) for change in changes} - documents.keys()
        found: dict[str | rules.Name, str] = {}
        if absent:
            found |= {id: f"run {id}" for id in queries.locked_runs(connection, sorted(absent))}
        if missing:
            there = queries.locked_documents(connection, sorted(missing))
            found |= {name: f"{name[1]} {name[2]!r}" for name in there}
        return found

    def _audit(self, connection: Connection, outcomes: Sequence[Outcome], now: datetime) -> Lanes:
        """Write audit entries in the transaction of their actions."""
        lines = [line for one in outcomes if isinstance(one, rules.Changes) for line in one.lines]
        if not lines:
            return {}
        lanes, written = self._chain.add(connection, lines, now)
        self._add(connection, audit, [line_row(line) for line in written])
        self._add(connection, audit_heads, [head_row(head) for head, _ in lanes.values()])
        return lanes

    def _put_runs(self, connection: Connection, changed: dict[str, Run], old: set[str]) -> None:
        self._add(
            connection, runs, [run_row(run, self._codec) for id, run in changed.items() if id not in old]
        )
        renewed = [run_changes(run, self._codec) for id, run in changed.items() if id in old]
        self._execute_rows(connection, _UPDATE_RUN, renewed)
        nameless = [{"b_id": id} for id, run in changed.items() if id in old and run.erased and not run.name]
        self._execute_rows(connection, _REMOVE_NAME, nameless)

    def _put_documents(
        self, connection: Connection, changed: dict[rules.Name, Document | None], old: set[rules.Name]
    ) -> None:
        gone = [name_columns(name) for name, document in changed.items() if document is None and name in old]
        self._execute_rows(connection, _DELETE_DOCUMENT, gone)
        made: list[Row] = []
        renewed: list[dict[str, Any]] = []
        for name, document in changed.items():
            if document is not None and name in old:
                renewed.append(name_columns(name) | document_values(document, self._codec))
            elif document is not None:
                made.append((*name, *document_values(document, self._codec).values()))
        self._execute_rows(connection, _UPDATE_DOCUMENT, renewed)
        self._add(connection, documents, made)

    def _add(self, connection: Connection, table: Table, rows: list[Row]) -> None:
        if rows:
            connection.exec_driver_sql(self._insert[table], rows)

    def _execute_rows(self, connection: Connection, statement: Any, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            connection.execute(statement, rows)
