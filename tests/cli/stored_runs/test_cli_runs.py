"""Runs that are kept: `evaluate --save`, `list`, `show`, `export`, and a server that is killed and comes back."""

import asyncio
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from assay.backends.stores.open import open_store
from assay.checks import STANDARD
from assay.cli.stored_runs.run_list import _cases, row_of, short_ids
from assay.fep.records.service import EvaluationService
from assay.ports import Run, Services
from support.commands.command import CommandResult, run_on_terminal
from support.models.provider_server import ProviderServer, fitting
from support.stores.postgres import server as postgres
from support.waiting import PATIENCE, wait_until

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
            address = stack.enter_context(postgres().store_database())
            (tmp_path / "assay.toml").write_text(f'database_url = "{address}"\n')
        yield tmp_path


@pytest.fixture
def run(command):
    return lambda home, *arguments: command(*arguments, folder=home)


@pytest.fixture
def serving(zygote):
    @contextlib.contextmanager
    def serve(home, *options, failpoint=""):
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", "ASSAY_FAILPOINT": failpoint}
        process = zygote.start("serve", "--port", "0", *options, folder=home, pipe=True, environ=environ)
        try:
            line = process.stdout.readline()
            assert "assay serves http://127.0.0.1:" in line, process.communicate()
            yield process, line.split()[2]
        finally:
            process.close()

    return serve


def test_delete_erases_the_content_and_names_what_is_left(run, home):
    saved = run(home, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save")
    assert saved.code in (0, 3), saved.err
    id = json.loads(run(home, "list", "--json").out)[0]["operation_id"]
    asked = run(home, "admin", "delete", id)
    assert (asked.code, asked.out) == (2, "")
    assert "expected --yes, because there is no terminal to ask; nothing was erased" in asked.err
    assert run(home, "admin", "delete", "nothing", id, "--yes").code == 2
    assert run(home, "export", id, "-o", "before.jsonl").code == 0
    before = json.loads(run(home, "list", "--json").out)[0]
    erased = run(home, "admin", "delete", "latest", "-y", "--json")
    assert (erased.code, [row["runId"] for row in json.loads(erased.out)]) == (0, [id])
    shown = run(home, "show", id)
    assert (shown.code, "its content was erased at 20" in shown.out, "1,234" in shown.out) == (0, True, True)
    after = json.loads(run(home, "list", "--json").out)[0]
    assert after["casePassRate"] == before["casePassRate"] > 0
    assert after["passRate"] == before["passRate"]
    refused = run(home, "export", id, "-o", "after.jsonl")
    assert refused.code != 0
    assert f"the content of run {id} was erased at 20" in refused.err
    assert (
        f"erased the content of {id}" in run(home, "admin", "delete", id, "--yes").out
    )  # again: nothing is left to erase


def exec_(home, *arguments):
    """The command as it is installed, by its own script."""
    done = subprocess.run(
        [Path(sys.executable).with_name("assay"), *arguments],
        cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout, done.stderr)


def test_a_saved_run_is_listed_shown_and_exported_as_it_was_written(run, home):
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
    done = exec_(home, "evaluate", *arguments, "--save")
    assert done.code == 0, done.err
    (listed,) = json.loads(run(home, "list", "--json").out)
    assert listed["status"] == "completed"
    assert listed["metadata"] == {"experiment": "mine"}
    assert f"assay show {listed['operation_id']}" in done.out
    for which in ("latest", listed["operation_id"], listed["operation_id"][:12]):
        shown = run(home, "show", which).out
        assert "1,234 cases: 412 passed, 822 failed, 0 not measured" in shown
        assert "check       ✗ exact_match: expected 1, got 0" in shown
        assert "pass rate" not in shown  # `evaluate` has printed that
    exported = run(home, "export", "latest", "-o", "again.jsonl", "-o", "again.json", "-o", "again.csv")
    assert "1,234 results" in exported.out
    assert (home / "again.jsonl").read_bytes() == (home / "direct.jsonl").read_bytes()
    document = json.loads((home / "again.json").read_text())
    assert document["evaluation_id"] == listed["operation_id"]
    assert document["experiment"] == {"name": "mine"}
    assert document["summary"]["total_test_cases"] == len(document["results"]) == 1_234


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "latest"], 2, "no runs are stored here"),
        (["show", "latest", "--tenant", "them"], 2, "no run of tenant 'them' is stored here; `assay list`"),
        (["show", "eval_none"], 2, "there is no run 'eval_none'; `assay list`"),
        (["export", "eval_none", "-o", "x.jsonl"], 2, "there is no run"),
        (
            ["list", "--status", "done"],
            2,
            "expected one of pending, running, waiting-approval, waiting-input, completed, failed, cancelled",
        ),
        (["list"], 0, ""),
    ],
)
def test_an_empty_store_and_wrong_names_have_clear_messages(run, home, arguments, code, words):
    done = run(home, *arguments)
    assert (done.code, words in done.err) == (code, True), done.err


