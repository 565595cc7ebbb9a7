"""`assay evaluate --only`: it runs again what failed, and nothing takes the part for the whole."""

import json

import pytest

CHECKS = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]
IDS = ("a", "b", "c", "d", "e")
AGENT = """
from pathlib import Path

def answer(text):
    return "?" if text in Path("broken").read_text() else text.upper()
"""


@pytest.fixture
def assay(command, tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(case(id)) + "\n" for id in IDS))
    write(tmp_path, "bd")

    def run(*arguments, **more):
        return command(*arguments, folder=tmp_path, **more)

    return run


def case(id):
    return {"id": id, "input": id, "expected": id.upper()}


def write(folder, broken):
    """Write the outputs, and the list of what the agent does wrong."""
    contexts = [
        {"test_case": case(id), "output": {"value": "?" if id in broken else id.upper()}} for id in IDS
    ]
    (folder / "broken").write_text(broken or "-")
    (folder / "data.jsonl").write_text("".join(json.dumps(one) + "\n" for one in contexts))
    (folder / "data.csv").write_text(
        "id,input,expected,output\n"
        + "".join(f"{id},{id},{id.upper()},{'?' if id in broken else id.upper()}\n" for id in IDS)
    )
    request = {"test_cases": [case(id) for id in IDS], "outputs": [one["output"] for one in contexts]}
    (folder / "request.json").write_text(json.dumps({**request, "checks": CHECKS}))


EVALUATE = ("evaluate", "--contexts", "data.jsonl", "--checks", "checks.json")
INPUTS = {
    "contexts": EVALUATE,
    "table": ("evaluate", "data.csv", "--checks", "checks.json"),
    "request": ("evaluate", "request.json"),
    "agent": ("evaluate", "--cases", "cases.jsonl", "--checks", "checks.json", "--agent", "mine:answer"),
    "trials": (
        "evaluate", "--cases", "cases.jsonl", "--checks", "checks.json", "--agent", "mine:answer", "--trials", "2",
    ),
}  # fmt: skip


def ids_in(name):
    return [
        json.loads(line)["execution_context"]["test_case"]["id"] for line in name.read_text().splitlines()
    ]


@pytest.mark.parametrize("given", INPUTS)
def test_failing_is_what_did_not_pass_in_the_latest_run_of_the_same_input(assay, tmp_path, given):
    first = json.loads(assay(*INPUTS[given], "--save", "--json").out)
    assert "part" not in first
    write(tmp_path, "d")
    part = assay(*INPUTS[given], "--only", "failing", "--save", "--json", "-o", "part.jsonl")
    assert part.code == 0, part.err
    document = json.loads(part.out)
    assert document["part"] == {"cases": 2, "of": 5, "rule": "failing", "runs": [first["evaluation_id"]]}
    assert sorted(set(ids_in(tmp_path / "part.jsonl"))) == ["b", "d"]
    again = assay(*INPUTS[given], "--only", "failing", "--save", "-o", "again.jsonl")
    assert set(ids_in(tmp_path / "again.jsonl")) == {"d"}  # b passed in the part, the rest before it
    assert "only a part: 1 of 5 cases of its data, those that did not pass in eval_" in again.out
    assert "nothing is known of the others" in again.out
    assert (
        "a part of its data: 2 of 5 cases of its data, those" in assay("show", document["evaluation_id"]).out
    )
    assert json.loads(assay("show", document["evaluation_id"], "--json").out)["part"] == document["part"]
    assert " 2 of 5 " in assay("list").out
    exported = assay("export", document["evaluation_id"], "-o", "exported.jsonl")
    assert exported.code == 0, exported.err
    for results in ("part.jsonl", "exported.jsonl", document["evaluation_id"]):
        compared = assay("compare", first["evaluation_id"], results)
        lines = compared.out.splitlines()
        assert lines[0].endswith("2 cases) not enough data"), compared.out + compared.err
        assert "passed: 0 worse, 1 better, 1 unchanged" in lines[1]
        assert "only in eval_" in compared.out
        assert "not compared: nothing is known of the difference" in compared.out
        assert "is a part of a run: it has 2 of 5 cases of its data" in compared.out
        assert "look better by chance when they run again" in compared.out
        assert "can show a difference" not in compared.out
        gate = assay("gate", results, "--baseline", first["evaluation_id"])
        assert gate.code == 1, gate.out
        assert "is a part of a run: it has 2 of 5 cases" in gate.out
        assert "--allow-partial decides on what it has" in gate.out
        allowed = assay("gate", results, "--baseline", first["evaluation_id"], "--allow-partial")
        assert allowed.code == 0, allowed.out
        assert "no regression was shown" in allowed.out
        assert "is a part of a run: it has 2 of 5 cases" in allowed.out
    reverse = assay("gate", first["evaluation_id"], "--baseline", "part.jsonl")
    assert reverse.code == 1
    assert "the baseline part.jsonl is a part of a run" in reverse.out


