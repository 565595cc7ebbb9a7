"""`assay run` and `assay suite` as a stranger uses them: what they say, where it goes, how they end."""

import asyncio
import csv
import json
import os
import signal
import time

import pytest
import yaml

from assay.backends.stores.open import open_store
from assay.ports import RunQuery
from support.evals import golden, rubric, suite_of

AGENT = """
import assay, os, sys

def upper(task):
    if task == "boom":
        raise ValueError("no")
    return task.upper()

def prints(task):
    print("I greet you")
    os.system("echo me too")
    return task.upper()

def leaves(task):
    if task == "b":
        sys.exit(0)
    return task.upper()

def breaks(task):
    return "?" if task == "b" else task.upper()

def away(task):
    if task == "b" and not os.path.exists("back"):
        raise assay.ForeignFault("its model is away")
    return task.upper()
"""
ABC = suite_of(
    golden("a", "A", "a"), golden("b", "B", "b"), golden("c", "C", "c"), modes=["golden", "regression"]
)


@pytest.fixture
def assay(command, tmp_path):
    (tmp_path / "mine.py").write_text(AGENT)
    (tmp_path / "suite.json").write_text(json.dumps(ABC))

    def run(*arguments):
        return command(*arguments, folder=tmp_path)

    return run


def test_passed_is_0_and_not_passed_is_3_and_runs_are_kept(assay, tmp_path):
    passed = assay("run", "suite.json", "--agent", "mine:upper", "--mode", "golden", "--tag", "k=v",
                   "-o", "card.json", "-o", "results.jsonl")  # fmt: skip
    assert passed.code == 0, passed.err
    assert "score 1.000 (0.439–1.000) over 3 tasks  passed: at least the bar of 0.7" in passed.out
    assert json.loads((tmp_path / "card.json").read_text())["aggregateScore"] == 1
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 3
    worse = suite_of(
        golden("a", "A", "a"), golden("b", "?", "b"), golden("c", "?", "boom"), modes=["golden", "regression"]
    )
    (tmp_path / "suite.json").write_text(json.dumps(worse))
    failed = assay(
        "run", "suite.json", "--agent", "mine:upper", "--baseline", "latest", "--trials", "2", "--force"
    )
    assert failed.code == 3
    assert "not passed: below the bar of 0.7" in failed.out
    assert "−0.667 against run-" in failed.out
    assert "pass^2 33.3%" in failed.out
    assert "pass@2 33.3%" in failed.out
    chosen = assay("show", "latest", "--k", "2")
    assert "pass@2 33.3%" in chosen.out
    assert "pass^1" not in chosen.out
    report = json.loads(assay("show", "latest", "--k", "2", "--json").out)["report"]
    assert (report["intervalMethod"], list(report["passAtKIntervals"])) == ("gaffke", ["2"])
    assert assay("show", "latest", "--k", "3").code == 2
    assert "ValueError: no" in failed.out
    listed = assay("list")
    assert [line[:4] for line in listed.out.splitlines()[1::2]] == ["run-", "run-"]
    assert "0.333 not passed" in listed.out
    shown = assay("show", "latest")
    assert "expected '?', got 'B'" in shown.out
    report = json.loads(assay("show", "latest", "--json").out)
    assert report["summary"]["passed"] is False
    assert report["report"]["passK"] == {"1": 1 / 3, "2": 1 / 3}
    exported = assay("export", "latest", "-o", "all.json", "-o", "all.jsonl")
    assert exported.code == 0
    assert json.loads((tmp_path / "all.json").read_text()) == report["summary"]  # as `run -o` writes it
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 6


def test_a_run_with_unmeasured_tasks_exits_1_and_can_be_completed(assay, tmp_path):
    cut = assay("run", "suite.json", "--agent", "mine:away", "--mode", "golden")
    assert cut.code == 1
    assert "not measured: 1 task of 3, so there is no verdict" in cut.out
    assert "its model is away" in cut.out
    run = next(word for word in cut.out.split() if word.startswith("run-"))
    (tmp_path / "back").touch()
    whole = assay("run", "--resume", run)
    assert whole.code == 0, whole.err
    assert whole.messages == [f"assay: 2 of 3 tasks are copied from {run}"]
    again = assay("run", "--resume", "latest")
    assert again.code == 2
    assert "--resume: expected a run that is not completed" in again.err


