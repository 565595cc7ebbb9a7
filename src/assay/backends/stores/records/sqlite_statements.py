"""
The statements that write a transaction, as text: for both forms of the SQLite store, and for PostgreSQL.

It needs no SQLAlchemy. A test compares the columns with the tables of `tables.py`.
"""

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
