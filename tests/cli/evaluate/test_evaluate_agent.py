"""`assay evaluate --agent`: a system over a dataset, with real agents; killed, interrupted and resumed."""

import fcntl
import json
import os
import re
import signal
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from assay.cases.outcomes import RESULTS
from support.servers.thread_server import Handler, HandlerServer
from support.waiting import wait_until

AGENT = """
import os, time, assay

def log(task):
    with open("asked.log", "a") as file:
        file.write(f"{task}\\n")

def answer(task):
    log(task)
    if task == "boom":
        raise ValueError("bad day")
    if task == "no":
        raise assay.AgentRefusal("not that")
    if task == "away" and not os.path.exists("back"):
        raise assay.NotMeasured("its model is away")
    if task == "hang":
        time.sleep(20)
    return str(task).upper()

def spends(task, ctx):
    ctx.reason("thinking")
    ctx.usage(provider="acme", model="m", input_tokens=3, output_tokens=4, cost_usd=0.5)
    return str(task).upper()

def waits(task):
    log(task)
    while not os.path.exists("go") and int(task) > 2:
        time.sleep(0.01)
    return str(task)
"""
COMMAND = """
import json, sys
task = json.loads(sys.stdin.readline())["task"]
print(json.dumps({"type": "result", "result": task.upper()}), flush=True)
"""
CHECKS = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]


def case(id, input, expected=None):
    return {"id": id, "input": input, "expected": input.upper() if expected is None else expected}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "bot.py").write_text(COMMAND)
    write(tmp_path, "checks.json", CHECKS)
    write(tmp_path, "cases.jsonl", [case("a", "a"), case("b", "b", "nope"), case("c", "c")])
    return tmp_path


@pytest.fixture
def evaluate(command, folder):
    def run(*options, cases="cases.jsonl", agent="mine:answer", checks="checks.json", **more):
        files = ["--cases", cases] if cases else []
        arguments = ["evaluate", *files, "--agent", agent, "--checks", checks, *map(str, options)]
        return command(*arguments, folder=folder, **more)

    return run


def write(folder, name, value):
    text = "".join(json.dumps(line) + "\n" for line in value) if name.endswith("l") else json.dumps(value)
    (folder / name).write_text(text)


