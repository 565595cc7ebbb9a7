"""`assay diff` and `assay history`: what changed between two runs, and the scores over versions."""

import json
import re

import pytest

from assay.comparison.divergence import TaskPath
from assay.comparison.views.partings import answer_line
from support.commands.command import run_on_terminal

AGENT = """
def old(task, ctx):
    return f"It is {ctx.tool('shop:orders', id=17)['state']}." if task == "look" else task

def new(task, ctx):
    return f"It is {ctx.tool('shop:orders', id=18)['state']}." if task == "look" else "\\x1b[2J" + task.upper()
"""


def task(id, input, value, **more):
    expected = {"kind": "golden", "match": {"strategy": "exact", "value": value}}
    return {"taskId": id, "input": input, "expected": expected, **more}


ORDERS = {"toolResponses": [{"tool": "shop:orders", "response": {"id": 17, "state": "sent"}}]}
SUITE = {
    "suiteId": "local.mine.evals.diff",
    "version": "1.0.0",
    "modes": ["golden"],
    "tasks": [
        task("looks", "look", "It is sent.", fixtures=ORDERS),
        task("echoes", "same", "same"),
        task("numbers", "1", "2"),
    ],
}
EQUAL = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]


@pytest.fixture(scope="module")
def home(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("diff")
    (folder / "bot.py").write_text(AGENT)
    (folder / "suite.json").write_text(json.dumps(SUITE))
    (folder / "checks.json").write_text(json.dumps(EQUAL))
    for agent, trials in (("old", 1), ("new", 1), ("new", 2)):
        command(
            "run", "suite.json", "--agent", f"bot:{agent}", "--trials", str(trials), "--json", folder=folder
        )
    for answer in ("Rome", "Oslo"):
        lines = [
            {"test_case": {"id": "capital", "input": "?", "expected": "Rome"}, "output": {"value": answer}},
            {"test_case": {"id": answer, "input": "?", "expected": "x"}, "output": {"value": "x"}},
        ]
        (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, lines)))
        command("evaluate", "--contexts", "cases.jsonl", "--checks", "checks.json", "--save", folder=folder)
    return folder


@pytest.fixture(scope="module")
def runs(home, command):
    listed = json.loads(command("list", "--json", folder=home).out)
    ids = [run.get("runId") or run["operation_id"] for run in listed]
    return dict(zip(("oslo", "rome", "trials", "new", "old"), ids, strict=True))


def test_the_first_difference_of_each_task(home, runs, command):
    ended = command("diff", runs["old"], runs["new"], folder=home)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert "3 tasks in both: 0 the same, 3 part ways" in lines
    at = lines.index("echoes  passed → failed: another answer")  # a changed outcome comes first
    assert lines[at + 1 : at + 3] == ["  A answers 'same'", "  B answers '\\x1b[2JSAME'"]
    at = lines.index("looks  passed → passed: other arguments")
    assert lines[at + 1 : at + 3] == ['  A calls shop:orders {"id":17}', '  B calls shop:orders {"id":18}']
    assert "\x1b" not in ended.out
    (one,) = json.loads(
        command("diff", runs["old"], runs["new"], "--task", "looks", "--json", folder=home).out
    )["tasks"]
    assert (one["id"], one["divergence"]["kind"], one["a"]["data"]["answer"]) == (
        "looks",
        "arguments",
        "It is sent.",
    )


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("new", "new", "3 tasks in both: 3 the same, 0 part ways"),
        ("new", "trials", "3 trials in both: 3 the same, 0 part ways"),
        ("new", "trials", "only in B: looks (trial 2), echoes (trial 2), numbers (trial 2)"),
        ("rome", "oslo", "capital  passed → failed: another answer"),
        ("rome", "oslo", "only in A: Rome"),
        ("rome", "oslo", "only in B: Oslo"),
    ],
)
def test_kinds_of_runs(home, runs, command, a, b, words):
    ended = command("diff", runs[a], runs[b], folder=home)
    assert (ended.code, words in ended.out.splitlines()) == (0, True), ended.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing", "latest"), "there is no run 'nothing'"),
        (("{old}", "{rome}"), "expected two runs of one kind"),
        (("{old}", "{new}", "--task", "x"), "--task x: there is no such task in"),
    ],
)
def test_a_wrong_diff_is_refused_with_its_reason(home, runs, command, arguments, words):
    ended = command("diff", *(one.format(**runs) for one in arguments), folder=home)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_history_has_a_row_for_each_run_of_a_suite(home, runs, command):
    ended = command("history", "suite.json", "--agent", "local.bot.new", folder=home)
    assert ended.code == 0
    head, titles, first, second = ended.out.splitlines()
    assert head == "local.mine.evals.diff: 2 runs"
    assert titles.split()[:4] == ["version", "run", "score", "0"]
    assert first.split()[0] == "0.0.0"
    assert "0.333 (0.061–0.792)" in first
    assert "●" in first
    assert second.split()[1] in runs["trials"]  # the newest is the last line
    page = json.loads(command("history", "local.mine.evals.diff", "--json", "--limit", "2", folder=home).out)
    assert [row["runId"] for row in page["rows"]] == [runs["trials"], runs["new"]]
    assert page["more"] is True
    assert {row["findings"] for row in page["rows"]} == {None}
    assert "no run of agent x" in command("history", "suite.json", "--agent", "x", folder=home).out
    broken = command("history", "missing.yaml", folder=home)
    assert (broken.code, "missing.yaml" in broken.err) == (2, True)


def test_a_narrow_terminal_keeps_the_chart(home):
    shown = run_on_terminal(
        "history", "suite.json", "--agent", "local.bot.new", folder=home, columns=70, code=0
    )
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert "●" in shown
    assert "findings" not in shown  # no run looked for any
    assert max(map(len, lines)) <= 70


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("x" * 5_000 + "a", "x" * 5_000 + "b", ("xxa' from character 5,001", "xxb' from character 5,001")),
        ("x" * 5_000, "x" * 5_000 + "b", ("xx' from character 5,001", "xxb' from character 5,001")),
        ("short", "shore", ("answers 'short'", "answers 'shore'")),
        ({"text": "yes", "n": 1}, {"text": "no", "n": 1}, ("answers 'yes'", "answers 'no'")),
        ({"text": "yes", "n": 1}, {"text": "yes", "n": 2}, ('{"text":"yes","n":1}', '{"text":"yes","n":2}')),
    ],
)
def test_long_answers_are_shown_where_they_part_ways(left, right, words):
    sides = [TaskPath(passed=True, score=1.0, has_answer=True, answer=one) for one in (left, right)]
    shown = answer_line(sides[0], sides[1]), answer_line(sides[1], sides[0])
    assert all(one.endswith(end) for one, end in zip(shown, words, strict=True)), shown
    assert max(map(len, shown)) < 400
