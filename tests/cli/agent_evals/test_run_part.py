"""`assay run` on a part of a suite and with a cost limit: what it runs, and that nothing takes it for the whole."""

import asyncio
import json

import pytest

import assay as library
from support.evals import golden, suite_of

AGENT = """
import pathlib

def upper(task):
    return "?" if task in pathlib.Path("broken").read_text() else task.upper()

def costly(task, ctx):
    ctx.usage(provider="p", model="m", input_tokens=1, output_tokens=1, cost_usd=0.5)
    return task.upper()
"""
TASKS = ("a", "b", "c", "d", "e")
SUITE = suite_of(*(golden(id, id.upper(), id) for id in TASKS), modes=["golden", "regression"])
RUN = ("run", "suite.json", "--agent", "mine:upper")


@pytest.fixture
def assay(command, tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "suite.json").write_text(json.dumps(SUITE))
    (tmp_path / "broken").write_text("-")

    def run(*arguments):
        return command(*arguments, folder=tmp_path)

    return run


def ran(ended):
    """The ids of the tasks of a run that was printed as JSON."""
    assert ended.out, ended.err
    return "".join(task["taskId"] for task in json.loads(ended.out)["report"]["tasks"])


def test_options_select_tasks_of_the_suite(assay):
    for options, tasks in {
        ("--only", "b"): "b",
        ("--only", "d", "--only", "b", "--only", "d"): "bd",  # in the order of the suite
        ("--limit", "2"): "ab",
        ("--limit", "9"): "abcde",
        ("--only", "e", "--only", "b", "--limit", "1"): "b",
    }.items():
        assert ran(assay(*RUN, "--json", *options)) == tasks, options


REFUSED = {
    ("--only", "x"): "--only: the suite has no task 'x'; it has a, b, c, d, e",
    ("--limit", "0"): "--limit: expected a whole number of at least 1, got '0'",
    ("--max-cost", "0"): "--max-cost: expected a number above 0, got 0",
    ("--k", "2"): "--k 2: expected a number from 1 to 1",
    ("--only", "failing:"): "--only failing:: expected failing, failing:RUN or an id",
    ("--only", ""): "--only: expected failing, failing:RUN or an id, got an empty text",
    ("--only", "failing"): "has no run of local.mine.upper yet",
    ("--only", "failing:run-0"): "there is no run 'run-0'",
    ("--server", "http://127.0.0.1:1", "--limit", "1"): "--limit and --server: expected one of them",
    ("--server", "http://127.0.0.1:1", "--max-cost", "1"): "--max-cost and --server: expected one of them",
}


def test_a_part_that_a_suite_does_not_have_is_refused(assay):
    for options, message in REFUSED.items():
        ended = assay(*RUN, *options)
        assert (ended.code, ended.out) == (2, ""), options
        assert message in ended.err
    resumed = assay("run", "--resume", "latest", "--limit", "1")
    assert "--resume: expected no suite, fixtures, modes, tasks" in resumed.err


