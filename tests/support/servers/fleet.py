"""Servers and workers on one PostgreSQL, as real processes that a test kills, stops and cuts off."""

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import psycopg
from sqlalchemy import make_url

from assay.backends.stores.open import open_store
from support.waiting import PATIENCE

PARTS = '''
import asyncio, os
from assay.checks.checker import Checker

def log(line):
    with open(os.environ["FLEET_LOG"], "a") as file:
        file.write(line + "\\n")

class Counted(Checker):
    """Waits a moment, and logs that it was executed."""
    type = "counted"
    name: str
    at: int

    async def run(self, services):
        log(f"{self.name}:{self.at}")
        await asyncio.sleep(float(os.environ.get("FLEET_SECONDS", "0.05")))
        return {"passed": self.at % 3 == 0}

async def answer(task):
    log(f"{task['name']}:{task['at']}")
    try:
        await asyncio.sleep(task.get("seconds") or float(os.environ.get("FLEET_SECONDS", "0.05")))
    except asyncio.CancelledError:
        log(f"{task['name']} interrupted")
        raise
    return f"answer {task['at'] % 2}"

async def writer(task):
    await asyncio.sleep(0.05)
    return "a note"

async def reader(task):
    await asyncio.sleep(0.05)
    return {"verdict": "pass", "confidence": 0.9, "reasons": []}
'''
SETTINGS = """
check_modules = ["fleet_parts:Counted"]
[agents."local.fleet.answer"]
kind = "callable"
target = "fleet_parts:answer"
free = true
[agents."local.fleet.writer"]
kind = "callable"
target = "fleet_parts:writer"
free = true
[workflows.note]
actor = "local.fleet.writer"
[workflows.note.criteria.short]
type = "counted"
[workflows.note.criteria.short.arguments]
name = "workflow"
at = 3
"""


