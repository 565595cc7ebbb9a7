"""`assay show`: why a case failed, with its content and reasons, and the trajectory of an agent's task."""

import csv
import json

import pytest

from assay.cli.console.console import break_points, columns_of, wrap
from support.commands.command import run_on_terminal

AGENT = """
def answer(task, ctx):
    if task == "raise":
        raise KeyError("no order")
    if task == "look":
        found = ctx.tool("shop:orders", id=17)
        ctx.usage(provider="openai", model="m", input_tokens=50, output_tokens=2, cost_usd=0.0001)
        return f"It is {found['state']}."
    return task
"""
SUITE = {
    "suiteId": "local.mine.evals.show",
    "version": "1.0.0",
    "modes": ["golden"],
    "tasks": [
        {"taskId": "raises", "input": "raise", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "x"}}},
        {
            "taskId": "looks",
            "input": "look",
            "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "It is lost."}},
            "fixtures": {"toolResponses": [{"tool": "shop:orders", "response": {"id": 17, "state": "sent"}}]},
        },
        {"taskId": "echoes", "input": "same", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "same"}}},
    ],
}  # fmt: skip
EQUAL = {
    "type": "exact_match",
    "name": "same",
    "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"},
}
LONG = {"type": "regex", "arguments": {"text": "$.output.value", "pattern": "^[a-z ]+$"}}
CASES = [
    ({"id": "ok", "input": "?", "expected": "fine"}, "fine"),
    ({"id": "text", "input": "?", "expected": "one\ntwo\nthree"}, "one\n2\nthree"),
    ({"id": "json", "input": {"q": 1}, "expected": {"a": 1, "b": [1, 2]}}, {"a": 1, "b": [1, 3]}),
    ({"id": "long", "input": "x" * 5_000, "expected": "short"}, "\x1b[2Jhostile"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("show")
    (folder / "bot.py").write_text(AGENT)
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "checks.json").write_text(json.dumps([EQUAL, LONG]))
    lines = [json.dumps({"test_case": case, "output": {"value": value}}) for case, value in CASES]
    (folder / "cases.jsonl").write_text("\n".join(lines))
    evaluated = command(
        "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save", folder=folder
    )
    ran = command("run", "suite.json", "--agent", "bot:answer", folder=folder)
    assert (evaluated.code, ran.code) == (0, 3), ran.err
    return folder, evaluated, ran


@pytest.fixture
def runs(home, command):
    folder, *_ = home
    listed = json.loads(command("list", "--json", folder=folder).out)
    suite = next(run["runId"] for run in listed if "runId" in run)
    evaluation = next(run["operation_id"] for run in listed if "operation_id" in run)
    return {"suite": suite, "evaluation": evaluation}


def test_evaluate_ends_with_the_first_failing_cases_and_a_command_that_looks_further(home, runs):
    _, evaluated, _ = home
    assert "did not pass:\n" in evaluated.out
    assert "  text: same: expected 'one\\ntwo\\nthree', got 'one\\n2\\nthree'" in evaluated.out
    assert "  json: same: expected" in evaluated.out
    assert evaluated.out.endswith(f"details: assay show {runs['evaluation']}\n")


def test_run_shows_the_expected_and_the_actual_value(home, runs):
    *_, ran = home
    assert "looks" in ran.out
    assert "expected 'It is lost.', got 'It is sent.'" in ran.out
    assert "KeyError: 'no order' (bot.py:4 in answer)" in ran.out
    assert f"details: assay show {runs['suite']}\n" in ran.out


@pytest.mark.parametrize(
    ("run", "options", "present", "absent"),
    [
        ("evaluation", [], ["4 cases: 1 passed, 3 failed", "✗ text", "- two", "+ 2", "✓ ok"], ["pass rate"]),
        ("evaluation", ["--failing"], ["✗ json", "$.b[1]: expected 2, got 3", "✗ same: "], ["✓ ok"]),
        ("evaluation", ["--case", "ok"], ["✓ ok", "✓ same: equals 'fine'", "✓ regex: matches"], ["✗"]),
        ("evaluation", ["--case", "ok", "--failing"], ["nothing matches"], ["✓ ok"]),
        ("evaluation", ["--check", "same", "--failing"], ["✗ same"], ["regex"]),
        ("evaluation", ["--limit", "1"], ["✗ text", "2 more did not pass and 1 more passed"], ["✗ json"]),
        ("evaluation", ["--case", "long"], ["(5,000 characters; --json prints all)", "\\x1b[2Jhostile"], ["\x1b"]),
        ("suite", [], ["score 0.333 (", "  not passed: ", "3 tasks: 1 passed, 2 failed", "✗ raises", "✗ looks", "✓ echoes"], ["cost unknown"]),
        ("suite", ["--task", "raises"], ["error       KeyError: 'no order' (bot.py:4 in answer)"], ["looks"]),
        (
            "suite",
            ["--task", "looks"],
            ['calls shop:orders {"id":17}', 'answers (fixture): {"id":17,"state":"sent"}', "50 tokens in, 2 out", "- It is lost.",
             "+ It is sent.", " ms  "],
            ["raises"],
        ),
    ],
)  # fmt: skip
def test_show_looks_further_than_the_table(home, runs, command, run, options, present, absent):
    folder, *_ = home
    shown = command("show", runs[run], *options, folder=folder)
    assert shown.code == 0, shown.err
    assert [text for text in present if text not in shown.out] == []
    assert [text for text in absent if text in shown.out] == []


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        ("evaluation", ["--case", "txt"], "has no case 'txt'; did you mean text?"),
        ("evaluation", ["--case", "zzz"], "has no case 'zzz'; its cases: ok, text, json, long"),
        ("evaluation", ["--check", "tone"], "has no check 'tone'; its checks: same, regex"),
        ("suite", ["--task", "nope"], "has no task 'nope'; its tasks: raises, looks, echoes"),
        ("suite", ["--check", "nope"], "has no check 'nope'; its checks: exact_match"),
        ("suite", ["--task", "looks", "--case", "looks"], "--case and --task: expected one of them"),
        ("suite", ["--limit", "0"], "--limit"),
        (
            "suite",
            ["--failing", "--max-bytes", "5000"],
            "--max-bytes: expected --failing and --json beside it",
        ),
    ],
)
def test_an_option_that_a_run_does_not_have_is_refused_with_those_that_it_has(
    home, runs, command, run, options, message
):
    folder, *_ = home
    shown = command("show", runs[run], *options, folder=folder)
    assert (shown.code, shown.out) == (2, "")
    assert message in shown.err