def test_a_part_of_a_suite_is_never_taken_for_the_whole(assay, tmp_path):
    (tmp_path / "broken").write_text("e")
    whole = assay(*RUN, "--mode", "golden", "-o", "whole.jsonl")
    assert whole.code == 0, whole.err
    part = assay(*RUN, "--limit", "2", "-o", "part.json", "-o", "part.jsonl", "--baseline", "latest")
    assert part.code == 0, part.err  # these tasks reach the bar
    lines = part.out.splitlines()
    assert " 2 of 5 tasks of its suite in " in lines[0]
    assert lines[1].endswith("over 2 tasks  passed: at least the bar of 0.7, by 2 of 5 tasks of its suite")
    assert "  note: this run has 2 of 5 tasks of its suite" in lines
    assert not (tmp_path / "part.json").exists()
    assert "part.json: not written: run-" in part.err
    assert "has 2 of 5 tasks of its suite, and only a run of all of them has a scorecard" in part.err
    for results in ("latest", "part.jsonl"):
        gate = assay("gate", results)
        assert gate.code == 1, gate.out
        assert "is a part of a run: it has 2 of 5" in gate.out
        assert assay("gate", results, "--allow-partial", "--min-mean", "1").code == 0
    compared = assay("compare", "whole.jsonl", "latest")
    assert (
        "is a part of a run: it has 2 of 5 tasks of its suite; nothing is known of the others" in compared.out
    )
    assert (
        "only in whole.jsonl: 3 cases (c, d, e), not compared: nothing is known of the difference"
        in compared.out
    )
    document = json.loads(assay("show", "latest", "--json").out)
    assert (document["summary"], document["report"]["suiteTotal"]) == (None, 5)
    assert "a part of the suite: 2 of 5 tasks of its suite" in assay("show", "latest").out
    assert "2 of 5 tasks of its suite" in assay("history", SUITE["suiteId"]).out
    listed = assay("list").out.splitlines()[1]
    assert " 2 of the suite's 5 " in listed
    assert "passed" not in listed
    refused = assay("export", "latest", "-o", "card.json")
    assert (refused.code, "only a run of all of them has a scorecard" in refused.err) == (2, True)
    assert assay("report", "latest", "-o", "part.md").code == 0
    assert "No verdict: 2 of 5 tasks of its suite" in (tmp_path / "part.md").read_text()
    again = assay(*RUN, "--mode", "golden", "--baseline", "latest")  # the latest run of the whole suite
    assert "0 better, 0 worse, 5 unchanged" in again.out


def test_only_failing_runs_what_did_not_pass_last(assay, tmp_path):
    def failing(*more):
        return assay(*RUN, "--mode", "golden", "--json", "--only", "failing", *more)

    (tmp_path / "broken").write_text("bd")
    first = json.loads(assay(*RUN, "--mode", "golden", "--json").out)["runId"]
    (tmp_path / "broken").write_text("d")
    assert ran(assay(*RUN, "--mode", "golden", "--json", "--only", "a")) == "a"
    assert ran(failing()) == "bd"  # the run of task a says nothing about them
    assert ran(failing()) == "d"
    assert ran(assay(*RUN, "--mode", "golden", "--json", "--only", f"failing:{first[:-1]}")) == "bd"
    assert ran(failing("--only", "a")) == "ad"
    shown = json.loads(assay("show", "latest", "--json").out)["report"]["selection"]
    assert (shown["cases"], shown["of"], shown["rule"], shown["runs"][-1]) == (2, 5, "failing and ids", first)
    assert (
        "a part of the suite: 2 of 5 tasks of its suite, those that did not pass in run-"
        in assay("show", "latest").out
    )
    (tmp_path / "suite.json").write_text(
        json.dumps({**SUITE, "version": "1.0.1", "tasks": SUITE["tasks"][:3]})
    )
    gone = failing()
    assert "the suite no longer has task d" in gone.err
    assert "no task of the suite failed in run-" in gone.err
    other = {**SUITE, "suiteId": "local.tests.evals.other"}
    (tmp_path / "suite.json").write_text(json.dumps(other))
    refused = assay(*RUN, "--only", f"failing:{first}")
    assert (
        "expected a run of suite local.tests.evals.other, got a run of local.tests.evals.one" in refused.err
    )
    (tmp_path / "cases.jsonl").write_text(
        '{"test_case": {"id": "a", "input": 1}, "output": {"value": "x"}}\n'
    )
    (tmp_path / "checks.yaml").write_text("- contains: x\n")
    assert (
        assay(
            "evaluate", "--contexts", "cases.jsonl", "--checks", "checks.yaml", "--save", "--name", "E"
        ).code
        == 0
    )
    assert "expected a run of a suite, " in assay(*RUN, "--only", "failing:E").err


