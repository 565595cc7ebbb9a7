"""Every metric of two runs at once: what passed, the score, each check, the cost and the p95 of the latency."""

import json
import random

import pytest

from assay.comparison.compare import compare_paired, compare_runs
from assay.comparison.pairing import PairedRuns
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.views.case_grid import CaseGrid
from assay.comparison.views.page_view import comparison_view
from assay.comparison.wording import differs_line, metric_texts
from assay.stats.verdict import excludes_zero

EVERY = ReadOptions(every_metric=True)


def line(id, checks, cost=None, latency=None, **case):
    metadata = {"cost_usd": cost, "latency_ms": latency}
    results = [
        {
            "check_type": name,
            "status": "completed" if passed is not None else "error",
            "results": {"passed": passed} if passed is not None else {},
        }
        for name, passed in checks.items()
    ]
    status = "error" if None in checks.values() else "completed"
    document = {
        "status": status,
        "execution_context": {
            "test_case": {"id": id, "input": id, **case},
            "output": {"value": "x", "metadata": {k: v for k, v in metadata.items() if v is not None}},
        },
        "check_results": results,
    }
    return json.dumps(document).encode()


def scores(name, lines, options=EVERY):
    found = RunScores(name, options)
    for one in lines:
        found.add(one, name)
    return found


def runs(cases=60, better=0.0, options=EVERY):
    source = random.Random(7)
    both = []
    for name, share, pace in (("a", 0.5, 1000), ("b", 0.5 + better, 400)):
        lines = [
            line(
                f"c{at}",
                {"helpful": source.random() < share, "safe": True},
                cost=0.01 if name == "a" else 0.004,
                latency=pace + source.random() * 100,
                tags=["x" if at % 2 else "y"],
            )
            for at in range(cases)
        ]
        both.append(scores(name, lines, options))
    return both


def judged(id, passed, score, cost):
    """A case of a check that passes or fails, and of a judge with a score of its own, which costs something."""
    document = json.loads(line(id, {"exact": passed}, cost=0.002))
    results = {"passed": passed, "score": score, "metadata": {"cost_usd": cost}}
    document["check_results"].append({"check_type": "judge", "status": "completed", "results": results})
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("metric", "before", "difference"),
    [
        ("passed", "50.0%", "+25.0 points"),
        ("exact", "50.0%", "+25.0 points"),  # a check that only passes or fails: a share of the cases
        ("score", "0.600", "+0.025"),
        ("judge", "0.700", "−0.200"),  # it has scores
        ("judges_usd", "$0.000100", "+$0.000200"),
        ("cost_usd", "$0.00200", "$0.00"),
    ],
)
def test_a_check_that_passes_or_fails_is_a_share_and_judges_have_a_cost(metric, before, difference):
    both = []
    for name, right, score, cost in (("a", 2, 0.7, 0.0001), ("b", 3, 0.5, 0.0003)):
        lines = [judged(f"c{at}", at % 4 < right, score, cost) for at in range(40)]
        both.append(scores(name, lines))
    view = comparison_view(PairedRuns(both), None, metrics=True)
    (pair,) = view.pairs
    assert pair.metric_names == tuple(one.metric for one in pair.metrics)
    (texts,) = (one for one in pair.metrics if one.metric == metric)
    assert (texts.before, texts.difference) == (before, difference)


def test_every_metric_has_a_row_in_its_own_direction():
    (pair,) = compare_runs(runs(better=0.45)).comparisons
    assert [one.metric for one in pair.metrics] == [
        "passed", "score", "helpful", "safe", "cost_usd", "latency_ms:p95",
    ]  # fmt: skip
    verdicts = {one.metric: (one.result.verdict, one.lower_is_better) for one in pair.metrics}
    assert verdicts["helpful"] == ("improved", False)
    assert verdicts["cost_usd"] == ("improved", True)  # it is lower
    assert verdicts["latency_ms:p95"] == ("improved", True)
    assert verdicts["safe"] == ("not enough data", False)
    texts = {texts.metric: texts for texts in map(metric_texts, pair.metrics)}
    assert (texts["cost_usd"].before, texts["cost_usd"].difference) == ("$0.0100", "−$0.00600")
    assert texts["latency_ms:p95"].after.endswith(" ms")


def test_the_intervals_are_wider_than_those_of_one_metric_alone():
    both = runs(better=0.2)
    (pair,) = compare_runs(both).comparisons
    (alone,) = compare_runs(runs(better=0.2, options=ReadOptions())).comparisons
    (passed,) = (one.result for one in pair.metrics if one.metric == "passed")
    assert (passed.before, passed.difference) == (alone.result.before, alone.result.difference)
    assert passed.level > alone.result.level == 0.95
    assert passed.low <= alone.result.low <= alone.result.high <= passed.high
    assert pair.result == alone.result  # the chosen metric is not adjusted


def test_a_metric_with_the_numbers_of_another_does_not_count_twice():
    one = [
        scores(name, [line(f"c{at}", {"only": at < bar}) for at in range(40)])
        for name, bar in (("a", 10), ("b", 30))
    ]
    (pair,) = compare_runs(one).comparisons
    assert [row.metric for row in pair.metrics] == ["passed", "score", "only"]
    assert {row.result.level for row in pair.metrics} == {0.95}
    assert len({json.dumps([row.result.low, row.result.high]) for row in pair.metrics}) == 1


