"""What a thief gets: a database's files, or a dump of all its tables, as bytes to look through."""

from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier
from sqlalchemy import make_url


def everything_of(address: str) -> bytes:
    """Of SQLite the file and those beside it; of PostgreSQL every table as text, and its bytes unpacked."""
    url = make_url(address)
    if url.get_backend_name() == "sqlite":
        assert url.database
        folder = Path(url.database).parent
        return b"".join(path.read_bytes() for path in sorted(folder.glob(f"{Path(url.database).name}*")))
    parts: list[bytes] = []
    with psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False)
    ) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            rows = connection.execute(SQL("SELECT * FROM {}").format(Identifier(table))).fetchall()
            parts += [cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row]
    return b"\n".join(parts)