def test_a_cost_limit_starts_no_more_tasks(assay, tmp_path):
    run = ("run", "suite.json", "--agent", "mine:costly", "--mode", "golden", "--concurrency", "1")
    cut = assay(*run, "--max-cost", "1", "-o", "card.json", "-o", "results.jsonl")
    assert cut.code == 1
    assert "the cost limit of $1.000000 is reached: $1.000000 is spent" in cut.out
    assert "3 tasks not done" in cut.out
    assert not (tmp_path / "card.json").exists()
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
    for results in ("latest", "results.jsonl"):
        assert "is not complete" in assay("gate", results).out
    more = assay("run", "--resume", "latest", "--max-cost", "2", "--concurrency", "1")  # with what was spent
    assert (more.code, "$2.000000 is spent" in more.out) == (1, True)
    whole = assay("run", "--resume", "latest", "--k", "1")
    assert whole.code == 0, whole.err
    assert "tasks 5 of 5 passed" in whole.out
    over = assay(*run, "--max-cost", "0.7")
    assert "--max-cost: $1.00 was spent, above $0.700: tasks that had started were finished" in over.err
    unknown = assay(*RUN, "--mode", "golden", "--max-cost", "1")
    assert unknown.code == 0
    assert "--max-cost: the cost of some answers is unknown and not counted" in unknown.err


def test_a_resumed_run_says_what_it_counts_and_what_was_spent_before(assay, tmp_path):
    (tmp_path / "flaky.py").write_text(
        "from pathlib import Path\n"
        "def act(task, ctx):\n"
        "    ctx.usage(provider='p', model='m', input_tokens=1, output_tokens=1, cost_usd=0.1)\n"
        "    calls = Path('calls')\n"
        "    with calls.open('a') as file:\n        file.write('x')\n"
        "    if calls.stat().st_size == 4:\n"
        "        raise ConnectionError('down')\n"
        "    return task\n"
    )
    run = ("run", "suite.json", "--agent", "flaky:act", "--mode", "golden", "--trials", "2")
    first = assay(*run, "--limit", "3", "--concurrency", "1")
    assert (first.code, "cost $0.600, p95" in first.out) == (1, True)
    cut = assay("run", "--resume", "latest", "--max-cost", "0.65", "--concurrency", "1")
    assert "2 of 3 tasks are copied" in cut.err
    assert "cost $0.500 and $0.200 for trials that ran again" in cut.out
    assert "$0.700000 is spent" in cut.out  # six trials of the first run, and one of this one
    whole = assay("run", "--resume", "latest")
    assert (tmp_path / "calls").stat().st_size == 9
    assert "cost $0.600 and $0.300 for trials that ran again" in whole.out
    report = json.loads(assay("show", "latest", "--json").out)["report"]
    assert (report["costUsd"], report["repeatedCostUsd"]) == (0.6, 0.3)


def test_k_chooses_pass_k(assay):
    run = (*RUN, "--mode", "golden", "--trials", "3", "--limit", "1")
    shown = assay(*run, "--k", "2")
    assert "pass^2 100.0%" in shown.out
    assert "pass^1" not in shown.out
    report = json.loads(assay(*run, "--k", "1,3", "--json").out)["report"]
    assert list(report["passK"]) == ["1", "3"]


def test_the_library_runs_a_part_and_stops_at_a_cost():
    def costly(task, ctx):
        ctx.usage(provider="p", model="m", input_tokens=1, output_tokens=1, cost_usd=0.5)
        return task.upper()

    part = asyncio.run(library.run_suite(SUITE, costly, modes=["golden"], tasks=["c", "a"]))
    assert (part.status, part.summary, part.passed) == ("completed", None, False)
    assert (part.report.part, part.report.verdict.passed) == ("2 of 5 tasks of its suite", True)
    assert "2 of 5 tasks of its suite" in repr(part)
    decided = library.gate(part)
    assert (decided.outcome, "it has 2 of 5 tasks of its suite" in decided.reason) == ("undecided", True)
    cut = asyncio.run(library.run_suite(SUITE, costly, modes=["golden"], max_cost=1.0, concurrency=1))
    assert (cut.status, cut.summary, len(cut.results)) == ("failed", None, 2)
    assert "the cost limit of $1.000000 is reached" in cut.error
    for wrong in ({"tasks": ["x"]}, {"limit": 0}, {"max_cost": 0}, {"tasks": []}):
        with pytest.raises(library.InvalidRequest, match=next(iter(wrong))):
            asyncio.run(library.run_suite(SUITE, costly, modes=["golden"], **wrong))