def test_show_json_has_the_content_the_reasons_and_the_trajectory(home, runs, command):
    folder, *_ = home
    document = json.loads(command("show", runs["suite"], "--task", "looks", "--json", folder=folder).out)
    (task,) = document["cases"]
    assert task["data"]["reasons"][0]["reason"] == "expected 'It is lost.', got 'It is sent.'"
    assert [step["type"] for step in task["data"]["trajectory"]] == ["tool-called", "tool-returned", "used"]
    assert all(step["at_ms"] >= 0 for step in task["data"]["trajectory"])
    assert document["report"]["total"] == 3
    document = json.loads(command("show", runs["evaluation"], "--json", "--limit", "2", folder=folder).out)
    assert ([case["id"] for case in document["cases"]], document["more"]) == (["text", "json"], 2)
    assert document["summary"]["total_test_cases"] == 4


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_in_a_terminal_wrap_at_words(home, runs, columns):
    folder, *_ = home
    shown = run_on_terminal("show", runs["suite"], folder=folder, columns=columns, code=0)
    lines = [line.rstrip("\r") for line in shown.replace("\x1b", "").split("\n")]
    assert [line for line in lines if len(line) > columns + 8] == []  # eight for colours
    assert any(line.startswith("              ") for line in lines)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 9, ["one two", "  three"]),
        ("it took 1,234 ms today", 14, ["it took", "  1,234 ms", "  today"]),  # a number keeps its unit
        ("  a indented line", 12, ["  a indented", "    line"]),
        ("short", 80, ["short"]),
        (
            "assay show run-01a1e57a36e9f72fdbfd815c6981",
            20,
            ["assay show", "  run-01a1e57a36e9f7", "  2fdbfd815c6981"],
        ),
        ("漢字 漢字 漢字", 10, ["漢字 漢字", "  漢字"]),  # a wide character takes two columns
    ],
)
def test_a_line_wraps_at_words_and_a_number_keeps_its_unit(text, width, lines):
    assert wrap(text, width) == lines
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert len(break_points(text, width)) == len(lines) - 1
    assert columns_of("漢a") == 3