def test_named_cases_run_and_have_a_verdict_of_their_own(assay, tmp_path):
    assert assay(*EVALUATE, "-o", "whole.jsonl").code == 0
    named = assay(*EVALUATE, "--only", "d", "--only", "a", "-o", "named.jsonl")
    assert "only a part: 2 of 5 cases of its data, those that were named; nothing is known" in named.out
    assert ids_in(tmp_path / "named.jsonl") == ["a", "d"]
    compared = assay("compare", "whole.jsonl", "named.jsonl").out
    assert "look better by chance" not in compared
    assert "passed: 0 worse, 0 better, 2 unchanged" in compared
    both = assay(*EVALUATE, "--only", "failing:whole.jsonl", "--only", "a", "-o", "both.jsonl")
    assert "those that did not pass in whole.jsonl and those that were named" in both.out
    assert ids_in(tmp_path / "both.jsonl") == ["a", "b", "d"]
    assert assay(*EVALUATE, "--only", "failing:whole.jsonl", "--limit", "1", "-o", "one.jsonl").code == 0
    assert ids_in(tmp_path / "one.jsonl") == ["b"]
    every = assay(*EVALUATE, *(word for id in IDS for word in ("--only", id)), "-o", "every.jsonl")
    assert "only a part" not in every.out
    assert assay("gate", "every.jsonl", "--min-mean", "0.5").code == 0
    apart = assay(*EVALUATE, "--only", "c", "-o", "apart.jsonl")
    assert apart.code == 0
    nothing = assay("compare", "named.jsonl", "apart.jsonl")
    assert (nothing.code, "no case is in both named.jsonl and apart.jsonl" in nothing.err) == (2, True)


def test_a_bar_is_not_decided_by_a_part(assay):
    bar = assay(*EVALUATE, "--only", "a", "--min-pass-rate", "0.5")
    assert bar.code == 1
    assert "no bar is decided" in bar.out
    assert "only a part of the cases ran" in bar.err
    beside = assay(*EVALUATE, "--save", "-o", "whole.jsonl")
    assert beside.code == 0
    beside = assay(*EVALUATE, "--only", "failing", "--baseline", "whole.jsonl")
    assert "this run is a part of a run: it has 2 of 5 cases" in beside.out


def test_only_failing_without_a_failed_case_runs_nothing(assay, tmp_path):
    write(tmp_path, "")
    assert assay(*EVALUATE, "--save").code == 0
    nothing = assay(*EVALUATE, "--only", "failing")
    assert (nothing.code, nothing.out.startswith("nothing to run: no case of the input failed in eval_")) == (
        0,
        True,
    )
    silent = assay(*EVALUATE, "--only", "failing", "--json")
    assert (silent.out, "nothing to run" in silent.err) == ("", True)


REFUSED = {
    ("--only", "aa"): "--only: the input has no case 'aa'; did you mean a?",
    ("--only", "zzz"): "--only: the input has no case 'zzz'; it has a, b, c, d, e",
    ("--only", "failing"): "--only failing: no run of data.jsonl is stored: run it with --save first",
    ("--only", "failing:"): "--only failing:: expected failing, failing:RUN or an id, got no run",
    ("--only", "failing:nope"): "there is no run 'nope'",
    ("--only", "failing:nope.jsonl"): "nope.jsonl",
    ("--only", ""): "--only: expected failing, failing:RUN or an id, got an empty text",
    ("--only", "a", "--resume", "-o", "r.jsonl"): "--only and --resume: expected one of them",
}


def test_what_the_input_does_not_have_is_refused_before_anything_runs(assay, tmp_path):
    for options, message in REFUSED.items():
        ended = assay(*EVALUATE, *options)
        assert (ended.code, ended.out) == (2, ""), (options, ended.err)
        assert message in ended.err, options
    stdin = ("evaluate", "--contexts", "-", "--checks", "checks.json")
    text = (tmp_path / "data.jsonl").read_text()
    assert "--only ID: expected a file" in assay(*stdin, "--only", "a", stdin=text.encode()).err
    assert "--only failing: expected a file" in assay(*stdin, "--only", "failing", stdin=text.encode()).err
    assert assay(*EVALUATE, "-o", "whole.jsonl").code == 0
    piped = assay(*stdin, "--only", "failing:whole.jsonl", "-o", "piped.jsonl", stdin=text.encode())
    assert "only a part: 2 cases of its data, those that did not pass in whole.jsonl" in piped.out
    assert ids_in(tmp_path / "piped.jsonl") == ["b", "d"]


def test_a_case_that_is_gone_is_named(assay, tmp_path):
    assert assay(*EVALUATE, "-o", "whole.jsonl").code == 0
    lines = (tmp_path / "data.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "data.jsonl").write_text("".join(line for line in lines if '"id": "b"' not in line))
    gone = assay(*EVALUATE, "--only", "failing:whole.jsonl", "-o", "part.jsonl")
    assert "--only: the input no longer has case b" in gone.err
    assert ids_in(tmp_path / "part.jsonl") == ["d"]