def test_no_metric_is_significant_by_chance_more_often_than_its_level_allows():
    """Of A/A comparisons with six metrics, at most one in twenty shows a difference in any of them."""
    alarms = 0
    for seed in range(60):
        source = random.Random(seed)
        both = []
        for name in "ab":
            lines = [
                line(f"c{at}", {check: source.random() < 0.6 for check in "pqrs"}, cost=source.random())
                for at in range(40)
            ]
            both.append(scores(name, lines))
        (pair,) = compare_runs(both).comparisons
        alarms += any(row.result.verdict != "not enough data" for row in pair.metrics)
    assert alarms <= 7  # a binomial of 60 and 0.05 is above 7 with a chance below 0.02; seeds are fixed


@pytest.mark.parametrize(
    ("cases", "interval"), [(29, False), (30, True)]
)  # the bootstrap of a percentile needs 30 cases
def test_a_percentile_of_few_cases_has_no_interval_and_no_verdict(cases, interval):
    (pair,) = compare_runs(runs(cases, better=0.45)).comparisons
    (late,) = (one for one in pair.metrics if one.metric == "latency_ms:p95")
    assert late.result.before > late.result.after
    assert (late.result.low is not None) == interval
    assert late.result.verdict == ("improved" if interval else "not enough data")


def test_what_was_not_measured_takes_the_verdict_away():
    a = scores("a", [line(f"c{at}", {"x": at < 20}) for at in range(40)])
    b = scores("b", [line(f"c{at}", {"x": True if at < 39 else None}) for at in range(40)])
    (pair,) = compare_runs([a, b]).comparisons
    assert {one.result.unmeasured.cases for one in pair.metrics} == {1}


def test_runs_over_different_cases_are_compared_by_every_metric_too():
    a, b = runs(better=0.45)
    other = scores(
        "b", [line(f"d{at}", {"helpful": True, "safe": True}, cost=0.001, latency=5) for at in range(60)]
    )
    (pair,) = compare_runs([a, other]).comparisons
    assert pair.unpaired
    assert {one.metric: one.result.verdict for one in pair.metrics}["latency_ms:p95"] == "improved"
    assert len(pair.metrics) == 6
    assert b.rows == 60


def test_three_runs_are_adjusted_together():
    a, b = runs(better=0.3)
    compared = compare_runs([a, b, runs(better=0.1)[1]])
    levels = [one.result.level for pair in compared.comparisons for one in pair.metrics]
    assert max(levels) > 1 - 0.05 / 8
    for pair in compared.comparisons:
        for one in pair.metrics:
            assert excludes_zero(one.result) == (one.result.verdict != "not enough data")


def test_the_menus_of_a_page_come_from_the_data():
    a, b = runs()
    view = comparison_view(PairedRuns([a, b]), None)
    assert (view.groupings, view.checks) == (("tag", "check"), ("helpful", "safe"))
    assert view.pairs[0].metrics == ()
    other = scores("c", [line(f"c{at}", {"safe": True, "new": True}) for at in range(3)])
    assert comparison_view(PairedRuns([a, other]), None).checks == ("safe",)  # what both have
    assert comparison_view(PairedRuns([a, other, b]), None).checks == ("helpful", "safe")
    tagged = [
        scores(name, [line("c0", {"helpful": True}, cost=1, latency=1, metadata={"tags": ["x"]})])
        for name in "ab"
    ]
    assert comparison_view(PairedRuns(tagged), None).groupings == ("tag",)
    view = comparison_view(PairedRuns([a, b]), None, metrics=True)
    assert [one.metric for one in view.pairs[0].metrics][:2] == ["passed", "score"]


def test_differences_between_the_settings_of_two_runs_are_named():
    a, b = runs()
    a.about = {"commit": "1f3a", "model": "m", "tag prompt": "v1"}
    b.about = {"commit": "88c1", "model": "m"}
    (pair,) = compare_paired(PairedRuns([a, b])).comparisons
    assert pair.differs == ("commit 1f3a → 88c1", "tag prompt v1 → none")
    assert differs_line(pair) == "the runs differ: commit 1f3a → 88c1; tag prompt v1 → none"


def test_the_grid_has_every_case_with_its_value_in_each_run():
    a = scores("a", [line("same", {"x": True}), line("other", {"x": True}), line("gone", {"x": True})])
    b = scores("b", [line("same", {"x": True}), line("other", {"x": False}), line("new", {"x": None})])
    grid = CaseGrid(PairedRuns([a, b]))
    assert (grid.count(different=False), grid.count(different=True)) == (4, 3)
    rows = {row.id: row for row in grid.rows([1, 1], 0, 50, different=False)}
    assert (rows["same"].different, rows["other"].different) == (False, True)
    assert [(cell.state, cell.value) for cell in rows["other"].cells] == [
        ("measured", 1.0),
        ("measured", 0.0),
    ]
    assert [cell.state for cell in rows["gone"].cells] == ["measured", "absent"]
    assert [cell.state for cell in rows["new"].cells] == ["absent", "unmeasured"]
    assert [cell.position for cell in rows["new"].cells] == [None, 2]
    assert [row.id for row in grid.rows([1, 1], 1, 1, different=True)] == ["gone"]
    assert grid.rows([1, 1], 99, 5, different=True) == []
