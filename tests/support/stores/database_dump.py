"""What a thief gets: a database's files, and a dump of all its tables, as bytes to look through; what is only squeezed, unfolded."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import zstandard
from psycopg.sql import SQL, Identifier
from sqlalchemy import make_url

FRAME = zstandard.FRAME_HEADER


def dump_of(address: str) -> bytes:
    """Every cell of every table; of SQLite also its file and those beside it."""
    url = make_url(address)
    if url.get_backend_name() == "sqlite":
        assert url.database
        folder, name = Path(url.database).parent, Path(url.database).name
        files = [path.read_bytes() for path in sorted(folder.glob(f"{name}*"))]
        with closing(sqlite3.connect(url.database)) as file:
            tables = [
                table for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            return b"\n".join([*files, *(cell for table in tables for cell in cells(file.execute(f"SELECT * FROM {table}")))])  # fmt: skip
    parts: list[bytes] = []
    with psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False)
    ) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            parts += cells(connection.execute(SQL("SELECT * FROM {}").format(Identifier(table))))
    return b"\n".join(parts)


def cells(rows: Iterable[tuple[Any, ...]]) -> Iterator[bytes]:
    for row in rows:
        for cell in row:
            data = cell if isinstance(cell, bytes) else str(cell).encode()
            yield zstandard.decompress(data) if data.startswith(FRAME) else data