def test_a_scorecard_is_json_in_run_and_in_export(home, runs, command):
    folder, *_ = home
    ran = command("run", "suite.json", "--agent", "bot:answer", "-o", "ran.json", folder=folder)
    assert ran.code == 3
    names = ["-o", "exported.json", "-o", "exported.csv"]
    done = command("export", "latest", *names, folder=folder)
    assert done.out == "3 results in exported.json, exported.csv\n"
    cards = [json.loads((folder / f"{name}.json").read_text()) for name in ("ran", "exported")]
    assert cards[0] == cards[1]
    assert cards[0]["taskCount"] == 3
    rows = list(csv.DictReader((folder / "exported.csv").read_text().splitlines()))
    assert [row["reason"] for row in rows][1] == "expected 'It is lost.', got 'It is sent.'"
    assert rows[1]["cost_usd"] == "0.0001"
    assert int(rows[1]["latency_ms"]) >= 0


def test_checks_beside_the_score_have_their_reasons_too(home, command):
    folder, *_ = home
    (folder / "beside.json").write_text(json.dumps([{**EQUAL, "name": "beside"}]))
    command("run", "suite.json", "--agent", "bot:answer", "--checks", "beside.json", folder=folder)
    shown = command("show", "latest", "--task", "looks", "--check", "beside", folder=folder)
    assert "beside      ✗ beside: expected 'It is lost.', got 'It is sent.'" in shown.out


def test_show_has_no_difference_where_the_output_contains_what_was_expected(command, tmp_path):
    contains = {
        "type": "contains",
        "arguments": {"text": "$.output.value", "phrases": "$.test_case.expected"},
    }
    (tmp_path / "checks.json").write_text(json.dumps([contains, LONG]))
    context = {
        "test_case": {"id": "rome", "input": "?", "expected": "Rome"},
        "output": {"value": "It is Rome."},
    }
    (tmp_path / "cases.jsonl").write_text(json.dumps(context))
    command("evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save", folder=tmp_path)
    shown = command("show", "latest", folder=tmp_path).out
    assert "✗ rome" in shown
    assert "expected    Rome\n" in shown
    assert "- Rome" not in shown


def test_failing_cases_for_a_program_have_content_reasons_and_steps(home, runs, command):
    folder, *_ = home
    found = json.loads(command("show", runs["suite"], "--failing", "--json", folder=folder).out)
    assert (found["run"], found["status"], found["count"]) == (
        runs["suite"],
        "completed",
        "3 tasks: 1 passed, 2 failed, 0 not measured",
    )
    cases = {case["data"]["id"]: case for case in found["cases"]}
    assert set(cases) == {"raises", "looks"}
    looks = cases["looks"]["data"]
    assert (looks["expected"], looks["got"]) == ("It is lost.", "It is sent.")
    assert looks["reasons"][0]["reason"] == "expected 'It is lost.', got 'It is sent.'"
    assert looks["reasons"][0]["arguments"] == {"negate": False, "case_sensitive": True}
    assert looks["steps"][0] == 'calls shop:orders {"id":17}'
    assert "KeyError: 'no order'" in cases["raises"]["data"]["error"]
    whole = command(*cases["looks"]["all"].replace("ID", "looks").split()[1:], folder=folder)
    assert json.loads(whole.out)["cases"][0]["id"] == "looks"


def test_failing_cases_for_a_program_are_cut_and_keep_to_their_bytes(home, runs, command):
    folder, *_ = home
    shown = command("show", runs["evaluation"], "--failing", "--json", "--max-bytes", "2000", folder=folder)
    assert len(shown.out.encode()) <= 2_001  # and the end of the line
    found = json.loads(shown.out)
    long = next(case for case in found["cases"] if case["data"]["id"] == "long")
    assert long["cut"]
    assert "… [cut: " in json.dumps(long["data"], ensure_ascii=False)
    few = command("show", runs["evaluation"], "--failing", "--json", "--max-bytes", "5", folder=folder)
    assert "--max-bytes: expected a whole number from 2000 to 10000000, got '5'" in few.err
