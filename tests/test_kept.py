"""Runs that are kept: `evaluate --save`, `list`, `show`, `export`, and a server that is killed and comes back."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time

import httpx
import pytest

from postgres import server as postgres

EQUAL = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]


def contexts(many):
    return "".join(
        json.dumps(
            {"test_case": {"id": f"c{at}", "input": at, "expected": at % 3}, "output": {"value": at % 2}}
        )
        + "\n"
        for at in range(many)
    )


@pytest.fixture(params=["sqlite", "postgres"])
def home(request, tmp_path, monkeypatch):
    """A folder whose runs are kept in one kind of database."""
    (tmp_path / "cases.jsonl").write_text(contexts(1_234))
    (tmp_path / "checks.json").write_text(json.dumps(EQUAL))
    with contextlib.ExitStack() as stack:
        if request.param == "postgres":
            address = stack.enter_context(postgres().database())
            (tmp_path / "assay.toml").write_text(f'database_url = "{address}"\n')
        yield tmp_path


def run(home, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_saved_run_is_listed_shown_and_exported_as_it_was_written(home):
    arguments = [
        "--contexts",
        "cases.jsonl",
        "--checks",
        "checks.json",
        "-o",
        "direct.jsonl",
        "--experiment",
        "mine",
    ]
    done = run(home, "evaluate", *arguments, "--save")
    assert done.returncode == 0, done.stderr
    (listed,) = json.loads(run(home, "list", "--json").stdout)
    assert listed["status"] == "completed"
    assert listed["metadata"] == {"experiment": "mine"}
    assert f"kept as {listed['operation_id']}" in done.stdout
    for which in ("latest", listed["operation_id"], listed["operation_id"][:12]):
        shown = run(home, "show", which).stdout
        assert "mine: 1,234 cases, 1,234 checks" in shown
        assert "exact_match" in shown
        assert "c1: exact_match" not in shown.splitlines()[0]
    exported = run(home, "export", "latest", "-o", "again.jsonl", "-o", "again.json", "-o", "again.csv")
    assert "1,234 results" in exported.stdout
    assert (home / "again.jsonl").read_bytes() == (home / "direct.jsonl").read_bytes()
    document = json.loads((home / "again.json").read_text())
    assert document["evaluation_id"] == listed["operation_id"]
    assert document["experiment"] == {"name": "mine"}
    assert document["summary"]["total_test_cases"] == len(document["results"]) == 1_234


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "latest"], 2, "no runs are kept here"),
        (["show", "eval_none"], 2, "there is no run 'eval_none'; `assay list`"),
        (["export", "eval_none", "-o", "x.jsonl"], 2, "there is no run"),
        (["list", "--status", "done"], 2, "wanted one of pending, running, completed, failed, cancelled"),
        (["list"], 0, ""),
    ],
)
def test_an_empty_record_and_wrong_names_are_told(home, arguments, code, words):
    done = run(home, *arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_run_that_broke_is_kept_as_failed_with_what_it_has(home):
    (home / "cases.jsonl").write_text(contexts(700) + "nonsense\n")
    assert (
        run(home, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save").returncode
        == 1
    )
    shown = run(home, "show", "latest").stdout
    assert "failed" in shown
    assert "cases.jsonl:701" in shown
    run(home, "export", "latest", "-o", "kept.jsonl")
    assert (home / "kept.jsonl").read_bytes().count(b"\n") == 700


@contextlib.contextmanager
def serving(home, *options):
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", "serve", "--port", "0", *options],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        told = process.stdout.readline()
        assert "assay serves http://127.0.0.1:" in told, process.stderr.read()
        yield process, told.split()[2]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def key_of(home):
    if (home / ".assay" / "local-key").exists():
        return (home / ".assay" / "local-key").read_text().strip()
    return run(home, "key", "create", "--tenant", "local").stdout.strip()


SLOW = """
import asyncio, pathlib, assay
class Slow(assay.Checker):
    type = "slow"
    at: int
    async def run(self, services):
        await asyncio.sleep(0.05)
        with pathlib.Path("executed").open("a") as log:
            log.write(f"{self.at}\\n")
        return {"passed": True}
"""


def wait_until(true, seconds=30):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_server_that_is_killed_goes_on_with_its_runs(home):
    (home / "slowly.py").write_text(SLOW)
    request = {
        "test_cases": [{"id": str(at), "input": at} for at in range(120)],
        "outputs": [{"value": at} for at in range(120)],
        "checks": [{"type": "slow", "arguments": {"at": "$.test_case.input"}}],
    }
    with serving(home, "--check-module", "slowly:Slow") as (process, url):
        headers = {"X-API-Key": key_of(home)}
        started = httpx.post(f"{url}/v1/evaluations", json=request, headers=headers)
        assert started.status_code == 202
        run_id = started.json()["operation_id"]
        wait_until(lambda: progress(url, headers, run_id) >= 20)
        process.send_signal(signal.SIGKILL)
    before = (home / "executed").read_text().split()
    with serving(home, "--check-module", "slowly:Slow") as (process, url):
        wait_until(lambda: status(url, headers, run_id) == "completed", 60)
        result = httpx.get(f"{url}/v1/evaluations/{run_id}", headers=headers).json()
        assert [case["execution_context"]["test_case"]["id"] for case in result["results"]] == [
            str(at) for at in range(120)
        ]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    again = (home / "executed").read_text().split()[len(before) :]
    assert len(again) <= 120 - 20  # what was recorded is not executed again


def status(url, headers, run_id):
    return httpx.get(f"{url}/v1/operations/{run_id}", headers=headers).json()["status"]


def progress(url, headers, run_id):
    return httpx.get(f"{url}/v1/operations/{run_id}", headers=headers).json()["progress"][
        "completed_test_cases"
    ]


def test_the_first_start_makes_a_key_for_whoever_runs_it_and_says_so_once(tmp_path):
    with serving(tmp_path) as (process, url):
        path = tmp_path / ".assay" / "local-key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        key = path.read_text().strip()
        assert httpx.get(f"{url}/v1/evaluations", headers={"X-API-Key": key}).status_code == 200
        assert httpx.get(f"{url}/v1/evaluations").status_code == 401
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert "a key of your own is in" in told
    assert key not in told
    with serving(tmp_path) as (process, url):
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
        assert process.returncode == 0
    assert "a key of your own" not in told
    assert path.read_text().strip() == key


def test_a_port_that_is_taken_is_told(tmp_path):
    with serving(tmp_path) as (_, url):
        done = run(tmp_path, "serve", "--port", url.rpartition(":")[2])
    assert (done.returncode, "cannot be used: Address already in use" in done.stderr) == (1, True)


def test_a_server_and_the_command_share_a_record(home):
    run(home, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save")
    with serving(home) as (_, url):
        headers = {"X-API-Key": key_of(home)}
        (operation,) = httpx.get(f"{url}/v1/evaluations", headers=headers).json()["operations"]
        body = {
            "test_cases": [{"id": "a", "input": 1, "expected": 1}],
            "outputs": [{"value": 1}],
            "checks": EQUAL,
        }
        made = httpx.post(f"{url}/v1/evaluate", json=body, headers=headers).json()
        listed = [one["operation_id"] for one in json.loads(run(home, "list", "--json").stdout)]
    assert listed == [made["evaluation_id"], operation["operation_id"]]