def test_a_run_without_measured_tasks_has_no_score(assay, tmp_path):
    (tmp_path / "suite.json").write_text(json.dumps(suite_of(golden("b", "B", "b"))))
    ended = assay("run", "suite.json", "--agent", "mine.py:away")
    assert ended.code == 1
    assert ended.out.splitlines()[1:4] == [
        "no task was measured",
        "cost unknown, p95 latency –",
        "not measured: 1 task of 1, so there is no verdict",
    ]
    printed = json.loads(assay("run", "suite.json", "--agent", "mine.py:away", "--json").out)
    shown = json.loads(assay("show", printed["runId"], "--json").out)
    for document in (printed, shown):
        assert document["summary"] is None
        report = document["report"]
        assert {name: report[name] for name in ("score", "low", "high", "verdict")} == dict.fromkeys(
            ("score", "low", "high", "verdict")
        )


@pytest.mark.parametrize(
    ("suite", "code", "message"),
    [
        (json.dumps(ABC), 0, ""),
        (yaml.safe_dump(ABC), 0, ""),
        ("{suiteId: 1}", 2, "-: not JSON"),  # what begins so is meant to be JSON
        ("suiteId: [", 2, "-:2: not YAML"),
        ("hello", 2, "-: not JSON"),
    ],
    ids=["json", "yaml", "neither", "broken", "text"],
)
def test_a_suite_comes_from_standard_input(command, assay, tmp_path, suite, code, message):
    ended = command(
        "run", "-", "--agent", "mine:upper", "--mode", "golden", folder=tmp_path, stdin=suite.encode()
    )
    assert ended.code == code
    assert message in ended.err


def test_an_agent_that_leaves_has_failed_that_task(assay):
    ended = assay("run", "suite.json", "--agent", "mine:leaves", "--mode", "golden")
    assert ended.code == 3
    assert "tasks 2 of 3 passed" in ended.out
    assert "✗  b  0.000  SystemExit: 0" in ended.out


def test_json_is_one_document(assay):
    ended = assay("run", "suite.json", "--agent", "mine:upper", "--mode", "golden", "--json")
    document = json.loads(ended.out)
    assert (document["status"], document["summary"]["taskCount"], ended.err) == ("completed", 3, "")


def test_the_output_of_an_agent_is_not_on_standard_output(assay):
    ended = assay("run", "suite.json", "--agent", "mine:prints", "--mode", "golden", "--json")
    assert json.loads(ended.out)["summary"]["passed"] is True
    assert [ended.err.count(line) for line in ("I greet you", "me too")] == [3, 3]


def run_against_latest(assay, tmp_path, suite, *options, agent="mine:upper"):
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    return assay("run", "suite.json", "--agent", agent, *options)


NO_RUN = "assay: suite local.tests.evals.one has no completed run yet: nothing is compared"
NO_BASELINE = "assay: the mode regression compares only with --baseline RUN: nothing is compared"


def test_the_first_run_has_no_baseline_and_a_suite_that_lists_regression_runs(assay):
    first = assay("run", "suite.json", "--agent", "mine:upper", "--baseline", "latest", "--json")
    plain = assay("run", "suite.json", "--agent", "mine:upper")
    alone = assay("run", "suite.json", "--agent", "mine:upper", "--mode", "regression")
    assert [(ended.code, ended.messages[0]) for ended in (first, plain, alone)] == [
        (0, NO_RUN), (0, NO_BASELINE), (0, NO_BASELINE)
    ]  # fmt: skip
    document = json.loads(first.out)
    assert document["report"]["modes"] == ["golden"]
    assert "regression" not in document["summary"]
    assert "comparison" not in document


