"""`assay compare --regressed`: what got worse, with all that a program needs, within a number of bytes."""

import json
import re

import pytest

from support.evals import golden, suite_of

CHECKS = [
    {
        "type": "exact_match",
        "name": "same",
        "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"},
    }
]
AGENT = """
from pathlib import Path

def answer(task, ctx):
    found = ctx.tool("shop:orders", id=task)
    return "wrong" if task in Path("broken").read_text() else found["state"]
"""
FIXTURE = {"fixtures": {"toolResponses": [{"tool": "shop:orders", "response": {"state": "sent"}}]}}
SUITE = suite_of(*({**golden(id, "sent", id), **FIXTURE} for id in "abc"), modes=["golden"])


@pytest.fixture(scope="module")
def home(tmp_path_factory, command):
    """Two evaluations as files and as stored runs, and two runs of an agent; b and c get worse in the second."""
    folder = tmp_path_factory.mktemp("regressed")
    (folder / "checks.json").write_text(json.dumps(CHECKS))
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "bot.py").write_text(AGENT)
    for name, broken in (("before", "a"), ("after", "bc")):
        (folder / "broken").write_text(broken)
        lines = [
            {
                "test_case": {"id": id, "input": f"ask {id}", "expected": "x" * 3_000},
                "output": {"value": f"wrong {id}" if id in broken else "x" * 3_000},
            }
            for id in "abc"
        ]
        (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        evaluated = command(
            "evaluate", "--contexts", "data.jsonl", "--checks", "checks.json", "--name", f"eval-{name}",
            "-o", f"{name}.jsonl", "-o", f"{name}.csv", folder=folder,
        )  # fmt: skip
        ran = command("run", "suite.json", "--agent", "bot:answer", "--name", f"suite-{name}", folder=folder)
        assert (evaluated.code, ran.code) == (0, 3), ran.err
    return folder


def regressed(command, folder, a, b, *more):
    ended = command("compare", a, b, "--regressed", "--json", *more, folder=folder)
    assert ended.code == 0, ended.err
    return json.loads(ended.out), ended


@pytest.mark.parametrize("form", ["eval-{}", "{}.jsonl", "{}.csv"])
def test_a_case_that_got_worse_has_both_outputs_and_reasons(home, command, form):
    found, _ = regressed(command, home, form.format("before"), form.format("after"), "--max-bytes", "100000")
    assert (found["count"], found["verdict"]) == ("passed: 2 worse, 1 better, 0 unchanged", "not enough data")
    assert [case["data"]["id"] for case in found["cases"]] == ["b", "c"]
    case = found["cases"][0]
    assert (case["outcome"], case["before"], case["after"]) == ("failed", 1.0, 0.0)
    data = case["data"]
    assert (data["input"], data["expected"], data["got"]) == ("ask b", "x" * 3_000, "wrong b")
    assert data["reasons"][0]["check"] == "same"
    assert data["reasons"][0]["reason"].startswith("expected 'xxx")
    assert data["before"]["got"] == "x" * 3_000
    assert data["before"]["reasons"][0]["passed"] is True


def test_the_steps_of_an_agent_are_there_and_the_rest_is_one_command_away(home, command):
    found, _ = regressed(command, home, "suite-before", "suite-after")
    case = found["cases"][0]
    assert case["data"]["steps"][0] == 'calls shop:orders {"id":"b"}'
    assert 'answers (fixture): {"state":"sent"}' in case["data"]["steps"][1]
    assert case["data"]["before"]["got"] == "sent"
    assert case["data"]["reasons"][0]["reason"] == "expected 'sent', got 'wrong'"
    whole = command(*case["all"].replace("ID", "b").split()[1:], folder=home)
    assert json.loads(whole.out)["cases"][0]["id"] == "b"


def test_the_document_is_bounded_and_says_what_it_leaves_out(home, command):
    found, ended = regressed(command, home, "before.jsonl", "after.jsonl", "--max-bytes", "2500")
    assert len(ended.out.encode()) <= 2_501
    assert found["cases"][0]["cut"]
    assert "… [cut: 3,002 bytes]" in found["cases"][0]["data"]["expected"]
    whole = command(*found["cases"][0]["all"].split()[1:], folder=home)
    assert json.loads(whole.out)["cases"][0]["data"]["expected"] == "x" * 3_000
    one, _ = regressed(command, home, "before.jsonl", "after.jsonl", "--limit", "1")
    assert (len(one["cases"]), one["more"]) == (1, 1)
    assert len(json.loads(command(*one["next"].split()[1:], folder=home).out)["cases"]) == 2


def test_a_person_reads_the_same(home, command):
    shown = command("compare", "suite-before", "suite-after", "--regressed", folder=home).out
    assert re.search(r"✗ b  score 0[.0]* .*1[.0]* → 0[.0]*\n", shown)
    assert "  before:\n    output      sent" in shown
    assert shown.count("input ") == 2
    same = command("compare", "before.jsonl", "before.csv", "--regressed", folder=home).out
    assert "no case got worse" in same


REFUSED = {
    ("before.jsonl", "after.jsonl", "eval-after", "--regressed"): "--regressed: expected two runs or result files",
    ("before.jsonl", "after.jsonl", "--max-bytes", "5000"): "--max-bytes: expected --regressed and --json beside it",
    ("before.jsonl", "nope.jsonl", "--regressed"): "nope.jsonl",
}  # fmt: skip


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_cannot_be_listed_is_refused(home, command, arguments):
    ended = command("compare", *arguments, folder=home)
    assert (ended.code, ended.out) == (2, "")
    assert REFUSED[arguments] in ended.err
