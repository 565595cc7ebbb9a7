"""
The newest schema of the database as text, to create a file of SQLite without SQLAlchemy.

A test compares it with the tables of `sql/tables.py`.
"""

import os
import sqlite3
from contextlib import suppress

HEAD = "0001"  # the newest of the migrations; known here so that a database in shape opens without loading Alembic

# of one attempt: the last one may begin when a request has waited 2.6 s, and the request has its answer within 3 s
BUSY_SECONDS = 0.3

PRAGMAS = (  # of every connection
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "journal_size_limit=67108864",
    "wal_autocheckpoint=16000",  # pages; `Checkpoints` normally writes them earlier
    "secure_delete=ON",  # overwrite deleted content in the file
)

# the condition of the index `runs_open`, as a text without parameters: a partial index serves only queries that contain
# it
OPEN_RUNS = "status IN ('pending', 'running', 'cancelling', 'paused', 'waiting-approval', 'waiting-input', 'waiting-external')"

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
