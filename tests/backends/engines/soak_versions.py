"""
A rolling upgrade, for `make soak`: two versions of assay side by side, as real processes on one PostgreSQL.

The newer version is a copy of this one with another version number and a check that this one lacks.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import assay
from support.servers.fleet import Fleet
from support.stores.postgres import server
from test_worker_processes import check_eval, check_evaluation, recorded

NEWER = "999.1.0"
CHECK = '''
"""A check that only the newer version has."""

from assay.checks.checker import Checker


class Newer(Checker):
    type = "newer"
    at: int

    async def run(self, services):
        return {"passed": self.at >= 0}
'''


@pytest.fixture(scope="module")
def newer(tmp_path_factory):
    """A folder for PYTHONPATH with the newer version of assay."""
    folder = tmp_path_factory.mktemp("newer")
    source = Path(assay.__file__).parent
    shutil.copytree(source, folder / "assay", ignore=shutil.ignore_patterns("__pycache__", "dist"))
    (folder / "assay/version.py").write_text(
        (source / "version.py").read_text().replace(f'"{assay.__version__}"', f'"{NEWER}"')
    )
    (folder / "assay/checks/standard/newer.py").write_text(CHECK)
    table = folder / "assay/checks/__init__.py"
    table.write_text(
        table.read_text().replace(
            '"exact_match": "ExactMatch",', '"exact_match": "ExactMatch", "newer": "Newer",'
        )
    )
    return folder


class TwoVersions(Fleet):
    """A fleet whose processes of the newer version start with `newer=folder`."""

    def start_newer(self, folder, *verb):
        environ = self.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(self.folder)))}
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", *verb], cwd=self.folder, env=environ, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "has started" in line or "assay serves http" in line, line
        return process, line


def one_case(type, at):
    return {
        "checks": [{"type": type, "arguments": {"at": at}}], "test_cases": [{"id": "1", "input": 1}], "outputs": [{"value": 1}]
    }  # fmt: skip


def test_runs_of_two_versions_end_and_none_fails(zygote, tmp_path, newer):
    with server().database() as address:
        fleet = TwoVersions(zygote, tmp_path, address, lease=2.0)
        try:
            upgrade(fleet, newer)
        finally:
            fleet.close()


def upgrade(fleet, newer):
    fleet.start_server()
    old = fleet.start_worker()
    fleet.submit_evaluation("old-before", 30)
    process, address = fleet.start_newer(newer, "serve", "--port", "0")
    fleet.servers.append(process)
    old_url, new_url = fleet.urls[0], address.split()[2]

    # Only an old worker runs. The newer server tells a client that waits, and the run is not failed.
    headers = {"X-API-Key": fleet.key}
    answer = httpx.post(f"{new_url}/v1/evaluate", json=one_case("newer", 3), headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["details"]["reason"]) == (503, "no_worker"), answer.text
    assert f"older than assay {NEWER}" in answer.text

    fleet.urls[:] = [new_url]
    check = {"type": "newer", "arguments": {"at": "$.test_case.input"}}
    fleet.submit_evaluation("new-checks", 40, check)
    fleet.submit_eval("new-tasks", 8, 2)
    fleet.submit_workflow("new-flow")
    time.sleep(3 * fleet.lease)
    waiting = {
        name: fleet.request("GET", path)["status"]
        for name, path in fleet.runs.items()
        if name.startswith("new")
    }
    assert set(waiting.values()) == {"pending"}, waiting
    fleet.urls[:] = [old_url]
    fleet.submit_evaluation(
        "old-after", 30
    )  # runs that the old worker cannot run do not hold up those that it can
    fleet.wait_for("old-after")

    process, _ = fleet.start_newer(newer, "worker")
    fleet.workers.append(process)
    fleet.submit_eval("old-tasks", 8, 2)
    fleet.urls[:] = [new_url]
    fleet.submit_evaluation("both", 60, check)
    time.sleep(1.0)
    old.kill()  # in the middle of an old run: the newer worker continues it
    ended = fleet.wait()
    assert set(ended.values()) == {"completed"}, ended
    for name, cases in (("old-before", 30), ("old-after", 30)):
        check_evaluation(fleet, name, cases)
    for name in ("new-tasks", "old-tasks"):
        check_eval(fleet, name, 8, 2)
    for name, cases in (("new-checks", 40), ("both", 60)):
        summary = recorded(fleet, fleet.runs[name])[-1][1]["summary"]
        assert (summary["completed_test_cases"], summary["error_test_cases"]) == (cases, 0)