class Fleet:
    """Starts processes with one set of settings. The runs of `names` are submitted through any server, until one answers."""

    def __init__(self, zygote, folder, address, *, lease=1.0, concurrency=8, settings="", **environ):
        """`settings`: lines for the end of assay.toml."""
        self._zygote, self.folder, self.address = zygote, folder, address
        self.lease, self.concurrency = lease, concurrency
        self.log = folder / "executed"
        self.log.touch()
        (folder / "fleet_parts.py").write_text(PARTS)
        (folder / "assay.toml").write_text(SETTINGS + settings)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        self.environ = kept | {
            "ASSAY_DATABASE_URL": address, "ASSAY_ENGINE": "workers", "ASSAY_WORKERS_LEASE": str(lease),
            "ASSAY_CONCURRENCY": str(concurrency), "FLEET_LOG": str(self.log), "PYTHONUNBUFFERED": "1",
            "ASSAY_MAX_TENANT_RUNS": "500", "ASSAY_MAX_RUNS": "1000", **environ,
        }  # fmt: skip
        self.workers, self.servers, self.urls = [], [], []
        self.runs = {}  # by name: the path of the run
        made = zygote.start("admin", "key", "create", "--tenant", "acme", folder=folder, environ=self.environ)
        stdout, trouble = made.communicate()
        assert made.returncode == 0, trouble
        self.key = stdout.strip()

    def start_server(self):
        process = self._zygote.start(
            "serve", "--port", "0", folder=self.folder, pipe=True, environ=self.environ
        )
        line = process.stdout.readline()
        assert "assay serves http" in line, process.communicate()
        self.servers.append(process)
        self.urls.append(line.split()[2])

    def start_worker(self, *, wait=True, preload="", **environ):
        """With `preload`, a process that is not forked: the library must be there when Python starts."""
        environ = self.environ | environ
        if preload:
            script = Path(sys.executable).with_name("assay")
            process = subprocess.Popen(
                [script, "worker"], cwd=self.folder, env=environ | {"LD_PRELOAD": preload},
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        else:
            process = self._zygote.start(
                "worker", "--log-level", "info", folder=self.folder, pipe=True, environ=environ
            )
        self.workers.append(process)
        if wait:
            line = process.stdout.readline()
            assert "has started" in line, process.communicate()
        return process

    def request(self, method, path, body=None, *, key=None, kind="application/json", seconds=PATIENCE):
        headers = {"X-API-Key": self.key, "Content-Type": kind} | ({"Idempotency-Key": key} if key else {})
        until, trouble = time.monotonic() + seconds, None
        while time.monotonic() < until:
            for url in list(self.urls):
                try:
                    response = httpx.request(method, url + path, content=body, headers=headers, timeout=20)
                except httpx.HTTPError as error:
                    trouble = error
                    continue
                if response.status_code < 300:
                    return response.json()
                trouble = response.text
                assert response.status_code in (409, 429, 500, 502, 503), response.text
            time.sleep(0.1)
        raise AssertionError(f"{method} {path} was not answered: {trouble}")

    def submit_evaluation(self, name, cases, check=None):
        checks = [check or {"type": "counted", "arguments": {"name": name, "at": "$.test_case.input"}}]
        lines = [{"checks": checks}] + [
            {"test_case": {"id": str(at), "input": at}, "output": {"value": at}} for at in range(cases)
        ]
        body = "\n".join(map(json.dumps, lines)).encode()
        got = self.request("POST", "/v1/evaluations", body, key=name, kind="application/x-ndjson")
        self.runs[name] = f"/v1/operations/{got['operation_id']}"
        return got["operation_id"]

    def submit_eval(self, name, tasks, trials=2, *, seconds=0, **options):
        expected = {"kind": "golden", "match": {"strategy": "contains", "value": "answer 1"}}
        suite = {
            "suiteId": f"local.fleet.evals.{name}", "version": "1.0.0", "modes": ["golden"],
            "tasks": [
                {"taskId": f"t{at}", "input": {"name": name, "at": at, "seconds": seconds}, "expected": expected}
                for at in range(tasks)
            ],
        }  # fmt: skip
        self.request("POST", "/v1/host/assay/suites", json.dumps(suite).encode())
        return self._start(name, {
            "mode": "eval", "evalSuiteRef": f"{suite['suiteId']}@1.0.0", "agentId": "local.fleet.answer",
            "configurable": {"trials": trials, **options},
        })  # fmt: skip

    def submit_workflow(self, name):
        return self._start(name, {"workflowId": "note", "inputs": {"task": "write"}})

    def _start(self, name, body):
        got = self.request("POST", "/v1/runs", json.dumps(body).encode(), key=name)
        self.runs[name] = f"/v1/runs/{got['runId']}"
        return got["runId"]

    def follow(self, name):
        """The frames of the stream of a run, by type, in a list that grows until the run ends; and the thread that reads them."""
        frames = []

        def read():
            headers = {"X-API-Key": self.key, "Accept": "text/event-stream"}
            url = f"{self.urls[0]}{self.runs[name]}/events"
            with httpx.stream("GET", url, headers=headers, timeout=PATIENCE) as response:
                type = ""
                for line in response.iter_lines():
                    if line.startswith("event: "):
                        type = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        frames.append((type, json.loads(line.removeprefix("data: "))))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return frames, thread

    def wait(self, *names):
        """The status of these runs, or of all, once they have ended. They end, or record something within `PATIENCE`."""
        left, ended = {name: self.runs[name] for name in names or self.runs}, {}
        recorded, until = self.recorded(), time.monotonic() + PATIENCE
        while left:
            for name, path in list(left.items()):
                status = self.request("GET", path)["status"]
                if status not in ("pending", "running", "cancelling"):
                    ended[name] = status
                    del left[name]
            if time.monotonic() > until:
                before, recorded, until = recorded, self.recorded(), time.monotonic() + PATIENCE
                assert recorded != before, f"nothing was recorded of these runs: {left}\n{self.state()}"
            time.sleep(0.1)
        return ended

    def wait_for(self, name):
        """Wait until this run has completed."""
        assert self.wait(name) == {name: "completed"}, self.state()

    def recorded(self):
        """The number of events of all runs."""
        with psycopg.connect(self.address) as connection:
            return connection.execute("SELECT sum(events) FROM runs").fetchone()[0]

    def state(self):
        """What a test prints when runs do not end."""
        with psycopg.connect(self.address) as connection:
            units = []
            if connection.execute("SELECT to_regclass('assay_units.workflow_status')").fetchone()[
                0
            ]:  # a worker makes it
                units = connection.execute(
                    "SELECT status, executor_id, count(*), max(recovery_attempts) FROM assay_units.workflow_status GROUP BY 1, 2"
                ).fetchall()
            runs = connection.execute("SELECT id, status, holder, takeovers, events FROM runs").fetchall()
            workers = connection.execute(
                "SELECT key, version FROM documents WHERE kind = 'worker'"
            ).fetchall()
        logs = [self._log_of(one) for one in self.workers if one.poll() is None]
        return "\n".join(map(str, (*units, *runs, *workers, *logs)))

    def _log_of(self, process):
        if isinstance(process, subprocess.Popen):
            return ""
        process._err.seek(0)
        return process._err.read()[-3000:]

    def executions(self):
        """How often each unit was executed, by the name of its run and its number."""
        return Counter(line for line in self.log.read_text().split("\n") if line)

    def read(self, function):
        """What `function(store)` reads from the database."""

        async def read():
            store = await open_store(self.address)
            try:
                return await function(store)
            finally:
                await store.close()

        return asyncio.run(read())

    def counts(self):
        """The sums over the workers that are alive: executed, repeated, refused."""

        async def read(store):
            return [json.loads(one.data) for one in await store.documents("", "worker", limit=1000)]

        return {
            name: sum(one[name] for one in self.read(read)) for name in ("executed", "repeated", "refused")
        }

    def close(self):
        for process in (*self.workers, *self.servers):
            if isinstance(process, subprocess.Popen):
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.communicate()
            else:
                process.close()


class Proxy:
    """A TCP address in front of PostgreSQL, whose connections are cut, and refused until they may come back."""

    def __init__(self, address):
        url = make_url(address)
        self._target = url.query.get("host") or url.host
        self._port = int(url.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        query = {name: value for name, value in url.query.items() if name not in ("host", "port")}
        self.address = url.set(host="127.0.0.1", port=port, query=query).render_as_string(hide_password=False)
        self._pairs, self._open, self._lock = set(), True, threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                client.close()
                continue
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _connect(self):
        if str(self._target).startswith("/"):
            upstream = socket.socket(socket.AF_UNIX)
            try:
                upstream.connect(f"{self._target}/.s.PGSQL.{self._port}")
            except OSError:
                upstream.close()
                raise
            return upstream
        return socket.create_connection((self._target, self._port))

    def _pass_on(self, client):
        with client, contextlib.suppress(OSError), self._connect() as upstream:
            with self._lock:
                self._pairs.add((client, upstream))
            other = {client: upstream, upstream: client}
            while True:
                for one in select.select([client, upstream], [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    other[one].sendall(data)

    def cut(self):
        self._open = False
        with self._lock:
            for pair in self._pairs:
                for one in pair:
                    with contextlib.suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
            self._pairs.clear()

    def restore(self):
        self._open = True

    def close(self):
        self.cut()
        self._listener.close()