def results(folder, name="out.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def recorded_results(folder):
    """How many results the database of the run has."""
    (database,) = folder.rglob("*.db")
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT count(*) FROM evidence WHERE kind = ?", [RESULTS])
        return rows.fetchone()[0]


def calls_of_agent(folder):
    return Counter((folder / "asked.log").read_text().split())


class Endpoint(Handler):
    def do_POST(self):
        self.send(200, json.dumps({"result": json.loads(self.body())["task"].upper()}).encode())


@pytest.mark.parametrize("kind", ["function", "file", "command", "http", "recorded"])
def test_every_kind_of_agent_answers_a_dataset(kind, evaluate, folder):
    write(folder, "answers.json", {"a": "A", "b": "B", "c": "C"})
    specs = {"function": "mine:answer", "file": "./mine.py:answer", "command": "cmd:python bot.py"}
    specs |= {"recorded": "recorded:answers.json"}
    with HandlerServer(Endpoint) as server:
        ended = evaluate("-o", "out.jsonl", agent=specs.get(kind, server.url))
    assert ended.code == 0, ended.err
    assert "exact_match       2       1      0     0      3" in ended.out
    contexts = [one["execution_context"] for one in results(folder)]
    assert [one["test_case"]["id"] for one in contexts] == ["a", "b", "c"]  # in the order of the cases
    assert [one["output"]["value"] for one in contexts] == ["A", "B", "C"]
    assert [one["output"]["metadata"]["outcome"] for one in contexts] == ["completed"] * 3
    assert not list(folder.glob(".*.db*"))  # nothing is left of a run that is complete


def test_checks_read_the_invocation(evaluate, command, folder):
    paths = [("latency_ms", 60_000), ("cost_usd", 0.5), ("tokens", 7)]
    checks = [
        {"type": "threshold", "arguments": {"value": f"$.output.metadata.{name}", "max_value": most}}
        for name, most in paths
    ]
    trajectory = {"actual": "$.output.metadata.trajectory[0].text", "expected": "thinking"}
    outcome = {"actual": "$.output.metadata.outcome", "expected": "completed"}
    checks += [{"type": "exact_match", "arguments": one} for one in (trajectory, outcome)]
    write(folder, "more.json", checks)
    ended = evaluate("--json", "--tag", "prompt=v2", agent="mine:spends", checks="more.json")
    assert ended.code == 0, ended.err + ended.out
    summary = json.loads(ended.out)
    assert summary["pass_rate"]["rate"] == 1
    shown = json.loads(command("show", "latest", "--json", folder=folder).out)
    assert (shown["models"], shown["tags"]) == (["acme:m"], ["prompt=v2"])
    assert shown["command"].startswith("assay evaluate ")
    assert summary["spending"]["known_cost_usd"] == 1.5


@pytest.mark.parametrize(
    ("input", "status", "passed", "outcome", "code"),
    [
        ("a", "completed", True, "completed", 0),
        ("boom", "completed", False, "failed", 0),  # the agent's failure is measured
        ("no", "completed", False, "refused", 0),
        ("hang", "completed", False, "failed", 0),
        ("away", "error", None, "unmeasured", 1),  # never a score
    ],
)
def test_an_answer_of_an_agent_is_scored_and_its_failure_is_not_measured(
    input, status, passed, outcome, code, evaluate, folder
):
    write(folder, "one.jsonl", [case("x", input)])
    # a check of the ending runs even where there is no value; one that forbids a phrase does not pass by saying nothing
    checks = [
        *CHECKS,
        {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["zzz"], "negate": True}},
        {"type": "exact_match", "arguments": {"actual": "$.output.metadata.outcome", "expected": outcome}},
    ]
    write(folder, "three.json", checks)
    ended = evaluate("-o", "out.jsonl", "--timeout", 1.5, cases="one.jsonl", checks="three.json")
    assert ended.code == code, ended.err
    (result,) = results(folder)
    about = result["execution_context"]["output"]["metadata"]
    first, second, third = result["check_results"]
    assert (about["outcome"], first["status"]) == (outcome, status)
    assert first["results"].get("passed") == second["results"].get("passed") == passed
    assert third["results"].get("passed") == (None if status == "error" else True)
    if outcome in ("failed", "refused"):
        assert first["metadata"]["reason"].startswith(f"the agent {outcome}: ")
    assert f"1 {'not measured' if outcome == 'unmeasured' else outcome}" in ended.out


def test_trials_repeat_a_case_and_resume_calls_the_agent_for_unmeasured_cases_only(evaluate, folder):
    write(folder, "cases.jsonl", [case("a", "a"), case("b", "away")])
    first = evaluate("--trials", 3, "-o", "out.jsonl", "--json")
    assert first.code == 1
    agent = json.loads(first.out)["agent"]
    assert (agent["cases"], agent["trials"], agent["outcomes"]) == (2, 3, {"completed": 3, "unmeasured": 3})
    trials = [one["execution_context"]["output"]["metadata"]["trial"] for one in results(folder)]
    assert trials == [0, 1, 2, 0, 1, 2]
    (folder / "back").touch()
    second = evaluate("--trials", 3, "-o", "out.jsonl", "-o", "out.csv", "--resume")
    assert second.code == 0, second.err
    assert "3 of 6 have a result" in second.err
    assert "pass^3 100.0%" in second.out
    assert "pass@2 100.0%" in second.out
    assert "pass@3 100.0%" in second.out
    assert calls_of_agent(folder) == {"a": 3, "away": 6}
    assert len(results(folder)) == 6
    assert len((folder / "out.csv").read_text().splitlines()) == 7


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (
            "4",
            "--k 4: expected a number from 1 to 3, because the run has 3 trials of each case; use --trials 4",
        ),
        ("0", "--k '0': expected whole numbers of at least 1, such as 3 or 1,3,5"),
        ("1,x", "--k '1,x': expected whole numbers of at least 1"),
    ],
)
def test_a_k_that_the_trials_do_not_allow_is_refused_before_the_run(evaluate, folder, k, message):
    write(folder, "cases.jsonl", [case("a", "a")])
    refused = evaluate("--trials", 3, "--k", k)
    assert (refused.code, message in refused.err) == (2, True), refused.err
    assert not (folder / "asked.log").exists()


