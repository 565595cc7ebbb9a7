"""Attacks by databases that hang or die."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from assay.concurrency.event_loop import END_SECONDS, STOP_SECONDS
from bench.attacking.target import Attack, Target
from bench.database import open_database


@contextmanager
def shared_database(home: Path) -> Generator[dict[str, str]]:
    """The environment of the server that is measured and of the attack."""
    with open_database() as database:
        yield {"ASSAY_DATABASE_URL": database.address, "ATTACK_HOME": str(home)}


@contextmanager
def another_server() -> Generator[tuple[subprocess.Popen[str], str]]:
    """A server beside the one that is measured, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "serve", "--port", "0"],
        cwd=os.environ["ATTACK_HOME"],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().split()[2]
    finally:
        process.kill()
        process.communicate()


def stop_without_database(target: Target) -> None:
    """Another server is asked to stop while its database does not answer, and requests are in flight."""
    with open_database() as database:
        os.environ["ASSAY_DATABASE_URL"] = database.address  # of this process and of those that it starts
        key = create_key(Path(os.environ["ATTACK_HOME"]), "attacker")
        with another_server() as (process, url):
            other = Target(url, "", key)
            assert other.request("GET", "/v1/evaluations").status == 200
            with hanging(database.address):
                asking = [threading.Thread(target=_ask, args=[other], daemon=True) for _ in range(8)]
                for one in asking:
                    one.start()
                time.sleep(0.5)  # some of them wait for the database
                asked = time.monotonic()
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_SECONDS + END_SECONDS + 10)
                took = time.monotonic() - asked
    assert took < STOP_SECONDS + END_SECONDS + 2, f"it took {took:.0f} s"
    assert target.request("GET", "/v1/live").status == 200


def _ask(target: Target) -> None:
    with suppress(OSError, http.client.HTTPException):
        target.request("GET", "/v1/evaluations")


@contextmanager
def hanging(address: str) -> Generator[None]:
    """Every connection to a database stands still meanwhile, and so does the process that accepts new ones."""
    with psycopg.connect(address, autocommit=True) as connection:
        where = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        pids = [int(row[0]) for row in connection.execute(where).fetchall()]
    stat = Path(f"/proc/{pids[0]}/stat").read_text()
    pids.append(int(stat.rpartition(")")[2].split()[1]))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def create_key(folder: Path, tenant: str, environ: Mapping[str, str] = os.environ) -> str:
    """Create an API key of a tenant."""
    made = subprocess.run(
        [sys.executable, "-m", "assay", "admin", "key", "create", "--tenant", tenant],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.strip()


ATTACKS: dict[str, Attack] = {
    "a stop while the database hangs": stop_without_database,
}
LONG = frozenset(ATTACKS)
