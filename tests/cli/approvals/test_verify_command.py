"""`assay verify`, `assay respond` and `assay.verify`: exit codes that a pipeline can trust, and the example that is explained."""

import asyncio
import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import assay
from assay.backends.stores.open import open_store

EXAMPLE = Path(__file__).parents[3] / "examples" / "verified"
BOTS = """
def write(task):
    return "good" if isinstance(task, dict) else "first"

def passes(about):
    return "pass"

def rejects(about):
    return "pass" if about["result"] == "good" else "fail"

def says1(about):
    print("I say")
    return "pass"

def says2(about):
    return "fail"

def Says1(task):
    return "work"

def revises(about):
    return "revise"

def crashes(about):
    raise ValueError("the disk\\n is full" + "!" * 500)

def huge(task):
    return "x" * 100_000

def nothing(task):
    return ""
"""
CHECKS = {"is-good": {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["good"]}}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bots.py").write_text(BOTS)
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    return tmp_path


EXIT_CODES = [
    (["--critic", "bots:passes"], 0, "goal reached"),
    (["--checks", "checks.json"], 0, "is-good: met"),
    (["--critic", "bots:rejects"], 3, "the run waits for a person at actor"),
    (["--critic", "bots:rejects", "--on-fail", "give-up"], 3, "the workflow gave up"),
    (["--critic", "bots:rejects", "--no-gating"], 3, "result: first"),
    (
        ["--critic", "bots:revises", "--max-turns", "2"],
        3,
        "no turns are left (loop_limit_exceeded: ",
    ),
    (["--critic", "bots:nobody"], 2, ""),
    (["--criterion", "a", "--criterion", "a"], 2, ""),
    (["--on-fail", "pray"], 2, ""),
]


def test_the_exit_code_says_whether_the_goal_was_reached(command, folder):
    verify = ("verify", "--actor", "bots:write", "--task", "do it")
    results = command.each([(*verify, *arguments) for arguments, _, _ in EXIT_CODES], folder=folder)
    for (arguments, code, expected), done in zip(EXIT_CODES, results, strict=True):
        assert (done.code, expected in done.out) == (code, True), (arguments, done.err)


REASONS = [
    ("crashes", "passes", 3, "turn 2: actor local.bots.crashes failed: ValueError: the disk is full!!!"),
    (
        "write",
        "crashes",
        3,
        "on the work of local.bots.write: it gave no verdict: ValueError: the disk is full!!!",
    ),
    (
        "write",
        "write",
        3,
        "its own work: it gave no verdict: expected a verdict, one of pass, revise, fail: ",
    ),
    (
        "write",
        "rejects",
        3,
        "result in question: first\ngoal not reached: the run waits for a person at actor",
    ),
    ("huge", "passes", 0, "xxx… (100,000 characters; --json prints all of them)\n"),
    ("nothing", "passes", 0, 'result: ""\n'),
]


def test_verify_prints_the_reasons_of_a_failure(command, folder):
    commands = [
        ("verify", "--actor", f"bots:{actor}", "--critic", f"bots:{critic}", "--task", "it", "--max-turns", "2")
        for actor, critic, _, _ in REASONS
    ]  # fmt: skip
    results = command.each([*commands, *((*one, "--json") for one in commands)], folder=folder)
    texts, documents = results[: len(REASONS)], [json.loads(one.out) for one in results[len(REASONS) :]]
    for (actor, critic, code, expected), done, document in zip(REASONS, texts, documents, strict=True):
        assert (done.code, expected in done.out) == (code, True), done.out + done.err
        assert max(map(len, done.out.splitlines())) < 2_200
        whys = [one["why"] for one in document["failures"]]
        if actor == "crashes":
            assert [one["iteration"] for one in document["failures"]] == [1, 2]
        assert all(why.startswith("ValueError: the disk") for why in whys if "crashes" in (actor, critic))
        waits = document["status"] == "waiting-approval"
        assert document["asked"] == ({"result": "first"} if waits else None)
        if critic == "rejects":
            assert "--accept to let the actor try again, or --reject" in done.err


def test_agents_whose_functions_differ_by_a_digit_have_own_ids(command, folder):
    asked = ("verify", "--critic", "bots:says1", "--task", "x", "--on-fail", "give-up")
    one = command(*asked, "--actor", "bots:says2", "--json", folder=folder)
    assert (json.loads(one.out)["result"], one.err) == ("fail", "I say\n")
    both = command(*asked, "--actor", "bots:write", "--critic", "bots:says2", folder=folder)
    assert (both.code, "by local.bots.says2 on the work of" in both.out) == (3, True), both.err
    same = command(*asked, "--actor", "bots:Says1", folder=folder)
    assert (same.code, same.out) == (2, "")
    assert "'bots:Says1' and 'bots:says1': expected two ids, got local.bots.says1 twice" in same.err