@pytest.mark.parametrize("columns", [80, 140])
def test_a_list_fits_the_terminal_and_takes_names_as_they_are(run, tmp_path, columns):
    (tmp_path / "cases.jsonl").write_text(contexts(3))
    (tmp_path / "checks.json").write_text(json.dumps(EQUAL))
    files = ("--contexts", "cases.jsonl", "--checks", "checks.json")
    run(tmp_path, "evaluate", *files, "--save", "--experiment", "[/x] [red]mine")
    (kept,) = json.loads(run(tmp_path, "list", "--json").out)
    screen = run_on_terminal("list", folder=tmp_path, columns=columns, code=0)
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines()]
    run_id = kept["operation_id"]
    assert kept["passRate"] == pytest.approx(2 / 3)
    if columns == 80:
        assert lines[0] == "run             status     score  cases  cost  age"
        assert re.fullmatch(rf"{run_id[:14]}  completed  66\.7%  3      –     \d+s", lines[1])
        assert lines[2:] == ["  [/x] [red]mine"]
    else:  # all of a run is in one line
        assert re.fullmatch(r"run {32}status     score  cases  cost  age +about", lines[0])
        row = rf"{run_id}  completed  66\.7%  3      –     \d+s +\[/x\] \[red\]mine"
        assert [re.fullmatch(row, line) is not None for line in lines[1:]] == [True]
    piped = run(tmp_path, "list").out.splitlines()
    assert re.fullmatch(rf"{run_id}  completed  66\.7%  3      –     [-0-9]{{10}} [:0-9]{{8}}", piped[1])
    assert piped[2:] == ["  [/x] [red]mine"]
    if columns == 140:
        run(tmp_path, "evaluate", *files, "--save", "--experiment", "long " * 20)
        lines = run_on_terminal("list", folder=tmp_path, columns=columns, code=0).splitlines()
        assert len(lines) == 3  # one for each run, with a name that is cut
        assert re.search(r"eval_\w+  completed .* long long .*…", lines[1])


NOW = datetime.now(UTC)
EVAL = {"total": 10, "agentId": "local.a.b", "tags": ["k=v"]}


def numbers(results, cases, **counts):
    return {"statistics": {"results": results, "cases": cases, "counts": counts}}


