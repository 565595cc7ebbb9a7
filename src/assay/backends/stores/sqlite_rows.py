# ruff: noqa: S608  # the parts of statements are constants here; values are parameters
"""Rows of SQLite by Python's `sqlite3`, for the light store. It needs no SQLAlchemy."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

from assay.backends.stores.codec import RecordCodec
from assay.backends.stores.records import read_document, read_run
from assay.ports import Document, Run

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
