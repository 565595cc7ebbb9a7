"""`assay run --server` and `assay annotate`: the same on another host as here."""

import csv
import json
import re
import signal
import time

import pytest
import yaml

from assay.auth.keys import DEFAULT
from support.commands.command import unwrap
from support.evals import AGENT, FunctionAgent, golden
from support.servers.openwop_client import start_run, suite
from support.servers.rest_client import Server, sqlite

SUITE = suite(
    golden("right", "x", "x"), golden("wrong", "y", "x"), name="driven", modes=("golden", "regression")
)
GOLDEN = ("--mode", "golden")
WHO = "def answer(task):\n    return task\n"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with Server(
        sqlite(tmp_path_factory.mktemp("driven")),
        agents=[FunctionAgent(lambda task: task, agent_id="local.who.answer")],
    ) as host:
        yield host


class There:
    """The command with a server's key in a file, and the suite beside it."""

    def __init__(self, host, command, folder):
        (folder / "suite.yaml").write_text(yaml.safe_dump(SUITE))
        (folder / "who.py").write_text(WHO)
        (folder / "key").write_text(host.key() + "\n")
        self._command, self._folder = command, folder
        self._remote = ("--server", host.url, "--key-file", "key")

    def __call__(self, *arguments, server=True):
        return self._command(*arguments, *(self._remote if server else ()), folder=self._folder)

    def each(self, commands, server=True):
        more = self._remote if server else ()
        return self._command.each([[*one, *more] for one in commands], folder=self._folder)


@pytest.fixture
def there(host, command, tmp_path):
    return There(host, command, tmp_path)


def plain(text):
    """Without times and ids, and without where to look further."""
    text = re.sub(r" in [\d.]+ s|p95 latency [\d,]+ ms|run-\w+", "…", text)
    return [line.rstrip() for line in text.splitlines() if not line.startswith(("details: ", "results: "))]


def test_a_remote_run_prints_the_same_as_a_local_one(there, tmp_path):
    here = there("run", "suite.yaml", "--agent", "who:answer", *GOLDEN, "--trials", "2", server=False)
    away = there(
        "run", "suite.yaml", "--agent", "local.who.answer", *GOLDEN, "--trials", "2", "-o", "card.json"
    )
    assert (here.code, away.code) == (3, 3), away.err
    away_lines = [line for line in plain(away.out) if not line.startswith("written to")]
    assert [line for line in away_lines if "cost" not in line] == [
        line for line in plain(here.out) if "cost" not in line
    ]
    assert json.loads((tmp_path / "card.json").read_text())["aggregateScore"] == 0.5
    passed = there("run", "suite.yaml", "--agent", "local.who.answer", *GOLDEN, "--json")
    printed = json.loads(passed.out)
    assert (printed["report"]["total"], printed["summary"]["passed"]) == (2, False)
    by_id = there("run", printed["report"]["suiteId"], "--agent", "local.who.answer", *GOLDEN, "--json")
    assert json.loads(by_id.out)["report"]["total"] == 2, by_id.err  # a suite that the server has
    again = there(
        "run",
        "suite.yaml",
        "--agent",
        "local.who.answer",
        "--mode",
        "regression",
        "--baseline",
        "latest",
        "--json",
    )
    document = json.loads(again.out)
    assert document["summary"]["regression"]["scoreDelta"] == document["comparison"]["scoreDelta"] == 0
    beside = there(
        "run", "suite.yaml", "--agent", "local.who.answer", *GOLDEN, "--baseline", "latest", "--json"
    )
    document = json.loads(beside.out)
    assert "regression" not in document["summary"]
    assert document["comparison"]["tasks"] == 2


def test_a_remote_run_writes_the_same_files_as_a_local_one(there, tmp_path):
    forms = ("json", "jsonl", "csv")
    for where, agent, server in (("here", "who:answer", False), ("away", "local.who.answer", True)):
        to = [word for form in forms for word in ("-o", f"{where}.{form}")]
        ended = there("run", "suite.yaml", "--agent", agent, *GOLDEN, "--trials", "2", *to, server=server)
        assert ended.code == 3, ended.err
        assert [line for line in ended.out.splitlines() if line.startswith("written to")] == [
            f"written to {where}.{form}" for form in forms
        ]

    def timeless(name):
        """Without what no two runs have in common: times; what nothing cost is unknown of a function here."""
        text = (tmp_path / name).read_text()
        if name.endswith(".csv"):
            rows = csv.DictReader(text.splitlines())
            return [{**row, "cost_usd": "", "latency_ms": ""} for row in rows]
        text = re.sub(r'"(evaluated_at|latency_ms|latencyMs)": ?("[^"]*"|\d+)', r'"\1":0', text)
        return re.sub(r',?\s*"(costUsd|totalCostUsd|cost_usd)": ?[\d.]+', "", text)

    for form in forms:
        assert timeless(f"away.{form}") == timeless(f"here.{form}")
    assert len((tmp_path / "away.jsonl").read_text().splitlines()) == 4  # two tasks, two trials