def test_the_chosen_k_are_in_the_table_and_in_json(command, evaluate, folder):
    write(folder, "cases.jsonl", [case("a", "a"), case("b", "away")])
    ended = evaluate("--trials", 3, "--k", "1,3", "--k", "2", "--json", "--save", "--allow-errors")
    document = json.loads(ended.out)
    assert list(document["pass_k"]) == list(document["pass_at_k"]) == ["1", "2", "3"]
    assert document["pass_at_k"]["3"] | {"low": 0, "high": 0} == {
        "rate": 1.0, "low": 0, "high": 0, "of": 3, "cases": 1, "method": "gaffke"
    }  # fmt: skip
    shown = command("show", "latest", "--k", "3", folder=folder)
    assert "pass^3 100.0% (2.5–100.0%) (95%)" in shown.out
    assert "pass@3 100.0% (2.5–100.0%)" in shown.out
    assert "pass^2" not in shown.out
    refused = command("show", "latest", "--k", "5", folder=folder)
    assert refused.code == 2
    assert (
        "--k 5: expected a number from 1 to 3, because no case has more than 3 measured trials" in refused.err
    )


def test_resume_scores_a_stored_answer_without_calling_the_agent(command, folder):
    (folder / "flaky.py").write_text(
        "import os, assay\n"
        "class Flaky(assay.Checker):\n"
        "    type = 'flaky'\n"
        "    text: assay.Text\n"
        "    def run(self, services):\n"
        "        if not os.path.exists('back'):\n"
        "            raise assay.ForeignFault('no judge')\n"
        "        return {'passed': self.text == 'A'}\n"
    )
    checks = [{"type": "flaky", "arguments": {"text": "$.output.value"}}]
    write(folder, "cases.jsonl", [case("a", "a") | {"checks": checks}])
    arguments = [
        "evaluate",
        "--cases",
        "cases.jsonl",
        "--agent",
        "mine:answer",
        "--check-module",
        "flaky:Flaky",
    ]
    assert command(*arguments, "--save", folder=folder).code == 1
    (folder / "back").touch()
    ended = command(*arguments, "--save", "--resume", folder=folder)
    assert ended.code == 0, ended.err
    assert calls_of_agent(folder) == {"a": 1}


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        (signal.SIGKILL, ["-o", "out.jsonl"]),
        (signal.SIGINT, ["--save"]),
        (signal.SIGTERM, ["-o", "out.jsonl"]),
    ],
    ids=["killed", "interrupted", "terminated"],
)
def test_resume_after_a_stop_does_not_call_the_agent_for_answered_cases(how, kept, zygote, evaluate, folder):
    write(folder, "cases.jsonl", [case(str(at), str(at)) for at in range(8)])
    arguments = ["evaluate", "--cases", "cases.jsonl", "--agent", "mine:waits", "--checks", "checks.json"]
    process = zygote.start(*arguments, *kept, "--concurrency", "2", folder=folder)
    log = folder / "asked.log"
    wait_until(
        lambda: log.exists() and len(log.read_text().split()) == 5
    )  # three are answered, two are in flight
    wait_until(lambda: recorded_results(folder) == 3)
    os.kill(process.pid, how)
    _, err = process.communicate()
    if how is not signal.SIGKILL:
        assert process.returncode == 1
        assert "interrupted after 3 cases" in err
    (folder / "go").touch()
    ended = evaluate("--resume", *kept, agent="mine:waits")
    assert ended.code == 0, ended.err
    assert "8 cases, 8 checks" in ended.out
    times = calls_of_agent(folder)
    assert [times[str(at)] for at in range(3)] == [1, 1, 1]
    assert max(times.values()) == 2  # those in flight when it was stopped


