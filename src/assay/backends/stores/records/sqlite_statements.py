"""
The statements that write a transaction, as text: for both forms of the SQLite store, and for PostgreSQL.

It needs no SQLAlchemy. A test compares the columns with the tables of `tables.py`.
"""

import os
import sqlite3
from contextlib import suppress

from assay.backends.stores.records.schema import HEAD

# ruff: noqa: S608  # the parts of statements are constants here; values are parameters

COLUMNS = {  # of the tables that a transaction writes
    "runs": (
        "id", "tenant", "kind", "status", "name", "head", "created", "started", "ended", "events", "holder", "leased", "granted",
        "takeovers", "score", "cost", "passed",
    ),
    "events": ("run", "sequence", "type", "at", "data"),
    "evidence": ("run", "kind", "key", "first", "last", "size", "coding", "key_id", "data"),
    "documents": ("tenant", "kind", "key", "version", "updated", "coding", "key_id", "data"),
    "case_blocks": (
        "run", "first", "last", "passed", "failed", "ungraded", "error", "skipped", "spent", "unknown", "sequence", "data",
    ),
    "audit": ("tenant", "at", "lane", "number", "data", "digest"),
    "audit_heads": ("tenant", "lane", "lines", "digest", "root"),
}  # fmt: skip
CHANGING_RUN = (
    "status", "head", "started", "ended", "events", "holder", "leased", "granted", "takeovers", "score", "cost", "passed",
)  # fmt: skip
CHANGING_DOCUMENT = ("version", "updated", "coding", "key_id", "data")


def insertion(table: str, *, mark: str = "?") -> str:
    """Insert a row. `mark` stands for a value in the syntax of the driver."""
    columns = COLUMNS[table]
    over = ", ".join(f'"{name}" = excluded."{name}"' for name in columns)
    anyway = f" ON CONFLICT (tenant, lane) DO UPDATE SET {over}" if table == "audit_heads" else ""
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join([mark] * len(columns))}){anyway}"


def _changes(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"=:{name}' for name in columns)


_NAMED = 'documents.tenant = :b_tenant AND documents.kind = :b_kind AND documents."key" = :b_key'

INSERT = {table: insertion(table) for table in COLUMNS}
UPDATE_RUN = f"UPDATE runs SET {_changes(CHANGING_RUN)} WHERE runs.id = :b_id"
REMOVE_NAME = "UPDATE runs SET name='' WHERE runs.id = :b_id AND runs.name != ''"
UPDATE_DOCUMENT = f"UPDATE documents SET {_changes(CHANGING_DOCUMENT)} WHERE {_NAMED}"
DELETE_DOCUMENT = f"DELETE FROM documents WHERE {_NAMED}"


# The newest schema as text, to create a file of SQLite without SQLAlchemy. A test compares it with the tables of
# `tables.py`.

SCHEMA = """
CREATE TABLE runs (id TEXT NOT NULL, tenant TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, name TEXT NOT
    NULL, head BLOB NOT NULL, created BIGINT NOT NULL, started BIGINT, ended BIGINT, events BIGINT NOT NULL, holder
    TEXT, leased BIGINT, granted BIGINT, takeovers INTEGER DEFAULT '0' NOT NULL, score DOUBLE, cost DOUBLE, passed
    INTEGER, PRIMARY KEY (id));
CREATE INDEX runs_by_duration ON runs (tenant, kind, status, (ended - started), created, id, passed);
CREATE INDEX runs_by_group ON runs (tenant, kind, name, created, id);
CREATE INDEX runs_open ON runs (created, id) WHERE status IN ('pending', 'running', 'cancelling', 'paused',
    'waiting-approval', 'waiting-input', 'waiting-external');
CREATE INDEX runs_by_tenant ON runs (tenant, created, id);
CREATE INDEX runs_by_status ON runs (tenant, kind, status, created, id, passed);
CREATE INDEX runs_by_cost ON runs (tenant, kind, status, cost, created, id, passed);
CREATE INDEX runs_by_age ON runs (created, id);
CREATE INDEX runs_by_score ON runs (tenant, kind, status, score, created, id, passed);
CREATE INDEX runs_by_name ON runs (tenant, name, created, id);
CREATE TABLE documents (tenant TEXT NOT NULL, kind TEXT NOT NULL, "key" TEXT NOT NULL, version BIGINT NOT NULL,
    updated BIGINT NOT NULL, coding INTEGER NOT NULL, key_id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tenant,
    kind, "key"));
CREATE INDEX documents_by_age ON documents (kind, updated);
CREATE TABLE tenant_keys (id TEXT NOT NULL, tenant TEXT NOT NULL, created BIGINT NOT NULL, retired BIGINT, destroyed
    BIGINT, key_id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (id));
CREATE UNIQUE INDEX tenant_keys_current ON tenant_keys (tenant) WHERE retired IS NULL;
CREATE TABLE audit (tenant TEXT NOT NULL, at BIGINT NOT NULL, lane BIGINT NOT NULL, number BIGINT NOT NULL, data
    BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (tenant, at, lane, number)) WITHOUT ROWID;
CREATE TABLE audit_heads (tenant TEXT NOT NULL, lane BIGINT NOT NULL, lines BIGINT NOT NULL, digest BLOB NOT NULL,
    root BLOB NOT NULL, PRIMARY KEY (tenant, lane)) WITHOUT ROWID;
CREATE TABLE events (run TEXT NOT NULL, sequence BIGINT NOT NULL, type TEXT NOT NULL, at BIGINT NOT NULL, data BLOB
    NOT NULL, PRIMARY KEY (run, sequence), FOREIGN KEY(run) REFERENCES runs (id)) WITHOUT ROWID;
CREATE TABLE evidence (run TEXT NOT NULL, kind TEXT NOT NULL, "key" TEXT NOT NULL, first BIGINT NOT NULL, last
    BIGINT NOT NULL, size BIGINT NOT NULL, coding INTEGER NOT NULL, key_id TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (run, kind, "key", first), FOREIGN KEY(run) REFERENCES runs (id));
CREATE TABLE case_blocks (run TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, passed BIGINT NOT NULL,
    failed BIGINT NOT NULL, ungraded BIGINT NOT NULL, error BIGINT NOT NULL, skipped BIGINT NOT NULL, spent DOUBLE
    NOT NULL, unknown BIGINT NOT NULL, sequence BIGINT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run, first),
    FOREIGN KEY(run) REFERENCES runs (id)) WITHOUT ROWID;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY
    (version_num));
"""


def make_private(file: str) -> None:
    """Create a missing file for its owner alone. SQLite's companion files get the same mode."""
    with suppress(OSError):  # it exists and keeps its mode; or it cannot be created, and SQLite reports why
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def create_schema(connection: sqlite3.Connection) -> None:
    """Create all tables, unless there is one. Of two processes that start at once, the second does nothing."""
    connection.execute("PRAGMA journal_mode=WAL").close()
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
            for statement in SCHEMA.split(";")[:-1]:
                connection.execute(statement)
            connection.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (HEAD,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
