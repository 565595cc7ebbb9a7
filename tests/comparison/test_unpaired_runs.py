"""Runs over different cases, as two windows of traces: they are not paired, and every door says so."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.comparison.compare import compare_runs
from assay.comparison.metric import read_metric
from assay.comparison.pairing import PairedRuns
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.views.case_lists import CaseLists
from assay.comparison.views.page_view import comparison_view
from assay.comparison.wording import about_cases, counts_line, power_line, verdict_line
from assay.errors import InvalidRequest, UsageError
from assay.results.slices import read_dimension
from assay.stats.unpaired import UnpairedSample
from support.commands.result_lines import check_result, complete, result_line, write_jsonl


def lines(prefix, answers, customers=None, **output):
    found = [result_line(f"{prefix}{at}", passed, output=dict(output)) for at, passed in enumerate(answers)]
    for line, customer in zip(found, customers or (), strict=False):
        line["execution_context"]["test_case"]["metadata"] = {"customer": customer}
    return found


def scores(name, results, metric=None, by=(), standard=None):
    dimensions = tuple(read_dimension(one) for one in by if one != "check")
    groupings = ("check",) if "check" in by else ()
    options = ReadOptions(
        metric and read_metric(metric), dimensions, groupings, standard=standard and read_dimension(standard)
    )
    run = RunScores(name, options)
    for line in results:
        run.add(json.dumps(line).encode(), name)
    return run


def compared(before, after, metric=None, by=(), standard=None, **options):
    runs = [scores("monday", before, metric, by, standard), scores("tuesday", after, metric, by, standard)]
    compared = compare_runs(runs, **options)
    return compared.comparisons[0], compared


BEFORE, AFTER = lines("a", [True] * 40 + [False] * 10), lines("b", [True] * 30 + [False] * 30)


def test_runs_without_a_shared_case_are_compared_by_all_their_cases():
    pair, all_ = compared(BEFORE, AFTER)
    expected = UnpairedSample.of([1] * 40 + [0] * 10, [1] * 30 + [0] * 30).interval()
    result = pair.result
    assert (result.low, result.high, result.p_value) == (expected.low, expected.high, expected.p_value)
    assert (result.before, result.after, result.method, result.verdict) == (0.8, 0.5, "newcombe", "regressed")
    assert (result.cases, result.cases_before, result.cases_after) == (110, 50, 60)
    assert (pair.unpaired, pair.in_both, pair.changes, pair.better, pair.worse) == (True, 0, (), 0, 0)
    assert "80.0% → 50.0% (−30.0 points, 95% −45.1…−12.1, 50 and 60 cases) regressed" in verdict_line(result)
    assert (
        counts_line(pair, all_)
        == "passed: no case is in both runs, so all cases of both are compared, not in pairs"
    )
    assert power_line(pair, None).startswith("50 and 60 cases can show a difference of ")


@pytest.mark.parametrize(
    ("shared", "unpaired"),
    [(0, True), (1, True), (4, True), (5, False), (10, False)],  # of 10 cases of the smaller run
)
def test_runs_are_paired_if_half_of_the_smaller_one_is_in_both(shared, unpaired):
    before = lines("c", [True] * shared) + lines("a", [True] * (10 - shared))
    pair, all_ = compared(before, lines("c", [True] * shared) + lines("b", [True] * (20 - shared)))
    assert pair.unpaired is unpaired
    assert pair.in_both == (shared if unpaired else 0)
    assert pair.result.cases == (30 if unpaired else shared)
    if unpaired and shared == 4:
        assert "4 cases are in both runs, fewer than half of the smaller one" in counts_line(pair, all_)
        assert not any("not compared" in line for line in about_cases(pair))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.randoms(),
)
def test_the_order_of_the_cases_changes_nothing(before, after, random):
    first, second = lines("a", before), lines("b", after)
    pair, _ = compared(first, second)
    random.shuffle(first)
    random.shuffle(second)
    assert compared(first, second)[0].result == pair.result


def test_several_results_of_one_case_count_once():
    """A conversation with ten results is one case: the results of one case are not independent."""
    before = [result_line("a0", True) for _ in range(30)] + lines("x", [True, False, True])
    after = [result_line("b0", False) for _ in range(30)] + lines("y", [True, False, True])
    pair, _ = compared(before, after)
    assert (pair.result.cases_before, pair.result.cases_after) == (4, 4)
    assert pair.result.verdict == "not enough data"


@pytest.mark.parametrize("metric", ["latency_ms", "latency_ms:median", "contains", "score"])
def test_every_metric_can_be_compared(metric):
    before = [result_line(f"a{at}", True, output={"latency_ms": 100 + at}) for at in range(40)]
    after = [result_line(f"b{at}", False, output={"latency_ms": 300 + at}) for at in range(40)]
    pair, _ = compared(before, after, metric)
    assert pair.result.verdict == "regressed"
    assert pair.unpaired


def test_unmeasured_cases_of_either_run_bound_the_verdict():
    missing = [result_line(f"m{at}", check_result(None, error="down")) for at in range(20)]
    pair, _ = compared(BEFORE, AFTER + missing)
    assert (pair.unmeasured.count, pair.result.verdict, pair.result.measured_verdict) == (
        20, "not enough data", "regressed",
    )  # fmt: skip
    (line,) = [line for line in about_cases(pair) if line.startswith("not measured")]
    assert line.startswith(
        "not measured: 20 cases (m0, m1, m2, m3, m4 and 15 more); without them the verdict is: regressed; if they were,"
    )
    nothing, _ = compared(missing, AFTER)
    assert verdict_line(nothing.result) == "no case was measured in one of the runs: not enough data"


def mixed(prefix, gold, free, gold_rate=0.9, free_rate=0.5):
    answers = [at < gold * gold_rate for at in range(gold)] + [at < free * free_rate for at in range(free)]
    return lines(prefix, answers, ["gold"] * gold + ["free"] * free)


def test_a_difference_of_the_mix_alone_is_named_and_standardized_away():
    before, after = mixed("a", 150, 50), mixed("b", 50, 150)
    pair, _ = compared(before, after, by=["customer"])
    assert pair.result.verdict == "regressed"
    assert {one.result.verdict for one in pair.slices} == {"not enough data"}
    (line,) = about_cases(pair)
    assert line == (
        "the runs have different mixes by customer: free 25% → 75%, gold 75% → 25%;"
        " standardize_by='customer' compares them with one mix"
    )
    pair, _ = compared(before, after, standard="customer")
    assert (pair.result.before, pair.result.after) == pytest.approx((0.8, 0.8))
    assert (pair.result.verdict, pair.slices) == ("not enough data", ())
    assert (
        about_cases(pair)[0] == "standardized by customer: each slice counts as in monday: gold 75%, free 25%"
    )


def test_a_slice_of_one_run_alone_is_left_out_of_both_and_named():
    before = mixed("a", 30, 10) + lines("t", [False] * 20, ["trial"] * 20)
    pair, _ = compared(before, mixed("b", 20, 20), standard="customer")
    assert (pair.result.cases_before, pair.result.cases_after) == (40, 40)
    assert pair.result.before == pytest.approx(0.8)
    assert "left out, because they were not measured in both runs: trial (20 and 0 cases)" in about_cases(
        pair
    )
    with pytest.raises(
        InvalidRequest, match="expected a slice that both runs measured; monday has trial, tuesday has"
    ):
        compared(before[40:], mixed("b", 20, 20), standard="customer")


def test_paired_runs_have_one_mix():
    pair, _ = compared(mixed("a", 30, 10), mixed("a", 30, 10), standard="customer")
    assert not pair.unpaired
    assert "nothing is standardized" in about_cases(pair)[0]


def test_different_sampling_rates_are_named():
    runs = [scores("monday", BEFORE), scores("tuesday", AFTER)]
    runs[0].sampling.window, runs[1].sampling.window = 0.05, 0.5
    (pair,) = compare_runs(runs).comparisons
    assert about_cases(pair) == ["the runs have different sampling rates: 5% → 50% of all traces"]


@pytest.mark.parametrize(
    ("recorded", "window", "rate", "spread"),
    [
        ([0.5, 0.5], None, 0.5, None),
        ([0.5, 0.5], 0.1, 0.05, None),  # the server took a tenth of what its sender had sampled
        ([], 0.1, 0.1, None),
        ([], None, None, None),
        ([0.5, None], None, None, None),  # a trace that does not say it
        ([1, 0.25], None, 2 / 5, (0.25, 1)),  # they stand for five traces
        ([0, 2, True, "1", -0.5], None, None, None),
    ],
)
def test_the_sampling_rate_is_that_of_the_sender_and_of_the_window(recorded, window, rate, spread):
    found = [{"trace": {} if one is None else {"sampling_probability": one}} for one in recorded or [None]]
    run = scores("monday", [line for at, one in enumerate(found) for line in lines(f"a{at}", [True], **one)])
    run.sampling.window = window
    assert run.sampling.rate == (None if rate is None else pytest.approx(rate))
    assert run.sampling.spread == spread


def test_the_page_has_no_changes_and_no_charts_of_runs_that_are_not_paired():
    runs = [scores("a", BEFORE), scores("b", AFTER)]
    view = comparison_view(PairedRuns(runs), None)
    assert view.pairs[0].charts.points == ()
    lists = CaseLists(PairedRuns(runs), 1)
    assert [lists.count(one) for one in ("changed", "unchanged", "only_in_baseline", "only_in_run")] == [
        0,
        0,
        50,
        60,
    ]


def test_the_library_compares_gates_and_reports_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, after = (
        write_jsonl(tmp_path / f"{name}.jsonl", complete(results))
        for name, results in (("week1", mixed("a", 80, 40)), ("week2", mixed("b", 40, 80, free_rate=0.1)))
    )
    compared = assay.compare(before, after, by=["customer", "check"], standardize_by="customer")
    assert compared.verdict == "regressed"
    assert [one.slice for one in compared.pair.slices if one.by == "customer"] == ["free", "gold"]
    assert "standardized by customer" in repr(compared)
    assert "80 and 40" in compared._repr_html_()
    decision = assay.gate(after, baseline=before, markdown="gate.md", junit="gate.xml")
    assert (decision.outcome, decision.exit_code) == ("failed", 3)
    assert decision.reason.endswith(
        "; no case is in both runs, so all cases of both are compared, not in pairs"
    )
    assert "no case is in both runs" in (tmp_path / "gate.md").read_text("utf-8")
    assert '<testcase classname="assay" name="gate"><failure' in (tmp_path / "gate.xml").read_text("utf-8")
    policy = {"standardize_by": "customer", "preset": "lenient"}
    assert assay.gate(after, baseline=before, policy=policy).comparison.standardized.by == "customer"
    assert assay.gate(before, baseline=before.replace("1", "2"), policy=policy).outcome == "passed"
    report = assay.report(before, after, output="report.md").read_text("utf-8")
    assert "no case is in both runs" in report
    for name, message in (
        ("check", "standardize_by: expected tag"),
        ("customr", "standardize_by='customr': no case has"),
    ):
        with pytest.raises(UsageError, match=message):
            assay.compare(before, after, standardize_by=name)