CHANGED = suite_of(golden("a", "A", "a"), golden("b", "?", "b"), golden("c", "C", "c"), modes=["golden"])
NEXT = {
    **suite_of(golden("a", "A", "a"), golden("d", "D", "d"), modes=["golden", "regression"]),
    "version": "1.1.0",
}
COMPARED = {  # a suite and options; the words of the answer, and whether the scorecard has `regression`
    "the same": (ABC, (), "mine:upper", "+0.000, 0 better, 0 worse, 3 unchanged", (), True),
    "a mode that does not compare": (
        ABC, ("--mode", "golden"), "mine:upper", "+0.000, 0 better, 0 worse, 3 unchanged", (), False,
    ),
    "worse": (ABC, (), "mine:breaks", "−0.333, 0 better, 1 worse, 2 unchanged",
              ("  worse  1.000 → 0.000  b", "note: the baseline ran another agent, local.mine.upper, not local.mine.breaks"), True),
    "other content by force": (
        CHANGED, ("--force",), "mine:upper", "−0.333, 0 better, 1 worse, 2 unchanged",
        ("  worse  1.000 → 0.000  b", "note: the baseline ran other content of the suite, under the same version 1.0.0"), False,
    ),
    "another version and other tasks": (
        NEXT, (), "mine:upper", "+0.000, 0 better, 0 worse, 1 unchanged",
        ("note: the baseline ran version 1.0.0 of the suite, not 1.1.0",
         "note: not in the baseline: task d", "note: only in the baseline: tasks b, c"), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", COMPARED)
def test_a_baseline_is_compared_and_what_differs_is_a_note(assay, tmp_path, which):
    suite, options, agent, headline, lines, regression = COMPARED[which]
    assert assay("run", "suite.json", "--agent", "mine:upper", "--mode", "golden").code == 0
    options = (*options, "--baseline", "latest", "-o", "card.json")
    ended = run_against_latest(assay, tmp_path, suite, *options, agent=agent)
    assert ended.code in (0, 3), ended.err
    assert headline in ended.out
    for line in lines:
        assert line in ended.out
    assert ("regression" in json.loads((tmp_path / "card.json").read_text())) == regression


def test_other_content_under_the_same_version_is_refused_without_force(assay, tmp_path):
    assert assay("run", "suite.json", "--agent", "mine:upper").code == 0
    ended = run_against_latest(assay, tmp_path, CHANGED, "--baseline", "latest")
    assert (ended.code, ended.out) == (2, "")
    assert "expected the same content of suite local.tests.evals.one 1.0.0, got other content" in ended.err
    other = {**CHANGED, "suiteId": "local.tests.evals.two"}
    run = assay("list", "--json")
    baseline = json.loads(run.out)[0]["runId"]
    ended = run_against_latest(assay, tmp_path, other, "--baseline", baseline)
    assert (ended.code, ended.out) == (2, "")
    assert "expected a run of suite local.tests.evals.two, got a run of local.tests.evals.one" in ended.err


def test_a_comparison_is_in_the_json_too(assay):
    assert assay("run", "suite.json", "--agent", "mine:breaks").code == 3
    ended = assay("run", "suite.json", "--agent", "mine:upper", "--baseline", "latest", "--json")
    comparison = json.loads(ended.out)["comparison"]
    assert (comparison["scoreDelta"], comparison["tasks"], comparison["worse"]) == (
        pytest.approx(1 / 3),
        3,
        [],
    )
    assert comparison["better"] == [{"taskId": "b", "before": 0.0, "after": 1.0}]


WRONG = [
    (["run"], "expected a SUITE"),
    (["run", "suite.json"], "expected --agent WHAT, got none"),
    (["run", "nope.yaml", "--agent", "mine:upper"], "nope.yaml: there is no such file"),
    (["run", "suite.json", "--agent", "mine:nobody"], "mine:nobody"),
    (["run", "suite.json", "--agent", "mine:upper", "--mode", "vibes"], "--mode: the suite has no mode 'vibes'"),
    (["run", "suite.json", "--agent", "mine:upper", "--force"], "--force: expected --baseline RUN with it"),
    (["run", "--resume", "run-x"], "there is no run 'run-x'"),
    (["run", "suite.json", "--agent", "mine:upper", "--tag", "x"], "--tag 'x': expected k=v"),
    (["run", "suite.json", "--agent", "mine:upper", "-o", "x.txt"], "-o x.txt: expected a file"),
    (["run", "suite.json", "--agent", "mine:upper", "-o", "no/x.json"], "-o no/x.json: there is no folder no"),
    (["run", "suite.json", "--resume", "x"], "--resume: expected no suite"),
]  # fmt: skip


def test_wrong_usage_is_one_line_and_2(assay, command, tmp_path):
    results = command.each([arguments for arguments, _ in WRONG], folder=tmp_path)
    for (_, message), ended in zip(WRONG, results, strict=True):
        assert ended.code == 2
        assert message in ended.err
        assert len(ended.messages) == 1


def test_a_rubric_without_a_judge_is_refused_with_what_to_do(assay, tmp_path):
    (tmp_path / "suite.json").write_text(json.dumps(suite_of(rubric("a", ("kind", 1)), modes=["rubric"])))
    ended = assay("run", "suite.json", "--agent", "mine:upper")
    assert ended.code == 2
    assert (
        "there is no mode 'rubric' here (there is no provider for a judgement: set OPENAI_API_KEY"
        in ended.err
    )


def test_a_suite_is_validated_and_shown(assay, tmp_path):
    assert assay("init", "new", "--agent", "mine:upper").code == 0
    assert assay("validate", "new/suite.yaml", "suite.json").out.splitlines() == [
        "new/suite.yaml: suite, local.mine.evals.first 1.0.0, 1 task", "suite.json: suite, local.tests.evals.one 1.0.0, 3 tasks"
    ]  # fmt: skip
    shown = assay("suite", "show", "new/suite.yaml")
    assert "greets" in shown.out
    assert "thresholds passScore 0.8" in shown.out
    (tmp_path / "bad.json").write_text('{"suiteId": "x", "tasks": []}')
    bad = assay("validate", "bad.json")
    assert bad.code == 2
    assert len(bad.messages) == 4


def test_a_huge_suite_is_a_short_scorecard(assay, tmp_path):
    many = suite_of(*(golden(f"t-{at}", "X" if at % 2 else "A", "a") for at in range(400)))
    (tmp_path / "suite.json").write_text(json.dumps(many))
    ended = assay("run", "suite.json", "--agent", "mine:upper")
    assert ended.code == 3
    assert "400 tasks" in ended.out
    assert "… and 190 more" in ended.out
    assert len(ended.out.splitlines()) < 20


def test_a_run_that_was_killed_goes_on_as_the_same_run(assay, zygote, tmp_path):
    environ = {**os.environ, "ASSAY_FAILPOINT": "commit.acknowledged:3"}
    killed = zygote.start(
        "run", "suite.json", "--agent", "mine:upper", "--mode", "golden", folder=tmp_path, environ=environ
    )
    assert killed.wait() == -signal.SIGKILL
    killed.communicate()

    async def let_go():
        store = await open_store(f"sqlite:///{tmp_path}/.assay/assay.db")
        (run,) = await store.runs(RunQuery())
        await store.release(run.id, run.holder)  # as if its lease had ended
        await store.close()
        return run

    run = asyncio.run(let_go())
    assert run.status == "running"
    whole = assay("run", "--resume", run.id)
    assert whole.code == 0, whole.err
    assert f"assay show {run.id}" in whole.out
    assert len(json.loads(assay("list", "--json").out)) == 1


def test_an_interrupted_run_keeps_what_is_done_and_can_be_completed(assay, zygote, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import asyncio, pathlib\n"
        "async def agent(task):\n"
        "    if task == 'c' and not pathlib.Path('quick').exists():\n"
        "        pathlib.Path('begun').touch()\n"
        "        await asyncio.sleep(60)\n"
        "    return task.upper()\n"
    )
    process = zygote.start(
        "run", "suite.json", "--agent", "slow:agent", "--mode", "golden", folder=tmp_path, environ=os.environ
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 1
    out, err = process.communicate()
    assert "the run was cancelled; 1 task not done" in out
    assert "cancelling; the tasks that are done are stored" in err
    _, line, about = assay("list").out.splitlines()
    assert " 1.000 2 of 3 " in " ".join(line.split())  # the score so far, no verdict
    assert about.endswith(" · local.slow.agent · 1 never reached")
    (tmp_path / "quick").touch()
    whole = assay("run", "--resume", "latest")
    assert whole.code == 0, whole.err


CHECKS = [
    {"type": "regex", "arguments": {"text": "$.output.value", "pattern": "^[A-B]$"}},
    {"type": "exact_match", "arguments": {"actual": "$.output.metadata.outcome", "expected": "completed"}},
    {"type": "threshold", "arguments": {"value": "$.output.metadata.latency_ms", "max_value": 60000}},
]


def check_rows(ended):
    checks = json.loads(ended.out)["checks"]["checks"]
    return {label: [row["passed"], row["failed"], row["error"]] for label, row in checks.items()}


def test_checks_stand_beside_the_scorecard_and_never_in_its_score(assay, tmp_path):
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    run = ("run", "suite.json", "--agent", "mine:upper", "--mode", "golden")
    plain = json.loads(assay(*run, "--json", "-o", "plain.csv").out)
    ended = assay(*run, "--checks", "checks.json")
    assert ended.code == 0, ended.err  # one check fails, and the score is 1
    table = ended.out[ended.out.index("checks beside the scorecard, not part of its score:") :]
    assert "regex             2       1" in table
    shown = assay("show", "latest").out  # they are stored with the run
    assert "  beside      ✗ regex" in shown
    assert shown.count("  beside      ✓") == 8
    assert table not in shown  # `run` has printed it
    files = [name for form in ("csv", "jsonl") for name in ("-o", f"beside.{form}")]
    assert "3 results in" in assay("export", "latest", *files).out  # of the scorecard
    plain_rows, rows = (
        [*csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines())] for name in ("plain", "beside")
    )
    assert [row["check_name"] for row in rows[:3]] == [row["check_name"] for row in plain_rows]
    assert [row["check_name"] for row in rows[3:6]] == [
        "beside: regex",
        "beside: exact_match",
        "beside: threshold",
    ]
    assert len(rows) == 12
    lines = [json.loads(line) for line in (tmp_path / "beside.jsonl").read_text().splitlines()]
    names = [one["check_results"][0].get("metadata", {}).get("check_name") for one in lines]
    assert names == [None] * 3 + ["beside: regex"] * 3
    shown = assay("show", "latest", "--json")
    assert check_rows(shown) == {"regex": [2, 1, 0], "exact_match": [3, 0, 0], "threshold": [3, 0, 0]}
    for summary in (plain["summary"], json.loads(shown.out)["summary"]):
        assert (summary["aggregateScore"], sorted(summary)) == (1, sorted(plain["summary"]))

    async def log():
        store = await open_store(f"sqlite:///{tmp_path}/.assay/assay.db")
        try:
            (run, *_) = await store.runs(RunQuery())
            return run.metadata, [event.data for event in await store.events(run.id)]
        finally:
            await store.close()

    metadata, events = asyncio.run(log())
    assert metadata["checks"] == ["exact_match"]  # labels of the table of cases, and no argument
    assert not [one for one in events if b"regex" in one or b"checks" in one]


def test_a_resumed_run_keeps_its_checks(assay, tmp_path):
    (tmp_path / "checks.json").write_text(json.dumps(CHECKS))
    first = assay(
        "run", "suite.json", "--agent", "mine:away", "--mode", "golden", "--checks", "checks.json", "--json"
    )
    assert first.code == 1
    assert check_rows(first)["regex"] == [1, 1, 1]  # not measured is not a failure
    (tmp_path / "back").touch()
    second = assay("run", "--resume", "latest", "--json")
    assert second.code == 0, second.err
    assert check_rows(second)["regex"] == [2, 1, 0]


@pytest.mark.parametrize(
    ("checks", "options", "message"),
    [
        ([{"type": "vibes", "arguments": {}}], [], "checks.json: checks[0].type: there is no check 'vibes'"),
        ([[CHECKS[0]]] * 3, [], "expected one list of checks for all tasks, got one list a case"),
        (CHECKS, ["--server", "http://localhost:1"], "--checks and --server: expected one of them"),
    ],
)
def test_checks_that_cannot_run_are_refused(checks, options, message, assay, tmp_path):
    (tmp_path / "checks.json").write_text(json.dumps(checks))
    ended = assay("run", "suite.json", "--agent", "mine:upper", "--checks", "checks.json", *options)
    assert (ended.code, message in ended.err) == (2, True), ended.err


def test_functions_are_checks_beside_the_scorecard(assay, tmp_path):
    (tmp_path / "rules.py").write_text(
        "def is_a(output):\n    return output == 'A'\n\ndef odd(output, limit):\n    return True\n"
    )
    run = ("run", "suite.json", "--agent", "mine:upper", "--mode", "golden", "--json")
    ended = assay(*run, "--check-module", "rules:is_a")
    assert (ended.code, check_rows(ended)) == (0, {"is_a": [1, 2, 0]})
    (tmp_path / "checks.yaml").write_text("- odd: {limit: 3}\n")
    modules = ("--check-module", "rules.py:odd", "--check-module", "rules:is_a")
    named = assay(*run, "--checks", "checks.yaml", *modules)
    assert check_rows(named) == {"odd": [3, 0, 0]}
    assert "--check-module rules:is_a: checks.yaml does not name it, so it is not run" in named.err
    refused = assay(*run, "--check-module", "rules:odd")
    assert refused.code == 2
    assert "--check-module: checks[0].arguments.limit: odd needs this argument" in refused.err