def test_the_cost_limit_stops_the_run_and_what_was_paid_is_kept(evaluate, folder):
    ended = evaluate("--max-cost", 1, "--concurrency", 1, "-o", "out.jsonl", agent="mine:spends")
    assert ended.code == 1
    assert "the cost limit of $1.000000 is reached: $1.000000 is spent" in ended.err
    assert len(results(folder)) == 2
    assert "repeat the command with --resume to go on" in ended.out
    more = evaluate("--max-cost", 9, "-o", "out.jsonl", "--resume", "--json", agent="mine:spends")
    assert more.code == 0, more.err
    assert json.loads(more.out)["spending"]["known_cost_usd"] == 1.5  # what was paid before is counted once


def test_fail_fast_stops_at_what_was_not_measured_and_skips_the_rest(evaluate, folder):
    write(folder, "cases.jsonl", [case("a", "a"), case("b", "away"), case("c", "c")])
    ended = evaluate("--fail-fast", "--concurrency", 1, "-o", "out.jsonl", "--json")
    assert ended.code == 1
    assert [one["status"] for one in results(folder)] == ["completed", "error", "skip"]
    assert json.loads(ended.out)["agent"]["outcomes"] == {"completed": 1, "unmeasured": 1, "not asked": 1}
    (folder / "back").touch()
    assert evaluate("--fail-fast", "--resume", "-o", "out.jsonl").code == 0
    assert calls_of_agent(folder) == {"a": 1, "away": 2, "c": 1}


def test_a_kept_run_is_listed_shown_and_exported(evaluate, command, folder):
    write(folder, "checks.json", [*CHECKS, {"type": "exists", "arguments": {"path": "$.output.value"}}])
    ended = evaluate("--save", "--trials", 2, "--experiment", "capitals")
    assert ended.code == 0
    assert ended.out.startswith("capitals: 3 cases, 6 trials, 12 checks in ")
    assert re.search(r"of 6 trials of 3 cases, 66\.7% \([^)]+\) passed all their checks", ended.out)
    assert "  b, trials 1 and 2: exact_match: expected 'nope', got 'B'\n" in ended.out
    _, row, about = command("list", folder=folder).out.splitlines()
    assert row.split()[2:4] == ["66.7%", "3×2"]
    assert about == "  capitals · local.mine.answer"
    (kept,) = json.loads(command("list", "--json", folder=folder).out)
    assert (kept["casePassRate"], kept["passRate"]) == pytest.approx((2 / 3, 5 / 6))
    assert kept["trials"] == 2
    assert "3 cases, 6 trials: 2 passed, 1 failed" in command("show", "latest", folder=folder).out
    assert command("export", "latest", "-o", "all.jsonl", folder=folder).code == 0
    assert command("admin", "delete", "latest", "--yes", folder=folder).code == 0
    again = evaluate("--save", "--trials", 2, "--resume")
    assert "there is no run of these cases" in again.err  # it was erased
    assert [one["execution_context"]["output"]["value"] for one in results(folder, "all.jsonl")] == list(
        "AABBCC"
    )


def test_columns_slices_and_bars_work_with_an_agent(evaluate, folder):
    (folder / "sheet.csv").write_text("question,gold,kind\na,A,good\nb,B,good\nc,nope,bad\n")
    maps = [option for pair in ("input=question", "expected=gold", "tags=kind") for option in ("--map", pair)]
    bars = ["--by", "tag", "--min-pass-rate", "tag:good=1", "--min-pass-rate", "tag:bad=0.5"]
    ended = evaluate(*maps, *bars, "--json", cases="sheet.csv")
    assert ended.code == 3, ended.err
    slices = {one["slice"]: one["passed"] for one in json.loads(ended.out)["slices"]}
    assert slices == {"good": 2, "bad": 0}