ROWS = {  # what a store holds of a run; its cases, how many were not measured, and how many of them were never reached
    "a failed evaluation": ("evaluation", "failed", {"total": 10, **numbers(4, 4, passed=3, error=1)}, ("4 of 10", 7, 6)),
    "a completed one": ("evaluation", "completed", {"total": 10, **numbers(10, 10, passed=3, error=1, skipped=6)}, ("10", 7, 0)),
    "one with trials": ("evaluation", "completed", {"total": 6, "trials": 2, **numbers(6, 3, passed=3)}, ("3×2", 0, 0)),
    "one with repeated ids": ("evaluation", "completed", {"total": 7, **numbers(7, 3, failed=3)}, ("3 (7 trials)", 0, 0)),
    "one that was stopped, with repeated ids": ("evaluation", "failed", {"total": 9, **numbers(7, 3, failed=3)}, ("3 of 5", 2, 2)),
    "an eval that was cancelled": ("agent-eval", "cancelled", {**EVAL, **numbers(5, 5, passed=3, error=2)}, ("5 of 10", 7, 5)),
    "an eval that could not be measured": ("agent-eval", "failed", {**EVAL, **numbers(10, 10, passed=3, error=7)}, ("10", 7, 0)),
    "a workflow": ("workflow", "completed", {"goalSatisfied": True}, ("–", 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("what", ROWS)
def test_list_has_the_number_of_cases_never_reached(what):
    kind, status, metadata, found = ROWS[what]
    run = Run(id="x", tenant="t", kind=kind, status=status, metadata=metadata, created=NOW)

    async def read():
        store = await open_store("memory:")
        return await row_of(EvaluationService(store, STANDARD, Services()), run)

    row = asyncio.run(read())
    assert (_cases(row), row.unmeasured, row.never_reached) == found
    assert row.document.get("neverReached", 0) == found[2]
    assert (row.document.get("agentId"), row.document.get("tags")) == (
        metadata.get("agentId"),
        metadata.get("tags"),
    )


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (["run-0123456789abcdef"], ["run-0123456789"]),
        (["run-0123456789a0", "run-0123456789b0"], ["run-0123456789a", "run-0123456789b"]),
        (["same", "same"], ["same", "same"]),
    ],
)
def test_short_ids_keep_runs_apart(ids, short):
    assert short_ids(ids) == short


def test_a_run_that_broke_is_kept_as_failed_with_what_it_has(run, home):
    (home / "cases.jsonl").write_text(contexts(700) + "nonsense\n")
    assert run(home, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save").code == 1
    shown = run(home, "show", "latest").out
    assert "failed" in shown
    assert "cases.jsonl:701" in shown
    run(home, "export", "latest", "-o", "kept.jsonl")
    assert (home / "kept.jsonl").read_bytes().count(b"\n") == 700


def test_list_without_a_match_says_so(run, home):
    assert "no runs are stored here" in run(home, "list").out
    fits = run(home, "list", "--status", "failed", "--experiment", "mine")
    assert (
        fits.out
        == "no stored run matches --status failed --experiment mine; `assay list` shows the stored runs\n"
    )


def test_results_stored_before_a_kill_are_shown(run, serving, home):
    command = [
        Path(sys.executable).with_name("assay"),
        "evaluate",
        "--contexts",
        "-",
        "--checks",
        "checks.json",
    ]
    with subprocess.Popen([*command, "--save"], cwd=home, stdin=subprocess.PIPE) as process:
        process.stdin.write(contexts(7_000).encode())
        process.stdin.flush()  # and not closed: it waits for more
        wait_until(lambda: (one := kept(run, home)) and one["progress"]["total_test_cases"], 120)
        process.kill()
    listed = kept(run, home)
    run_id, many = listed["operation_id"], listed["progress"]["total_test_cases"]
    assert listed["status"] == "running"
    asyncio.run(let_go(home, run_id))
    with serving(home) as (_, url):
        headers = {"X-API-Key": key_of(run, home)}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            wait_until(lambda: operation(client, run_id)["status"] == "failed", 120)
            assert "interrupted" in operation(client, run_id)["error"]["message"]
            result = client.get(f"/v1/evaluations/{run_id}").json()
            assert len(result["results"]) == result["summary"]["total_test_cases"] == many
    assert f"{many:,} cases: " in run(home, "show", run_id).out
    assert f"{many:,} results" in run(home, "export", run_id, "-o", "kept.jsonl").out


def kept(run, home):
    found = json.loads(run(home, "list", "--json").out)
    return found[0] if found else None


async def let_go(home, run_id):
    """As if its holder had not been heard of for long enough."""
    settings = home / "assay.toml"
    address = tomllib.loads(settings.read_text())["database_url"] if settings.exists() else ""
    store = await open_store(address or f"sqlite:///{home}/.assay/assay.db")
    await store.release(run_id, run_id)
    await store.close()


def key_of(run, home):
    if (home / ".assay" / "local-key").exists():
        return (home / ".assay" / "local-key").read_text().strip()
    return run(home, "admin", "key", "create", "--tenant", "local").out.strip()


SLOW = """
import asyncio, pathlib, assay
class Slow(assay.Checker):
    type = "slow"
    at: int
    async def run(self, services):
        while self.at >= 40 and not pathlib.Path("go").exists():
            await asyncio.sleep(0.05)
        with pathlib.Path("executed").open("a") as log:
            log.write(f"{self.at}\\n")
        return {"passed": True}
"""


def test_a_server_that_is_killed_goes_on_with_its_runs(run, serving, home):
    (home / "slowly.py").write_text(SLOW)
    request = {
        "test_cases": [{"id": str(at), "input": at} for at in range(120)],
        "outputs": [{"value": at} for at in range(120)],
        "checks": [{"type": "slow", "arguments": {"at": "$.test_case.input"}}],
    }
    with serving(home, "--check-module", "slowly:Slow") as (process, url):
        headers = {"X-API-Key": key_of(run, home)}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            started = client.post("/v1/evaluations", json=request)
            assert started.status_code == 202
            run_id = started.json()["operation_id"]
            wait_until(lambda: operation(client, run_id)["progress"]["completed_test_cases"] >= 20)
            process.send_signal(signal.SIGKILL)
    (home / "go").touch()
    before = (home / "executed").read_text().split()
    assert re.search(r"running .* \d+ of 120 ", run(home, "list").out)
    with serving(home, "--check-module", "slowly:Slow") as (process, url):
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            wait_until(lambda: operation(client, run_id)["status"] == "completed")
            result = client.get(f"/v1/evaluations/{run_id}").json()
        assert [case["execution_context"]["test_case"]["id"] for case in result["results"]] == [
            str(at) for at in range(120)
        ]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    again = (home / "executed").read_text().split()[len(before) :]
    assert len(again) <= 120 - 20  # what was recorded is not executed again


def operation(client, run_id):
    return client.get(f"/v1/operations/{run_id}").json()


def test_the_first_start_creates_a_key_and_reports_it_once(serving, tmp_path):
    with serving(tmp_path) as (process, url):
        path = tmp_path / ".assay" / "local-key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        key = path.read_text().strip()
        assert httpx.get(f"{url}/v1/evaluations", headers={"X-API-Key": key}, timeout=60).status_code == 200
        assert httpx.get(f"{url}/v1/evaluations", timeout=60).status_code == 401
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate()
    assert "created an API key in" in stderr
    assert key not in stderr
    with serving(tmp_path) as (process, url):
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate()
        assert process.returncode == 0
    assert "created an API key" not in stderr
    assert path.read_text().strip() == key


STUCK = """
import asyncio, assay
class Stuck(assay.Checker):
    type = "stuck"
    at: int
    async def run(self, services):
        await asyncio.sleep(3600 if self.at >= 3 else 0)
        return {"passed": True}
"""


@pytest.fixture
def stuck(tmp_path):
    """A folder whose runs may take two seconds, and cases of which the fourth takes an hour."""
    (tmp_path / "stuck.py").write_text(STUCK)
    (tmp_path / "assay.toml").write_text("check_modules = ['stuck:Stuck']\n[limits]\nrun_seconds = 2.0\n")
    (tmp_path / "cases.jsonl").write_text(contexts(20))
    checks = [{"type": "stuck", "arguments": {"at": "$.test_case.input"}}]
    (tmp_path / "checks.json").write_text(json.dumps(checks))
    return tmp_path


LATE = "the run took longer than the limit of 2 s (ASSAY_RUN_SECONDS); finished results are stored"


def test_a_saved_run_that_takes_too_long_keeps_what_it_has(run, stuck):
    done = run(
        stuck, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save", "-o", "out.jsonl"
    )
    assert (done.code, LATE in done.err) == (1, True), done.err
    shown = run(stuck, "show", "latest").out
    assert "failed" in shown
    assert LATE in shown
    run(stuck, "export", "latest", "-o", "kept.jsonl")
    kept = [json.loads(line)["status"] for line in (stuck / "kept.jsonl").read_text().splitlines()]
    assert kept == ["completed"] * 3
    assert (stuck / "kept.jsonl").read_bytes() == (stuck / "out.jsonl").read_bytes()


def test_a_served_run_that_takes_too_long_keeps_what_it_has(run, serving, stuck):
    lines = json.dumps({"checks": json.loads((stuck / "checks.json").read_text())}) + "\n" + contexts(20)
    with serving(stuck) as (_, url):
        headers = {"X-API-Key": key_of(run, stuck), "Content-Type": "application/x-ndjson"}
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            response = client.post("/v1/evaluate", content=lines.encode(), timeout=PATIENCE)
            details = response.json()["details"]
            assert (response.status_code, details["reason"]) == (500, "run_timeout")
            state = operation(client, details["evaluation_id"])
            result = client.get(f"/v1/evaluations/{details['evaluation_id']}").json()
    assert [case["status"] for case in result["results"]] == ["completed"] * 3 + ["skip"] * 17
    assert (state["status"], state["error"]) == ("failed", {"error": "run_timeout", "message": LATE})


def test_serve_refuses_a_port_in_use(run, serving, tmp_path):
    with serving(tmp_path) as (_, url):
        done = run(tmp_path, "serve", "--port", url.rpartition(":")[2])
    assert (done.code, "expected a free port of" in done.err) == (1, True)


def test_a_server_and_the_command_share_a_record(run, serving, home):
    run(home, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save")
    with serving(home) as (_, url):
        headers = {"X-API-Key": key_of(run, home)}
        (operation,) = httpx.get(f"{url}/v1/evaluations", headers=headers, timeout=60).json()["operations"]
        body = {
            "test_cases": [{"id": "a", "input": 1, "expected": 1}],
            "outputs": [{"value": 1}],
            "checks": EQUAL,
        }
        made = httpx.post(f"{url}/v1/evaluate", json=body, headers=headers, timeout=60).json()
        listed = [one["operation_id"] for one in json.loads(run(home, "list", "--json").out)]
    assert listed == [made["evaluation_id"], operation["operation_id"]]


@pytest.mark.parametrize("commit", [2, 3, 4])  # the first makes the local key
def test_a_request_that_died_while_it_was_taken_in_is_sent_again_with_its_key(run, serving, tmp_path, commit):
    """1,200 cases are taken in with four commits, the key with the last; the second server knows nothing of it."""
    key = run(tmp_path, "admin", "key", "create", "--tenant", "local").out.strip()
    lines = (json.dumps({"checks": EQUAL}) + "\n" + contexts(1_200)).encode()
    headers = {"X-API-Key": key, "Idempotency-Key": "once", "Content-Type": "application/x-ndjson"}
    with serving(tmp_path, failpoint=f"commit.after:{commit}") as (_, url), pytest.raises(httpx.HTTPError):
        httpx.post(f"{url}/v1/evaluations", content=lines, headers=headers, timeout=60)
    with serving(tmp_path) as (_, url), httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        sent = client.post("/v1/evaluations", content=lines)
        assert sent.status_code == 202
        id = sent.json()["operation_id"]
        wait_until(lambda: operation(client, id)["status"] == "completed")
        assert client.get(f"/v1/evaluations/{id}").json()["summary"]["total_test_cases"] == 1_200
        again = client.post("/v1/evaluations", content=lines)
        assert again.json()["operation_id"] == id
        assert again.headers["openwop-idempotent-replay"] == "true"
        statuses = {
            one["operation_id"]: one["status"] for one in client.get("/v1/evaluations").json()["operations"]
        }
        assert statuses.pop(id) == "completed"
        assert list(statuses.values()) == [
            "pending"
        ]  # what there is of the first fails when its lease has ended


def test_the_cost_of_judges_is_shown_of_a_stored_run(run, serving, home, monkeypatch):
    """FEP-31: in the run's metadata, over REST, in an export, and where it is shown."""
    judge = {
        "type": "llm_judge",
        "arguments": {
            "prompt": "Is {{$.output.value}} right?",
            "response_format": {
                "type": "object",
                "required": ["passed"],
                "properties": {"passed": {"type": "boolean"}},
            },
        },
    }
    (home / "checks.json").write_text(json.dumps([judge]))
    (home / "cases.jsonl").write_text(contexts(3))
    with ProviderServer(fitting) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("ASSAY_MODEL_JUDGE", "openai:gpt-4o-mini")
        saved = run(
            home, "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save", "-o", "x.json"
        )
        assert saved.code == 0, saved.err
        run(home, "export", "latest", "-o", "kept.json")
        wanted = json.loads((home / "x.json").read_text())["metadata"]
        assert json.loads((home / "kept.json").read_text())["metadata"] == wanted
        (line,) = (line for line in saved.out.splitlines() if "tokens" in line)
        assert line in run(home, "show", "latest").out
        lines = json.dumps({"checks": [judge]}) + "\n" + contexts(3)
        with serving(home) as (_, url):
            headers = {"X-API-Key": key_of(run, home), "Content-Type": "application/x-ndjson"}
            with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
                made = client.post("/v1/evaluate", content=lines.encode()).json()
                again = client.get(f"/v1/evaluations/{made['evaluation_id']}").json()
        del wanted["run"]  # only a file says whether it is complete
        assert made["metadata"] == again["metadata"] == wanted
