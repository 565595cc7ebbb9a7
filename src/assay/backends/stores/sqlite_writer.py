"""
Writes one transaction at a time to SQLite, by Python's `sqlite3`. `transactions.py` has the rules, as for every store.
"""

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from assay.backends.stores.records import lease_rules
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
    name_columns,
    piece_row,
    read_document,
    read_run,
    run_changes,
    run_row,
)
from assay.backends.stores.records.schema import OPEN_RUNS
from assay.errors import Conflict
from assay.ports import ACTIVE, Clock, Document, RequireCount, Run, RunStatus, Transaction
from assay.ports.audit import START, AuditEntry, LaneHead, next_head, next_record

# Rows of SQLite by Python's `sqlite3`, for the light store. It needs no SQLAlchemy.

# ruff: noqa: S608  # the parts of statements are constants here; values are parameters


_MOST = 500  # names in one statement


def fetch(connection: sqlite3.Connection, statement: str, parameters: Any) -> list[Any]:
    with closing(connection.execute(statement, parameters)) as cursor:
        names = [column[0] for column in cursor.description]
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in cursor]


def find_runs(connection: sqlite3.Connection, codec: RecordCodec, ids: Sequence[str]) -> list[Run]:
    rows = [
        row
        for some in portions(ids)
        for row in fetch(
            connection, f"SELECT * FROM runs WHERE id IN ({marks(some)}) ORDER BY id", tuple(some)
        )
    ]
    return [read_run(row, codec) for row in rows]


def find_document(
    connection: sqlite3.Connection, codec: RecordCodec, tenant: str, kind: str, key: str
) -> Document | None:
    rows = fetch(
        connection, "SELECT * FROM documents WHERE tenant = ? AND kind = ? AND key = ?", (tenant, kind, key)
    )
    return read_document(rows[0], codec) if rows else None


def portions(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + _MOST] for at in range(0, len(names), _MOST))


def marks(names: Any) -> str:
    return ", ".join("?" * len(names))


# ruff: noqa: S608  # the parts of statements are constants here; values are parameters


Lanes = dict[str, tuple[LaneHead, datetime]]  # by tenant, with the time of the last line
_AUDIT_HEAD = """
    SELECT lane, root FROM audit_heads
    WHERE tenant = ? AND typeof(tenant) = 'text' AND typeof(lane) = 'integer' AND typeof(lines) = 'integer'
        AND typeof(digest) = 'blob' AND typeof(root) = 'blob'
    ORDER BY lane DESC LIMIT 1
"""
_HELD = f"SELECT * FROM runs WHERE {OPEN_RUNS} AND status IN ({marks(ACTIVE)}) AND holder = ? ORDER BY created, id"