def test_outputs_of_the_dataset_are_replaced(evaluate, folder):
    contexts = [{"test_case": case("a", "a"), "output": {"value": "old"}}]
    write(folder, "old.jsonl", contexts)
    ended = evaluate("--contexts", "old.jsonl", "-o", "out.jsonl", cases=None)
    assert ended.code == 0, ended.err
    assert "--agent replaces the outputs in old.jsonl" in ended.err
    assert results(folder)[0]["execution_context"]["output"]["value"] == "A"


def test_a_line_that_is_not_a_case_stops_the_run_there(evaluate, folder):
    write(folder, "cases.jsonl", [case("a", "a"), {"id": "b"}, case("c", "c")])
    stopped = evaluate("-o", "out.jsonl")
    assert (stopped.code, len(results(folder))) == (1, 1)
    assert "cases.jsonl:2: test_case.input: expected any JSON value, got nothing" in stopped.err
    write(folder, "contexts.jsonl", [{"test_case": case("a", "a"), "output": {"value": "A"}}])
    contexts = evaluate(cases="contexts.jsonl")
    assert (
        "contexts.jsonl:1: expected a test case, got a test case with its output: use --contexts"
        in contexts.err
    )
    skipped = evaluate("--skip-bad-lines", "--allow-errors")
    assert (skipped.code, "2 cases" in skipped.out) == (0, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--outputs", "checks.json"], "--agent and --outputs: expected one source of outputs, got both"),
        (["--contexts", "cases.jsonl"], "--agent: expected --cases F, or --contexts F"),
        (
            ["--jobs", "2"],
            "--jobs and --agent: expected one of them, got both; with --agent use --concurrency",
        ),
        (["--resume"], "--resume: expected --save, or one .jsonl file that -o names, with --agent"),
        (["--trials", "0"], "trials"),
    ],
)
def test_options_that_contradict_an_agent_are_refused(options, message, evaluate):
    ended = evaluate(*options)
    assert ended.code == 2
    assert message in ended.err


def test_an_agent_that_is_not_there_or_does_not_cover_the_cases_is_refused(evaluate, command, folder):
    assert "expected code that can be loaded" in evaluate(agent="mine:nothing").err
    (folder / "out.jsonl").write_text("before\n")
    write(folder, "answers.json", {"a": "A", "b": "B", "z": "Z"})
    twice = [{"taskId": id, "result": id} for id in "abcc"]
    write(folder, "twice.json", twice)
    refusals = {"answers.json": ["answers.json: expected a record of a case of the dataset, got 'z'"]}
    refusals["answers.json"] += [
        "answers.json: case 'c': expected a record for each of 1 trial, got 0 records"
    ]
    refusals["twice.json"] = [
        "twice.json: record 4: case 'c': expected a record for each of 1 trial, got 2 records"
    ]
    for file, lines in refusals.items():
        ended = evaluate("-o", "out.jsonl", agent=f"recorded:{file}")
        assert (ended.code, ended.out, ended.messages) == (2, "", [f"assay: {line}" for line in lines])
        assert (folder / "out.jsonl").read_text() == "before\n"
    alone = command("evaluate", "--cases", "cases.jsonl", "--trials", "2", folder=folder)
    assert "--trials: expected --agent with it" in alone.err


def test_two_processes_do_not_write_one_file(evaluate, folder):
    with (folder / "out.jsonl").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        ended = evaluate("-o", "out.jsonl")
    assert (ended.code, "out.jsonl: expected a file that no process writes" in ended.err) == (2, True), (
        ended.err
    )
    assert not (folder / "asked.log").exists()
