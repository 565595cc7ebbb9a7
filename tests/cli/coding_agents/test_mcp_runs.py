"""Runs of `assay mcp`: their progress, their cancellation, and that they outlive the client and the server."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands.mcp_client import RawClient, cheap_assay, mcp_client, real_assay
from support.waiting import wait_until

AGENT = """
import asyncio, os, pathlib

async def answer(task):
    with open("pids", "a") as file:
        print(os.getpid(), file=file)
    while not pathlib.Path("go").exists():
        await asyncio.sleep(0.02)
    return task
"""
SUITE = {
    "suiteId": "local.waits.evals.one",
    "version": "1.0.0",
    "modes": ["golden"],
    "tasks": [
        {"taskId": id, "input": id, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": id}}}
        for id in ("a", "b")
    ],
}  # fmt: skip
CALL = {"suite": "suite.json", "agent": "waits:answer"}
CLIENT = """
import json, sys, time
from support.commands.mcp_client import cheap_assay, mcp_client, real_assay

with mcp_client(sys.argv[1]) as client:
    client("run", progress=[], **json.loads(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("waits")
    (folder / "waits.py").write_text(AGENT)
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "assay.toml").write_text("[workers]\nlease = 2\n")
    return folder


@pytest.fixture(scope="module")
def client(folder, zygote):
    """Another client, at the same time."""
    with mcp_client(folder, assay=cheap_assay(zygote)) as client:
        yield client


@pytest.fixture
def waiting(folder):
    """No agent answers before `go()`."""
    (folder / "go").unlink(missing_ok=True)
    (folder / "pids").unlink(missing_ok=True)
    return (folder / "go").touch


def pid_of(folder):
    """The process of the run, once its agent works."""
    file = folder / "pids"
    return int(wait_until(lambda: file.exists() and file.read_text().split())[0])


def status(client, run="latest"):
    return client("failures", run=run)["status"]


def test_progress_is_reported_and_a_cancelled_call_cancels_the_run(folder, client, waiting):
    with subprocess.Popen([*real_assay(), "mcp"], cwd=folder, stdin=-1, stdout=-1) as process:
        raw = RawClient(process)
        assert raw.start()["result"]["serverInfo"]["name"] == "assay"
        id = raw.call("run", **CALL, name="cancelled")
        pid = pid_of(folder)
        notification = raw.read()
        assert notification["method"] == "notifications/progress"
        assert (notification["params"]["progress"], notification["params"]["total"]) == (0, 2)
        run = notification["params"]["message"].partition(":")[0]
        raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
        wait_until(lambda: status(client, run) == "cancelled")
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        waiting()
        second = raw.call("run", **CALL)
        messages = [raw.read()]
        while messages[-1].get("id") != second:
            messages.append(raw.read())
        answers = [one for one in messages if one.get("id") == id]  # version 2 of the SDK does not answer
        assert all("cancelled" in one["error"]["message"] for one in answers)
        counts = [one["params"]["progress"] for one in messages if "method" in one]
        assert counts == sorted(set(counts))
        assert messages[-1]["result"]["structuredContent"]["outcome"] == "passed"
        process.stdin.close()
        assert process.wait() == 0
        assert process.stdout.read() == b""


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_run_survives_the_death_of(folder, client, waiting, who):
    if who == "client":
        call = json.dumps({**CALL, "name": who})
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen([sys.executable, "-c", CLIENT, str(folder), call], env=environ)
    else:
        process = subprocess.Popen([*real_assay(), "mcp"], cwd=folder, stdin=-1, stdout=-1)
        raw = RawClient(process)
        raw.start()
        raw.call("run", **CALL, name=who)
    pid = pid_of(folder)
    with process:
        process.kill()
    assert status(client, who) == "running"
    assert os.getsid(pid) == pid
    waiting()
    wait_until(lambda: status(client, who) == "completed")
    assert client("gate", run=who)["exit_code"] == 0
    assert client("failures", run="latest")["count"] == "2 tasks: 2 passed, 0 failed, 0 not measured"


def test_a_run_whose_process_died_is_completed_by_resume(folder, client, waiting, zygote):
    raw = subprocess.Popen(
        [*cheap_assay(zygote), "mcp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with raw:
        one = RawClient(raw)
        one.start()
        one.call("run", **CALL, name="died")
        os.kill(pid_of(folder), signal.SIGKILL)
        answer = one.read()
        while "method" in answer:
            answer = one.read()
        assert answer["result"]["isError"]
        assert "was ended by SIGKILL" in answer["result"]["content"][0]["text"]
        raw.stdin.close()
        raw.wait()
    waiting()
    refusals = []

    def resumed():
        answer = client("run", resume="died", agent="waits:answer")
        refusals.extend([answer.text] if answer.is_error else [])
        return None if answer.is_error else answer

    done = wait_until(resumed)
    assert (done["outcome"], done["tasks"]) == ("passed", 2)
    assert all("resume: expected a run that has stopped" in text for text in refusals)