def test_a_run_that_waits_is_answered_once(command, folder):
    asked = ("verify", "--actor", "bots:write", "--critic", "bots:rejects", "--task", "do it", "--json")
    run = json.loads(command(*asked, folder=folder).out)
    assert (run["status"], run["committed"], run["goalSatisfied"]) == ("waiting-approval", False, False)
    done = command("respond", run["runId"], "--accept", folder=folder)
    assert (done.code, "goal reached" in done.out) == (0, True), done.err
    assert command("respond", run["runId"], "--reject", folder=folder).code == 2
    assert command("respond", "run-unknown", "--reject", folder=folder).code == 2
    assert command("respond", run["runId"], folder=folder).code == 2


@pytest.fixture(scope="module")
def kept(command, tmp_path_factory):
    """A folder in which three runs were kept: one that waits, one that gave up, and one whose critic is the actor."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "bots.py").write_text(BOTS)
    for critic, *more in (["bots:rejects"], ["bots:rejects", "--on-fail", "give-up"], ["bots:passes"]):
        actor = "bots:passes" if critic == "bots:passes" else "bots:write"
        command(
            "verify", "--actor", actor, "--critic", critic, "--task", "it", "--criterion", "a", *more, folder=folder
        )  # fmt: skip
    runs = json.loads(command("list", "--json", folder=folder).out)
    return folder, [run["runId"] for run in runs]


def test_list_shows_whether_a_goal_was_reached_and_which_node_waits(command, kept):
    folder, (own, gave_up, waits) = kept
    lines = {line.split()[0]: line for line in command("list", folder=folder).out.splitlines()}
    assert "goal reached, self-verified" in lines[own]
    assert "goal not reached" in lines[gave_up]
    assert "waiting-approval" in lines[waits]
    assert "waits for a person" in lines[waits]
    waiting = command("list", "--status", "waiting-approval", folder=folder).out
    assert (waits in waiting, own in waiting) == (True, False)
    assert f"run {waits} waits for a person: assay respond {waits} --accept to let the actor try" in waiting
    (document,) = json.loads(command("list", "--status", "waiting-approval", "--json", folder=folder).out)
    assert (document["waiting"]["nodeId"], document["verdict"]) == ("actor", "fail")


def test_a_run_is_shown_with_its_verdicts(command, kept):
    folder, (own, gave_up, waits) = kept
    assert "pass, by local.bots.passes on its own work (a)" in command("show", own, folder=folder).out
    given_up = command("show", gave_up, folder=folder).out
    assert "a: not met\ngoal not reached: the workflow gave up" in given_up
    shown = command("show", waits, folder=folder)
    assert "verdict: fail, by local.bots.rejects on the work of local.bots.write (a)" in shown.out
    assert "goal not reached: the run waits for a person at actor: the result is not good enough" in shown.out
    assert f"assay respond {waits} --accept" in shown.out + shown.err
    document = json.loads(command("show", own, "--json", folder=folder).out)
    assert (document["goalSatisfied"], document["verdicts"][0]["selfVerified"]) == (True, True)


def test_verdicts_are_exported(command, kept):
    folder, (own, _, waits) = kept
    done = command("export", waits, "-o", "v.jsonl", "-o", "v.json", "-o", "v.csv", folder=folder)
    assert done.out == "1 verdict in v.jsonl, v.json, v.csv\n", done.err
    (line,) = map(json.loads, (folder / "v.jsonl").read_text().splitlines())
    assert (line["verdict"], line["criteria"]) == ("fail", ["a"])
    whole = json.loads((folder / "v.json").read_text())
    assert (whole["runId"], whole["verdicts"], whole["committed"]) == (waits, [line], False)
    (row,) = csv.DictReader((folder / "v.csv").read_text().splitlines())
    assert (row["verdict"], row["agentId"], row["criteria"]) == ("fail", "local.bots.rejects", "a")
    assert json.loads(command("export", own, "-o", "-", folder=folder).out)["selfVerified"] is True
    assert command("export", own, "-o", "v.txt", folder=folder).code == 2


NESTED = """
[agents."local.bots.writer"]
kind = "callable"
target = "bots:write"

