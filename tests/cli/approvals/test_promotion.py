"""`assay deploy promote`, `rollback`, `list` and `assay respond`: the example, here and over HTTP, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from assay.extras import EXTRAS

EXAMPLE = Path(__file__).parents[3] / "examples" / "promotion"
AGENT = "local.examples.sorter.default"
SUITE = "local.examples.evals.sorter"
FIRST, SECOND = f"{AGENT}@1.0.0", f"{AGENT}@1.1.0"


@pytest.fixture(scope="module")
def home(tmp_path_factory, command):
    """The first version is staged; the second is installed and in test."""
    folder = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("promotion") / "host")
    for line in (
        "pack install sorter-1.0.0",
        f"run --agent {AGENT} --json",
        f"deploy promote {FIRST} --to test",
        f"deploy promote {FIRST} --to staged --eval latest",
        "pack install sorter-1.1.0",
        f"deploy promote {SECOND} --to test",
    ):
        ended = command(*line.split(), folder=folder)
        assert ended.code == 0, ended.err
    return folder


REFUSED = [
    (f"deploy promote {AGENT} --to test", 2, "AGENT@VERSION: expected"),
    (f"deploy promote {SECOND} --to active", 2, f"next: assay deploy promote {SECOND} --to staged"),
    (f"deploy promote {SECOND} --to rolled-back", 2, f"`assay deploy rollback {SECOND}` leads to rolled-back"),
    (f"deploy promote {SECOND} --to high", 2, "--to high: expected one of test, staged, active, paused, deprecated"),
    (f"deploy promote {SECOND} --to staged --channel stable", 2, "channel: expected a promotion to active with it"),
    (f"deploy promote {SECOND} --to staged --canary 101", 2, "--canary"),
    (f"deploy promote {SECOND} --to staged --eval {'r' * 300}", 2, "evalRunId: expected a string of length <= 256"),
    (f"deploy rollback {SECOND} --reason {'r' * 600}", 2, "reason: expected a string of length <= 512"),
    (f"deploy promote {AGENT}@9.0.0 --to test", 2, "has no version '9.0.0'; there are 1.0.0, 1.1.0"),
    ("deploy promote local.none@1.0.0 --to test", 2, "there is no agent 'local.none'"),
    (f"deploy promote {SECOND} --to paused", 2, "pause needs an active version"),
    (f"deploy promote {SECOND} --to staged", 1, f"by {AGENT} at version 1.1.0, got none"),
    (f"deploy promote {SECOND} --to staged --eval nothing", 1, "there is no eval run 'nothing'"),
    (f"deploy promote {SECOND} --to staged --eval latest", 3, "got a run of local.examples.sorter.default at version 1.0.0"),
    (f"deploy rollback {AGENT}", 2, "no version is active"),
    (f"deploy rollback {SECOND}", 2, "rollback needs an active version"),
    ("deploy list local.none", 2, "there is no agent 'local.none'"),
    ("respond nothing --accept", 2, "there is no run 'nothing'"),
]  # fmt: skip


def test_a_promotion_needs_the_extra_store_alone(home):
    """As in the tutorial: its environment has no package of the server."""
    others = {module for extra in set(EXTRAS) - {"store"} for module in EXTRAS[extra].values()}
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(others)}))\n"  # each is as if it were not installed
        "from assay.cli.main import main\n"
        "main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *f"deploy promote {SECOND} --to active".split()],
        cwd=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert f"next: assay deploy promote {SECOND} --to staged" in ended.stderr


def test_a_wrong_promotion_is_refused_with_its_next_step(home, command):
    results = command.each([line.split() for line, _, _ in REFUSED], folder=home)
    for (line, code, words), ended in zip(REFUSED, results, strict=True):
        assert ended.code == code, (line, ended.out + ended.err)
        assert words in ended.out + ended.err


def test_refusals_change_nothing(home, command):
    records = json.loads(command("deploy", "list", AGENT, "--json", folder=home).out)
    assert [(one["version"], one["state"]) for one in records] == [("1.0.0", "staged"), ("1.1.0", "test")]
    assert "evalRunId" not in records[1]


def test_another_model_and_another_suite_of_the_same_name_are_not_evidence(home, command, tmp_path):
    """What a command line changes is not what is installed."""
    folder = shutil.copytree(home, tmp_path / "host")
    suite = json.loads((folder / "sorter-1.1.0" / "evals" / "sorter.json").read_text())
    (folder / "easy.json").write_text(json.dumps(suite | {"tasks": suite["tasks"][:1]}))
    for line, code in (
        (f"run --agent {AGENT} --model second:large", "eval_run_overridden"),
        (f"run easy.json --agent {AGENT}", "eval_suite_content"),
        (f"run --agent {AGENT} --limit 1", "eval_run_partial"),
    ):
        assert command(*line.split(), folder=folder).code == 0
        ended = command(*f"deploy promote {SECOND} --to staged --eval latest --json".split(), folder=folder)
        first, *_ = json.loads(ended.out)["conditions"]
        assert first["code"] == code
    assert "it ran 1 of " in first["message"]


def test_a_refusal_as_json_has_every_condition(home, command):
    ended = command(*f"deploy promote {SECOND} --to staged --eval latest --json".split(), folder=home)
    document = json.loads(ended.out)
    assert (ended.code, document["error"]) == (3, "eval_gate_unmet")
    assert [one["code"] for one in document["conditions"]] == ["eval_run_other_version"]
    assert document["conditions"][0]["command"].startswith(f"assay run {SUITE} --agent {AGENT}")


def test_an_approval_rejected_granted_and_a_history(home, command):
    waits = command(
        *f"deploy promote {FIRST} --to active --eval latest --channel stable".split(), folder=home
    )
    assert waits.code == 3
    assert f"{FIRST} stays staged until the transition is approved" in waits.err
    run = next(word for word in waits.err.split() if word.startswith("run-")).rstrip(")")
    assert f"assay respond {run} --accept" in waits.err
    shown = command("show", run, folder=home).out
    assert f"promote {FIRST} to active" in shown
    assert f"assay respond {run} --accept" in shown
    rejected = command("respond", run, "--reject", folder=home)
    assert (rejected.code, "is unchanged" in rejected.out) == (3, True)
    assert "decision_rejected" in command("show", run, folder=home).out
    again = command(
        *f"deploy promote {FIRST} --to active --eval latest --channel stable --json".split(), folder=home
    )
    assert json.loads(again.out)["status"] == "waiting-approval"
    done = command("respond", "latest", "--accept", folder=home)
    assert (done.code, done.out) == (0, f"{FIRST}: the transition to active is done\n")
    table = command("deploy", "list", folder=home).out
    assert f"{AGENT}  1.0.0    active  stable" in table
    (row,) = json.loads(command("history", SUITE, "--json", folder=home).out)["rows"]
    assert (row["agentVersion"], row["state"], row["promotedBy"]) == ("1.0.0", "active", True)
    canary = command(*f"deploy promote {FIRST} --to active --canary 30".split(), folder=home)
    assert "is active, 30%" in canary.out
    lines = (
        f"run --agent {AGENT} --baseline latest",
        f"deploy promote {SECOND} --to staged --eval latest",
        f"deploy promote {SECOND} --to active --eval latest --channel stable",
        "respond latest --accept",
        f"deploy rollback {SECOND} --reason slow --json",
    )
    *before, rolled = command.each([line.split() for line in lines], folder=home)
    assert rolled.code == 0, [(one.out, one.err) for one in before]
    assert json.loads(rolled.out)["record"]["state"] == "rolled-back"
