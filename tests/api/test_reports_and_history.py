"""`assay.report` and `assay.history`: what the commands write and print, on results in every form."""

import asyncio
import copy
import json
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

import assay
from assay.errors import EnvironmentFailure, InvalidRequest, UsageError
from assay.serve.page.built_files import page_folder
from support.report_file import report_text

CHECKS = [
    {"contains": "yes"},
    {"contains": "y"},
    {"threshold": {"value": "$.output.metadata.ms", "max_value": 10}},
]
SUITE = {
    "suiteId": "local.mine.evals.first", "version": "1.0.0", "modes": ["golden"],
    "tasks": [
        {"taskId": f"t{at}", "input": at, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": at}}}
        for at in range(4)
    ],
}  # fmt: skip


def evaluated(passes):
    return assay.evaluate_sync(
        [{"id": f"c{at}", "input": f"q{at}", "expected": "yes"} for at in range(8)],
        [{"value": "yes" if at < passes else "no", "metadata": {"ms": 1} if at else {}} for at in range(8)],
        CHECKS,
    )


@pytest.fixture(scope="module")
def runs():
    return evaluated(8), evaluated(3)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", f"sqlite:///{tmp_path}/assay.db")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def odd(result):
    """A result with a cost that is no number."""
    document = json.loads(msgspec.json.encode(result.results[0]))
    return document | {"metadata": {"known_cost_usd": "much"}}


def test_a_report_is_the_same_for_a_result_a_table_and_a_list(runs):
    text = assay.report(runs[1])
    assert "| contains #\u200b1 | 3 | 5 | 0 | 0 | 0 |" in text
    assert "2 passed, 5 failed, 1 not measured" in text
    assert "c0 | not measured" in text
    table = assay.report(runs[1].to_pandas())
    for part in ("2 passed, 5 failed, 1 not measured", "28.6%", "| threshold | 7 | 0 | 1 | 0 | 0 |"):
        assert part in text
        assert part in table


def test_a_report_has_the_id_and_the_start_of_the_evaluation_or_none(runs):
    for text in (assay.report(runs[1]), assay.report(*runs)):
        assert f"| run | {runs[1].evaluation_id} |" in text
        assert f"| created | {runs[1].started_at:%Y-%m-%dT%H}" in text
    old = replace(runs[1], started_at=datetime(2020, 1, 2, tzinfo=UTC))
    assert "| created | 2020-01-02T00" in assay.report(old)
    table = assay.report(runs[1].to_pandas())
    assert "| run |" not in table
    assert "| created |" not in table
    with pytest.raises(UsageError, match="expected runs that differ"):
        assay.report(runs[1], runs[1])


def test_a_report_of_two_results_compares_them(runs, home):
    path = assay.report(*runs, output=home / "report.md")
    assert path == home / "report.md"
    text = path.read_text("utf-8")
    assert text.startswith("# Comparison by passed")
    assert "5 worse, 0 better, 2 unchanged" in text
    redacted = assay.report(*runs, redact=True)
    assert "| c3 |" in text
    assert "| c3 |" not in redacted
    assert "5 worse, 0 better, 2 unchanged" in redacted


def test_a_report_takes_what_to_slice_by():
    tags = [["late"] if at % 2 else [] for at in range(8)]
    cases = [{"id": f"c{at}", "input": at, "topic": f"t{at % 2}", "tags": tags[at]} for at in range(8)]
    first, second = (
        assay.evaluate_sync(cases, [{"value": "yes" if at < passes else "no"} for at in range(8)], CHECKS[:1])
        for passes in (4, 6)
    )
    (slice,) = (one for one in first.slices("topic") if one.name == "t1")
    row = f"| t1 | 4 | {slice.case_pass_rate:.1%} ("
    assert row in assay.report(first, by="topic")
    assert "| by tag |" not in assay.report(first, by=["topic"])
    assert assay.report(first, second).count("| by tag |") == 3  # of the comparison, and of each run
    with pytest.raises(UsageError, match=r"^by='topci': no case has a value there; .* did you mean topic\?$"):
        assay.report(first, by="topci")
    with pytest.raises(
        UsageError, match=r"^by: expected the name of a member, or a list of names, got a number"
    ):
        assay.report(first, by=3)


def test_a_report_in_html_has_the_data(runs, home):
    if not (page_folder() / "report.html").is_file():
        pytest.skip("the page is not built here")
    data = report_text(assay.report(*runs, output="report.html"))
    assert '"caseId":"c3"' in data
    assert "\\u003cscript" not in data


def test_results_that_are_not_complete_have_no_verdict(runs):
    document = {"results": runs[1].results[:2], "summary": {"total_test_cases": 8}}
    assert "it has 2 of 8 results" in assay.report(document)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: assay.report(a, output="report.pdf"), "expected a file that ends with .html or .md"),
        (lambda a: assay.report(), "expected 1 to 8 runs, got 0"),
        (lambda a: assay.report(*[a] * 9), "expected at most 8 runs, got 9"),
        (lambda a: assay.report(a, limit=0), "limit: expected 1 to 20000, got 0"),
        (lambda a: assay.report("nothing"), "there is no run 'nothing'"),
        (lambda a: assay.report(a, 7), "b: expected a result"),
        (
            lambda a: assay.report(a, output="no/folder/report.md"),
            "no/folder/report.md: expected a file that can be written",
        ),
        (lambda a: assay.report([odd(a)]), "a: expected a result with execution_context and check_results"),
        (lambda a: assay.history(SUITE["suiteId"], limit=0), "limit: expected 1 to 1000, got 0"),
        (lambda a: assay.history("missing.yaml"), "missing.yaml: there is no such file"),
    ],
)
def test_a_refusal_says_what_is_possible(runs, home, call, message):
    with pytest.raises((InvalidRequest, UsageError, EnvironmentFailure)) as refusal:
        call(runs[0])
    assert message in str(refusal.value)