[agents."local.bots.reader"]
kind = "callable"
target = "bots:rejects"

[workflows.inner]
actor = "local.bots.writer"
critics = ["local.bots.reader"]

[workflows.outer]
actor = "workflow:inner"
"""


def test_a_child_that_waits_is_answered_and_its_parent_goes_on(command, folder):
    """No process waits for a person: the parent is taken up again by whoever answers its child."""
    (folder / "assay.toml").write_text(NESTED)
    done = command("verify", "outer", "--task", "it", folder=folder)
    assert (done.code, "goal not reached: its child run-" in done.out) == (3, True), done.err
    assert command("respond", "latest", "--answer", "maybe", folder=folder).code == 2
    document = json.loads(command("respond", "latest", "--accept", "--json", folder=folder).out)
    assert (document["workflowId"], document["result"], document["goalSatisfied"]) == ("outer", "good", True)


def test_an_interrupted_run_is_continued_by_a_process_that_has_its_agents(command, folder):
    """Another command, which has not its agents, leaves it alone."""
    (folder / "slow.py").write_text(SLOW)
    asked = [
        sys.executable,
        "-m",
        "assay",
        "verify",
        "--actor",
        "slow:write",
        "--critic",
        "slow:read",
        "--task",
        "it",
    ]
    killed = subprocess.Popen(asked, cwd=folder, stderr=subprocess.DEVNULL)
    while not (folder / "asked").exists():
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    (folder / "go").touch()
    assert command("verify", "--actor", "bots:write", "--task", "other", folder=folder).code == 0
    which = json.loads(command("list", "--json", folder=folder).out)[-1]
    assert which["status"] == "running"
    assert command("verify", "--resume", which["runId"], "--task", "x", folder=folder).code == 2
    done = command("verify", "--resume", which["runId"], folder=folder)
    if done.code == 2:  # the dead process's lease is not over yet
        assert "another process executes it, or did so less than 10 s ago" in done.err
        asyncio.run(let_go(folder, which["runId"]))
        done = command("verify", "--resume", which["runId"], folder=folder)
    assert (done.code, "result: good" in done.out) == (0, True), done.err
    assert (folder / "asked").read_text() == "1\n1\n2\n"  # only what was under way is asked again
    again = command("verify", "--resume", which["runId"], folder=folder)
    assert (again.code, again.out) == (0, done.out)


async def let_go(folder, run):
    store = await open_store(f"sqlite:///{folder}/.assay/assay.db")
    await store.release(run, (await store.run(run)).holder)
    await store.close()


SLOW = """
import pathlib, time

def write(task):
    turn = task["turn"] if isinstance(task, dict) else 1
    with open("asked", "a") as file:
        file.write(f"{turn}\\n")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return "good" if turn == 2 else "first"

def read(about):
    return "pass" if about["result"] == "good" else "revise"
"""


def test_the_example_runs_offline(command, tmp_path):
    """And says what its page says, to the letter."""
    folder = shutil.copytree(EXAMPLE, tmp_path / "verified")
    page = (EXAMPLE / "README.md").read_text()
    codes = []
    for example in re.findall(r"^\$ assay (.*)\n((?:(?![$`]).*\n)*)", page, re.MULTILINE):
        done = command(*shlex.split(example[0]), folder=folder)
        codes.append(done.code)
        assert done.out == example[1], done.err
    assert codes == [0, 3, 0]
    assert command("verify", "nothing", "--task", "x", folder=folder).code == 2


def write(task):
    return "good" if isinstance(task, dict) else "first"


def rejects(about):
    return "fail"


def test_the_library_commits_only_what_passed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    came = asyncio.run(assay.verify(write, None, "do it", criteria=CHECKS))
    assert (came.result, came.goal_satisfied, came.turns) == ("good", True, 3)
    came = asyncio.run(assay.verify(write, rejects, "do it"))
    assert (came.result, came.committed, came.status) == (None, False, "waiting-approval")
    came = asyncio.run(assay.verify(write, write, "do it", max_turns=1))
    assert came.verdicts[0].self_verified
    assert [(one.role, one.reason[:16]) for one in came.failures] == [("critic", "expected a verdi")]
    with pytest.raises(assay.InvalidRequest):
        asyncio.run(assay.verify(write, [lambda about: "pass", lambda about: "fail"], "do it"))
    with pytest.raises(assay.InvalidRequest):
        asyncio.run(assay.verify(3, None, "do it"))