class LightWriter:
    """Each method is one transaction of SQLite. A `sqlite3.Error` means that nothing was written."""

    def __init__(
        self, connection: sqlite3.Connection, codec: RecordCodec, clock: Clock, reach: Reach
    ) -> None:
        self._connection, self._codec, self._clock, self._reach = connection, codec, clock, reach
        self._lanes: Lanes = {}

    def write(self, batch: Transaction) -> rules.Changes:
        """Write it, or raise Conflict."""
        self._reach("commit.before")
        with self._transaction():
            now = self._clock.now()
            run_names, document_names = rules.names([batch])
            runs = {run.id: run for run in find_runs(self._connection, self._codec, run_names)}
            documents = dict[rules.Name, Document]()
            for name in document_names:
                if (document := find_document(self._connection, self._codec, *name)) is not None:
                    documents[name] = document
            counts = {one: self._count(one) for one in rules.required_counts([batch])}
            changes = rules.apply(batch, runs, documents, now, counts)
            try:
                self._put(changes, runs, documents)
            except sqlite3.IntegrityError:
                raise Conflict("exists", "batch", "some of its evidence exists already") from None
            lanes = self._add_lines(changes.lines, now)
            self._reach("commit.written")
            for tenant in lanes:
                self._lanes.pop(tenant, None)
        self._lanes.update(lanes)
        self._reach("commit.after")
        return changes

    def claim(self, run: str, holder: str, seconds: float) -> Run | None:
        with self._transaction():
            found = find_runs(self._connection, self._codec, [run])
            anchored, claimed = lease_rules.claim_leases(found, holder, self._clock.now(), seconds)
            self._update([*anchored, *claimed])
        return claimed[0] if claimed else None

    def renew(self, holder: str, seconds: float) -> dict[str, RunStatus]:
        with self._transaction():
            now = self._clock.now()
            rows = fetch(self._connection, _HELD, (*sorted(ACTIVE), holder))
            held = [
                lease_rules.take_lease(run, holder, now, seconds)
                for run in (read_run(row, self._codec) for row in rows)
            ]
            self._update(held)
        return {run.id: run.status for run in held}

    def release(self, run: str, holder: str) -> None:
        with self._transaction():
            found = find_runs(self._connection, self._codec, [run])
            self._update(lease_rules.release_lease(one) for one in found if one.holder == holder)

    def _put(
        self, changes: rules.Changes, runs: dict[str, Run], documents: dict[rules.Name, Document]
    ) -> None:
        codec, after = self._codec, runs | changes.runs
        self._insert("runs", [run_row(run, codec) for id, run in changes.runs.items() if id not in runs])
        old = [run for id, run in changes.runs.items() if id in runs]
        self._update(old)
        self._execute(
            statements.REMOVE_NAME, [{"b_id": run.id} for run in old if run.erased and not run.name]
        )
        self._insert("events", [event_row(*added) for added in changes.events])
        self._insert(
            "evidence", [piece_row(after[run].tenant, run, piece, codec) for run, piece in changes.pieces]
        )
        self._insert("case_blocks", [block_row(*added) for added in changes.blocks])
        for name, document in changes.documents.items():
            if document is None:
                self._execute(statements.DELETE_DOCUMENT, [name_columns(name)])
            elif name in documents:
                values = name_columns(name) | document_values(document, codec)
                self._execute(statements.UPDATE_DOCUMENT, [values])
            else:
                self._insert("documents", [(*name, *document_values(document, codec).values())])

    def _count(self, required: RequireCount) -> int:
        number = "coalesce(sum(version), 0)" if required.versions else "count(*)"
        statement = (
            f"SELECT {number} FROM documents WHERE tenant = ? AND kind = ? AND key >= ? AND "
            "substr(key, 1, ?) = ?"
        )
        prefix = required.prefix
        row = self._connection.execute(
            statement, (required.tenant, required.kind, prefix, len(prefix), prefix)
        ).fetchone()
        return int(row[0])

    def _add_lines(self, lines: Sequence[AuditEntry], now: datetime) -> Lanes:
        """Append lines to the lane of this process; return its new end in each tenant's log."""
        lanes: Lanes = {}
        rows = list[Row]()
        for line in lines:
            head, last = (
                lanes.get(line.tenant) or self._lanes.get(line.tenant) or (self._new_lane(line.tenant), now)
            )
            written = next_record(head, max(now, last), line)
            lanes[line.tenant] = next_head(head, written), written.at
            rows.append(line_row(written))
        self._insert("audit", rows)
        self._insert("audit_heads", [head_row(head) for head, _ in lanes.values()])
        return lanes

    def _new_lane(self, tenant: str) -> LaneHead:
        row = self._connection.execute(_AUDIT_HEAD, (tenant,)).fetchone()
        lane, before = (0, START) if row is None else (row[0] + 1, row[1])
        return LaneHead(tenant=tenant, lane=lane, lines=0, digest=before, root=b"")

    def _update(self, runs: Iterable[Run]) -> None:
        self._execute(statements.UPDATE_RUN, [run_changes(run, self._codec) for run in runs])

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        self._execute(statements.INSERT[table], rows)

    def _execute(self, statement: str, rows: Sequence[Any]) -> None:
        if rows:
            self._connection.executemany(statement, rows)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