SLOW = suite(golden("quick", "x", "x"), golden("late", "x", {"wait": 600, "say": "x"}), name="interrupted")


def following(host, zygote, folder):
    """A command that follows a run there; its run has a task that does not end."""
    (folder / "slow.json").write_text(json.dumps(SLOW))
    process = zygote.start(
        "run", "slow.json", "--agent", AGENT, "--server", host.url, "--key-file", "key", folder=folder
    )
    with host.client() as client:
        while True:
            assert process.poll() is None, process.communicate()
            runs = client.get(
                "/v1/host/assay/runs", params={"workflowId": SLOW["suiteId"], "status": "running"}
            )
            if host.openwop.feeds.active_runs and [run for run in runs.json()["runs"] if run.get("done")]:
                return process, runs.json()["runs"][0]["runId"]
            time.sleep(0.02)


def test_ctrl_c_cancels_the_run_there_and_keeps_its_results(host, there, zygote, tmp_path):
    process, run = following(host, zygote, tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 1
    out, err = process.communicate()
    assert "the run was cancelled; 1 task not done" in out
    assert err.splitlines() == ["assay: cancelling; the tasks that are done are stored"]
    with host.client() as client:
        assert client.get(f"/v1/runs/{run}").json()["status"] == "cancelled"
        events = _events(client, run)
    assert [event["payload"]["taskId"] for event in events if event["type"] == "eval.scored"] == ["quick"]


def test_ctrl_c_without_an_answering_server_names_the_run_that_continues(zygote, tmp_path):
    with Server(sqlite(tmp_path)) as host:
        (tmp_path / "key").write_text(host.key())
        process, run = following(host, zygote, tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 1
    out, err = process.communicate()
    assert out == ""
    assert f"run {run} was not cancelled and may continue there" in unwrap(err)
    assert f"/v1/runs/{run}/cancel" in err


REFUSED = [
    (("suite.yaml", "--agent", "local.nobody.here", *GOLDEN), 2, "there is no agent"),
    (("suite.yaml", "--agent", AGENT, "--mode", "rubric"), 2, "rubric"),
    (("suite.yaml", "--agent", AGENT, "--timeout", "3"), 2, "--timeout and --server: expected one of them"),
    (("suite.yaml", "--agent", AGENT, "--mode", "regression"), 2, "compares with an earlier run"),
    (("suite.yaml", "--agent", AGENT, *GOLDEN, "--baseline", "run-unknown"), 2, "there is no run"),
    (("suite.yaml", "--agent", AGENT, "-o", "r.txt"), 2, ".jsonl, .json, .csv, .xlsx or .parquet"),
    (("--resume", "run-unknown"), 2, "there is no run"),
    (("pack:local.a.b@1.0.0/x.json", "--agent", AGENT), 2, "there is no pack"),
    (("local.a.evals.b", "--agent", AGENT, "--baseline", "latest"), 2, "expected SUITE as a file"),
    (("--agent", AGENT), 2, "--server: expected a SUITE with it"),
]


def test_a_refusal_of_the_server_is_one_line(there):
    results = there.each(["run", *arguments] for arguments, _, _ in REFUSED)
    for (_, code, message), done in zip(REFUSED, results, strict=True):
        assert (done.code, done.out) == (code, "")
        assert message in done.err
        assert len(done.err.splitlines()) == 1


def test_no_server_no_key_no_address(there, command, tmp_path):
    gone = command(
        "run",
        "suite.yaml",
        "--agent",
        "a",
        *GOLDEN,
        "--server",
        "http://127.0.0.1:9",
        "--key-file",
        "key",
        folder=tmp_path,
    )
    assert (gone.code, "http://127.0.0.1:9" in gone.err) == (1, True)
    none = command("run", "suite.yaml", "--agent", "a", "--server", "http://127.0.0.1:9", folder=tmp_path)
    assert (none.code, "ASSAY_API_KEY" in none.err) == (2, True)
    odd = command(
        "run", "suite.yaml", "--agent", "a", "--server", "there", "--key-file", "key", folder=tmp_path
    )
    assert (odd.code, "--server" in odd.err) == (2, True)


@pytest.mark.parametrize("server", [True, False], ids=["there", "here"])
def test_a_correction_gives_an_effective_score(there, server):
    agent = "local.who.answer" if server else "who:answer"
    document = json.loads(there("run", "suite.yaml", "--agent", agent, *GOLDEN, "--json", server=server).out)
    done = there(
        "annotate", document["runId"], "--task", "wrong", "--score", "1", "--note", "fine", server=server
    )
    assert done.code == 0, done.err
    assert re.fullmatch(rf"ann-\S+ is stored with {document['runId']}\n", done.out)
    if not server:
        shown = there("show", document["runId"], server=False).out
        assert "with 1 correction: score 1.000  passed (wrong)" in shown
        assert "score 0.500" in shown


CASES = [
    {"test_case": {"id": id, "input": "?"}, "output": {"value": value}} for id, value in (("good", "x"), ("bad", "y"))
]  # fmt: skip
IS_X = [{"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "x"}}]
WRONG_CASES = [
    (("--case", "nothing", "--passed"), "no"),
    (("--event", "ev-1", "--passed"), ""),
    (("--passed",), "expected --task ID or --case ID"),
]


@pytest.mark.parametrize("server", [True, False], ids=["there", "here"])
def test_a_correction_of_an_evaluation(host, there, tmp_path, server):
    """Here it is shown; there the report of the server has it."""
    if server:
        request = {
            "test_cases": [one["test_case"] for one in CASES],
            "outputs": [one["output"] for one in CASES],
            "checks": IS_X,
        }
        with host.client() as client:
            run = client.post("/v1/evaluate", json=request).json()["evaluation_id"]
    else:
        lines = "\n".join(json.dumps(one) for one in CASES)
        (tmp_path / "cases.jsonl").write_text(lines, "utf-8")
        (tmp_path / "checks.json").write_text(json.dumps(IS_X), "utf-8")
        given = ("--contexts", "cases.jsonl", "--checks", "checks.json", "--save")
        assert there("evaluate", *given, server=False).code == 0
        run = r"eval_\w+"
    for _ in range(2):
        done = there("annotate", "latest", "--case", "bad", "--passed", "--note", "fine", server=server)
        assert done.code == 0, done.err
        found = re.fullmatch(rf"ann-\S+ is stored with ({run})\n", done.out)
        assert found is not None, done.out
        run = found[1]
    for (_, message), done in zip(
        WRONG_CASES, there.each([["annotate", run, *one] for one, _ in WRONG_CASES], server), strict=True
    ):
        assert (done.code, done.out, message in done.err) == (2, "", True), done.err
    if server:
        with host.client() as client:
            found = client.get(f"/v1/host/assay/runs/{run}/overview").json()["effective"]
        assert (found["text"], found["corrected"]) == ("100.0%", ["bad"])
        return
    shown = there("show", run, server=False).out
    assert "case pass rate 50.0% as recorded\nwith 1 correction: case pass rate 100.0% (bad)\n" in shown
    document = json.loads(there("show", run, "--json", server=False).out)
    assert document["effective"] == {
        "score": 1.0,
        "passedCount": 2,
        "failedCount": 0,
        "corrected": ["bad"],
    }
    there("report", run, "-o", "report.md", server=False)
    text = (tmp_path / "report.md").read_text("utf-8").replace("&#37;&#8203;", "%").replace("&#37;", "%")
    assert "| effective score | 100.0%, with 1 correction |" in text


WRONG_ANNOTATIONS = [
    ((), "expected one of --score"),
    (("--rating", "3", "--flag"), "got --rating and --flag"),
    (("--score", "1"), "--task ID"),
    (("--task", "nothing", "--score", "1"), "no such task"),
    (("--task", "right", "--event", "ev-1", "--flag"), "--task and --event: expected one of them"),
    (("--event", "ev-unknown", "--flag"), "ev-unknown"),
    (("--passed", "--failed"), "--passed and --failed exclude each other"),
]


@pytest.mark.parametrize("server", [True, False], ids=["there", "here"])
def test_a_wrong_annotation_is_refused(there, server):
    agent = "local.who.answer" if server else "who:answer"
    there("run", "suite.yaml", "--agent", agent, *GOLDEN, server=server)
    results = there.each((["annotate", "latest", *arguments] for arguments, _ in WRONG_ANNOTATIONS), server)
    for (_, message), done in zip(WRONG_ANNOTATIONS, results, strict=True):
        assert (done.code, done.out) == (2, "")
        assert message in done.err


def test_a_run_that_was_cancelled_elsewhere_is_completed_there(host, there, tmp_path):
    """And Ctrl-C there is a cancel here: what has a score is kept."""
    slow = suite(golden("quick", "x", "x"), golden("late", "x", {"wait": 1.0, "say": "x"}), name="resumed")
    with host.client() as client:
        run = start_run(client, slow)
        while "eval.scored" not in {event["type"] for event in _events(client, run)}:
            pass
        client.post(f"/v1/runs/{run}/cancel")
    done = there("run", "--resume", run, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (document["status"], document["summary"]["passedCount"]) == ("completed", 2)
    assert there("run", "--resume", document["runId"]).code == 2  # there is nothing left


def _events(client, run):
    return client.get(f"/v1/runs/{run}/events", headers={"accept": "application/json"}).json()["events"]


def test_a_promotion_on_another_host(host, command, there, tmp_path):
    agent = "local.who.answer"
    promoter = tmp_path / "promoter"
    promoter.write_text(host.key(scopes=DEFAULT | {"deploy:promote", "deploy:rollback"}))
    subject, options = f"{agent}@0.0.0", ("--server", host.url, "--key-file", "promoter")

    def promote(*arguments):
        return command("deploy", "promote", subject, *arguments, *options, folder=tmp_path)

    skipped = promote("--to", "active")
    assert skipped.code == 2
    assert (
        f"next: assay deploy promote {subject} --to test --server {host.url} --key-file promoter"
        in skipped.err
    )
    unscoped = there("deploy", "promote", subject, "--to", "test")
    assert (unscoped.code, "deploy:promote" in unscoped.err) == (2, True)
    assert promote("--to", "test").out == f"{subject} is test\n"
    bare = promote("--to", "staged")
    assert (bare.code, f"by {agent} at version 0.0.0, got none" in bare.out) == (1, True)
    ran = there("run", "suite.yaml", "--agent", agent, "--mode", "golden", "--json")
    failing = promote("--to", "staged", "--eval", json.loads(ran.out)["runId"], "--json")
    assert (failing.code, [one["code"] for one in json.loads(failing.out)["conditions"]]) == (
        3,
        ["eval_not_passed"],
    )
    good = suite(golden("right", "x", "x"), name="promoted")
    (tmp_path / "good.yaml").write_text(yaml.safe_dump(good))
    assert there("run", "good.yaml", "--agent", agent, "--json").code == 0
    assert promote("--to", "staged", "--eval", "latest").code == 0
    assert f"{agent}  0.0.0    staged" in there("deploy", "list").out
    (row,) = json.loads(there("history", "good.yaml", "--json").out)["rows"]
    assert (row["score"], row["state"], row["promotedBy"]) == (1.0, "staged", True)
    rolled = command("deploy", "rollback", subject, *options, folder=tmp_path)
    assert (rolled.code, "rollback needs an active version" in rolled.err) == (2, True)


def test_only_runs_a_part_of_the_suite_there(there):
    run = ("run", "suite.yaml", "--agent", "local.who.answer", *GOLDEN)
    refused, named, first = there.each(
        [(*run, "--only", "wronk"), (*run, "--only", "right"), (*run, "--name", "only")]
    )
    assert (refused.code, "the suite has no task 'wronk'; did you mean wrong?" in refused.err) == (2, True)
    assert "1 of 2 tasks of its suite" in named.out, named.err
    again, given = there.each(
        [(*run, "--only", "failing", "--json"), (*run, "--only", "failing:only", "--json")]
    )
    for one in (again, given):
        report = json.loads(one.out)["report"]
        assert [task["taskId"] for task in report["tasks"]] == ["wrong"]
        assert (report["selection"]["rule"], report["selection"]["of"]) == ("failing", 2)
    assert first.code == 3
    reference = there(
        "run", "local.tests.evals.driven@1.0.0", "--agent", "local.who.answer", "--only", "right"
    )
    assert "--only: expected SUITE as a file with --server" in reference.err