def test_the_history_of_a_suite_is_that_of_the_command(home, command):
    async def both():
        address = f"sqlite:///{home}/assay.db"
        await assay.run_suite(SUITE, lambda task: task, free=True, store=address)
        return await assay.run_suite(SUITE, lambda task: 0, free=True, store=address)

    last = asyncio.run(both())
    found = assay.history(SUITE["suiteId"])
    assert [(row.score, row.passed) for row in found.rows] == [(0.25, False), (1.0, True)]
    assert (found.rows[0].run_id, found.more) == (last.run_id, False)
    assert (found.rows[0].low or 0) < 0.25 < (found.rows[0].high or 0)
    assert assay.history(SUITE["suiteId"], limit=1).more
    for text in (repr(found), found._repr_html_()):
        assert f"SuiteHistory {SUITE['suiteId']}: 2 runs" in text
        assert last.run_id in text
    assert assay.history(SUITE["suiteId"], agent="nobody").note.startswith("no run of agent nobody on suite ")
    wrong = SUITE["suiteId"].replace("first", "frist")
    expected = f"no run on suite {wrong} is stored here; did you mean {SUITE['suiteId']}?"
    with pytest.raises(UsageError) as refusal:
        assay.history(wrong)
    assert str(refusal.value) == expected
    (home / "other.json").write_text(json.dumps({**SUITE, "suiteId": wrong}), "utf-8")
    assert assay.history(home / "other.json").note == expected  # a suite that was not run yet
    done = command(
        "history",
        SUITE["suiteId"],
        "--json",
        folder=home,
        environ={"ASSAY_DATABASE_URL": f"sqlite:///{home}/assay.db"},
    )
    assert f'"runId":"{last.run_id}"' in done.out
    note = command(
        "history", wrong, folder=home, environ={"ASSAY_DATABASE_URL": f"sqlite:///{home}/assay.db"}
    )
    assert (note.code, note.out.strip()) == (0, expected)
    assert "1 of 4 tasks" not in assay.report(last.run_id)
    assert "**Failed.**" in assay.report(last.run_id)
    assert assay.report(last) == assay.report(last.run_id)


def test_a_report_takes_the_results_of_run_suite(home):
    """Their runs are in memory; beside a stored run, a file and another result."""
    agents = (lambda task: task, lambda _: "x")
    first, second = (asyncio.run(assay.run_suite(SUITE, agent)) for agent in agents)
    text = assay.report(first)
    assert first.run_id in text
    assert f"{first.report.passed_count} passed" in text
    both = assay.report(first, second)
    assert "Comparison" in both
    assert all(run.run_id in both for run in (first, second))
    with pytest.raises(InvalidRequest, match="does not know where its run is"):
        assay.report(copy.copy(first))
