"""Attacks by databases that hang, and by servers that pause and die."""

import ctypes
import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from assay.concurrency.event_loop import END_SECONDS, STOP_SECONDS
from bench.attacking.target import Attack, Target
from bench.database import open_database

AGENT = "local.storm.patient"
SETTINGS = f"""
[agents."{AGENT}"]
kind = "callable"
target = "patient:answer"
free = true
"""
PATIENT = """
import asyncio

async def answer(task):
    await asyncio.sleep(1.0)
    return task
"""


@contextmanager
def shared_database(home: Path) -> Generator[dict[str, str]]:
    """The environment of the server that is measured and of the attack. Every server of the database has the same agent."""
    (home / "assay.toml").write_text(SETTINGS)
    (home / "patient.py").write_text(PATIENT)
    with open_database() as database:
        yield {"ASSAY_DATABASE_URL": database.address, "ATTACK_HOME": str(home), "PYTHONPATH": str(home)}


class Server:
    """A server beside the one that is measured. It ends with the process that started it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "assay", "serve", "--port", "0"],
            cwd=os.environ["ATTACK_HOME"],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # this process has one thread here
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[2]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG of Linux


def stop_without_database(target: Target) -> None:
    """Another server is asked to stop while its database does not answer, and requests are in flight."""
    with open_database() as database:
        os.environ["ASSAY_DATABASE_URL"] = database.address  # of this process and of those that it starts
        key = create_key(Path(os.environ["ATTACK_HOME"]), "attacker")
        with closing(Server()) as server:
            process, other = server.process, Target(server.url, "", key)
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


STORM = 60.0  # seconds
PAUSE = (3.0, 25.0)  # seconds
TASKS = 12  # of a run, each of a second
RUNS = 4  # in progress, on all servers


def pause_and_die(target: Target) -> None:
    """
    Two servers beside the one that is measured pause, are killed (also while they pause) and are restarted, and share its runs.

    No run is lost, and none fails: the same unit is not there each time.
    """
    dice, servers, begun = random.Random(34), [Server(), Server()], list[str]()
    resumed: dict[Server, float] = {}  # servers that pause, and until when
    until, faults, failures = time.monotonic() + STORM, Counter[str](), list[str]()
    suite = _patient_suite(target)
    while (now := time.monotonic()) < until:
        for server in [one for one, end in resumed.items() if end <= now]:
            server.process.send_signal(signal.SIGCONT)
            del resumed[server]
        active = [run for run in begun if _status(target, run) in ("pending", "running")]
        awake = [one for one in servers if one not in resumed]
        for _ in range(RUNS - len(active)):
            place = Target(dice.choice(awake).url, "", target.key) if awake else target
            try:
                begun.append(_begin(place, suite))
            except (OSError, http.client.HTTPException, AssertionError) as failure:  # it is being killed
                failures.append(repr(failure))
        fault = dice.choice(("pause", "kill", "restart"))
        at = dice.randrange(len(servers))
        if fault == "pause" and servers[at] not in resumed:
            servers[at].process.send_signal(signal.SIGSTOP)
            resumed[servers[at]] = time.monotonic() + dice.uniform(*PAUSE)
        elif fault == "kill" or (fault == "restart" and servers[at] not in resumed):
            if fault == "restart":
                servers[at].process.terminate()
                servers[at].process.wait(STOP_SECONDS + END_SECONDS + 10)
            resumed.pop(servers[at], None)
            servers[at].close()
            servers[at] = Server()
        faults[fault] += 1
        time.sleep(2.0)
    for server in resumed:
        server.process.send_signal(signal.SIGCONT)
    ended = {run: _ended(target, run) for run in begun}
    for server in servers:
        server.close()
    lost = {run: one for run, one in ended.items() if one != "completed"}
    assert not lost, f"{len(lost)} of {len(ended)} runs after {dict(faults)}: {lost}"
    assert len(ended) > RUNS, f"only {len(ended)} runs after {dict(faults)}: {failures[-1:]}"


def _patient_suite(target: Target) -> str:
    def task(at: int) -> dict[str, Any]:
        match = {"strategy": "exact", "value": f"{at}"}
        return {"taskId": f"t{at}", "input": f"{at}", "expected": {"kind": "golden", "match": match}}

    document = {
        "suiteId": "local.storm.evals.patient",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [task(at) for at in range(TASKS)],
    }
    stored = target.request("POST", "/v1/host/assay/suites", document)
    assert stored.status in (200, 201), stored.body
    return f"{document['suiteId']}@{document['version']}"


def _begin(target: Target, suite: str) -> str:
    body = {"mode": "eval", "evalSuiteRef": suite, "agentId": AGENT}
    answer = target.request("POST", "/v1/runs", body)
    assert answer.status == 201, answer.body
    return answer.json["runId"]


def _status(target: Target, run: str) -> str:
    return target.request("GET", f"/v1/runs/{run}").json["status"]


def _ended(target: Target, run: str) -> str:
    """The status of a run that has ended, with the code of its error."""
    while (status := _status(target, run)) in ("pending", "running"):
        time.sleep(0.5)
    error = target.request("GET", f"/v1/runs/{run}").json.get("error")
    return f"{status}: {error['code']}" if error else status


ATTACKS: dict[str, Attack] = {
    "a stop while the database hangs": stop_without_database,
    "servers that pause and die": pause_and_die,
}
LONG = frozenset(ATTACKS)
