"""What a container does, without one: another user, nowhere to write, settings only from the environment."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from support.stores.postgres import server
from support.waiting import PATIENCE

ASSAY = Path(sys.executable).with_name("assay")
NOBODY = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all,+dac_read_search",
    "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
    "--no-new-privs",
]  # it may read the Python of root, and write nothing
NOWHERE = "/proc"  # no file can be made there, by root neither


class Processes:
    """Processes with the settings of a container; what they print are lines of JSON."""

    def __init__(self, address, resources):
        self._resources = resources
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        self._environ = kept | {
            "ASSAY_DATABASE_URL": address,
            "ASSAY_ENGINE": "workers",
            "ASSAY_HOME": f"{NOWHERE}/assay",
            "HOME": NOWHERE,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *words):
        made = subprocess.Popen(
            [*(NOBODY if os.getuid() == 0 else ()), str(ASSAY), *words], cwd=NOWHERE, env=self._environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._resources.callback(made.kill)
        return made


def address_in(lines, process):
    """The first address that the process says it has."""
    while True:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        lines.append(line)
        if found := re.search(r"http://[^\s\"]+", line):
            return found[0]


@pytest.fixture(scope="module")
def processes():
    with server().database() as address, ExitStack() as resources:
        yield Processes(address, resources)


def test_a_migration_a_server_and_a_worker_need_no_rights_and_no_files(processes):
    migration = processes.start("admin", "migrate", "--json")
    out, err = migration.communicate(timeout=PATIENCE)
    assert (migration.returncode, err) == (0, "")
    assert json.loads(out)["schema"]
    again = processes.start("admin", "migrate")
    assert (
        again.communicate(timeout=PATIENCE)[0] == f"the database has the schema {json.loads(out)['schema']}\n"
    )
    scopes = ("--scope", "everything", "--scope", "metrics:read")
    made = processes.start("admin", "key", "create", "--tenant", "acme", *scopes, "--json")
    key = json.loads(made.communicate(timeout=PATIENCE)[0])["key"]
    form = ("--port", "0", "--log-format", "json", "--log-level", "info")
    worker, serving = processes.start("worker", *form), processes.start("serve", *form)
    lines = {worker: [], serving: []}
    probes, served = address_in(lines[worker], worker), address_in(lines[serving], serving)
    with httpx.Client(headers={"X-API-Key": key}, timeout=PATIENCE) as client:
        for address in (probes, served):
            assert client.get(f"{address}/v1/live").json() == {"status": "alive"}
            assert client.get(f"{address}/v1/ready").json() == {"status": "ready"}
            assert httpx.get(f"{address}/metrics", timeout=60).status_code == 401
        assert client.get(f"{probes}/v1/evaluations").status_code == 404
        cases = [{"id": str(at), "input": at} for at in range(600)]
        checks = [{"type": "regex", "arguments": {"text": "$.output.value", "pattern": "^a"}}]
        body = {"test_cases": cases, "outputs": [{"value": "a"}] * 600, "checks": checks}
        assert client.post(f"{served}/v1/evaluate", json=body).json()["status"] == "completed"
        assert "assay_runs_in_flight" in client.get(f"{probes}/metrics").text
    for process in (serving, worker):
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
        records = [json.loads(line) for line in [*lines[process], *out.splitlines()]]
        assert "assay has stopped" in records[-1]["message"]
        messages = " ".join(line["message"] for line in records)
        assert process is serving or re.search(
            r"worker \S+ has started.*units go back to the queue", messages
        )
        assert {"time", "level", "logger", "message"} <= records[0].keys()
