"""The tables of the SQL store. Times are microseconds since 1970, which both databases compare alike."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from assay.backends.stores.records.sqlite_schema import OPEN_RUNS

UNIT_SCHEMA = "assay_units"  # of the tables of DBOS, in the database of the store
metadata = MetaData()

# Bytewise order, as Python's and SQLite's, whatever the language of a PostgreSQL cluster is.
Name = Text().with_variant(Text(collation="C"), "postgresql")

OPEN = text(OPEN_RUNS)
CURRENT = text("retired IS NULL")


def content() -> list[Column[Any]]:
    """The columns of content that is coded, and sealed with the key of a tenant."""
    return [
        Column("coding", Integer, nullable=False),
        Column("key_id", Name, nullable=False),
        Column("data", LargeBinary, nullable=False),
    ]


runs = Table(
    "runs",
    metadata,
    Column("id", Name, primary_key=True),
    Column("tenant", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("status", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("events", BigInteger, nullable=False),
    Column("holder", Name),
    Column("leased", BigInteger),
    Column("granted", BigInteger),
    Column("takeovers", Integer, nullable=False, server_default="0"),
    Column("score", Double),
    Column("cost", Double),
    Column("passed", Integer),
    Index("runs_by_age", "created", "id"),
    Index("runs_by_tenant", "tenant", "created", "id"),
    Index("runs_by_name", "tenant", "name", "created", "id"),
    Index("runs_by_group", "tenant", "kind", "name", "created", "id"),
    Index("runs_by_status", "tenant", "kind", "status", "created", "id", "passed"),
    Index("runs_by_score", "tenant", "kind", "status", "score", "created", "id", "passed"),
    Index("runs_by_cost", "tenant", "kind", "status", "cost", "created", "id", "passed"),
    Index(
        "runs_by_duration", "tenant", "kind", "status", text("(ended - started)"), "created", "id", "passed"
    ),
    runs_open := Index("runs_open", "created", "id", sqlite_where=OPEN),
)

events = Table(
    "events",
    metadata,
    Column("run", Name, ForeignKey("runs.id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("type", Name, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

evidence = Table(
    "evidence",
    metadata,
    Column("run", Name, ForeignKey("runs.id"), primary_key=True),
    Column("kind", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    *content(),
)

documents = Table(
    "documents",
    metadata,
    Column("tenant", Name, primary_key=True),
    Column("kind", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("updated", BigInteger, nullable=False),
    *content(),
    Index("documents_by_age", "kind", "updated"),
)

case_blocks = Table(
    "case_blocks",
    metadata,
    Column("run", Name, ForeignKey("runs.id"), primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("passed", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("ungraded", BigInteger, nullable=False),
    Column("error", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    Column("spent", Double, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

tenant_keys = Table(
    "tenant_keys",
    metadata,
    Column("id", Name, primary_key=True),
    Column("tenant", Name, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("retired", BigInteger),
    Column("destroyed", BigInteger),
    Column("key_id", Name, nullable=False),
    Column("data", LargeBinary, nullable=False),
    current_keys := Index("tenant_keys_current", "tenant", unique=True, sqlite_where=CURRENT),
)

audit = Table(
    "audit",
    metadata,
    Column("tenant", Name, primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("lane", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

audit_heads = Table(
    "audit_heads",
    metadata,
    Column("tenant", Name, primary_key=True),
    Column("lane", BigInteger, primary_key=True, autoincrement=False),
    Column("lines", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("root", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


def create_all(connection: Connection) -> None:
    """Create all tables in an empty database. A test compares them with those of the migrations."""
    # named here, as its name above would load that dialect for SQLite too
    if connection.dialect.name == "postgresql":
        runs_open.dialect_kwargs["postgresql_where"] = OPEN
        current_keys.dialect_kwargs["postgresql_where"] = CURRENT
    metadata.create_all(connection, checkfirst=False)
