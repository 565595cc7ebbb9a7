"""Runs are paired by case id, their trials averaged, and every case that is left out is named."""

import json
import random
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.comparison.compare import compare_runs
from assay.comparison.difference import DifferenceInterval
from assay.comparison.metric import read_metric
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.wording import about_cases, power_line, verdict_line
from assay.errors import InvalidRequest, UsageError
from assay.results.check_names import AGENT_ANSWERED
from assay.results.slices import read_dimension
from assay.stats.paired import PairedSample
from assay.stats.verdict import interval_verdict
from support.commands.result_lines import check_result, result_line


def scores(name, lines, metric=None, by=()):
    groupings = tuple(one for one in ("check", "criterion") if one in by)
    dimensions = tuple(read_dimension(one) for one in by if one not in groupings)
    run = RunScores(name, ReadOptions(metric and read_metric(metric), dimensions, groupings))
    for at, line in enumerate(lines):
        run.add(json.dumps(line).encode(), f"{name}:{at + 1}")
    return run


def compared(before, after, metric=None, by=(), **options):
    runs = [scores("a", before, metric, by), scores("b", after, metric, by)]
    return compare_runs(runs, **options).comparisons[0]


def passes(answers, prefix="c"):
    return [result_line(f"{prefix}{at}", passed) for at, passed in enumerate(answers)]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.randoms())
def test_the_result_is_that_of_the_pairs_in_any_order(answers, order):
    first, second = passes([one for one, _ in answers]), passes([one for _, one in answers])
    expected = PairedSample.of(*zip(*answers, strict=True)).interval()
    order.shuffle(second)
    pair = compared(first, second, limit=100)
    result = pair.result
    assert (result.low, result.high, result.cases) == (expected.low, expected.high, len(answers))
    assert result.difference == pytest.approx(expected.estimate)
    changed = {f"c{at}" for at, (one, other) in enumerate(answers) if one != other}
    assert {change.id for change in pair.changes} == changed
    assert [change.better for change in pair.changes] == sorted(change.better for change in pair.changes)
    assert (pair.better + pair.worse, pair.unchanged) == (len(changed), len(answers) - len(changed))


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (0.0834, "0.083"),
        (0.1, "0.1"),
        (1.52, "1.5"),
        (113.0, "110"),
        (23456.0, "23,000"),
        (0.00002, "0.00002"),
    ],
)
def test_the_last_line_has_no_power_of_ten(effect, text):
    pair = compared(passes([True, False] * 10), passes([True] * 20))
    result = msgspec.structs.replace(pair.result, share=False)
    line = power_line(msgspec.structs.replace(pair, smallest_effect=effect, result=result), None)
    assert line == f"20 cases can show a difference of {text} or more (80% power)"


def test_the_first_line():
    before, after = [True] * 96 + [False] * 24, [True] * 94 + [False] * 2 + [True] * 16 + [False] * 8
    result = compared(passes(before), passes(after)).result
    assert verdict_line(result) == "80.0% → 91.7% (+11.7 points, 95% 5.4…19.2, 120 cases) improved"


def test_the_first_line_of_small_costs_has_digits_that_count():
    result = compared(passes([True, False]), passes([True, True])).result
    cheap = msgspec.structs.replace(
        result, before=0.001, after=0.002, difference=0.001, low=None, high=None, share=False
    )
    assert verdict_line(cheap).startswith("0.001 → 0.002 (+0.001, ")


SAME = [True] * 6 + [False] * 2
LOST = [result_line(f"c{at}", check_result(None, error="down")) for at in range(7, 8)]


@pytest.mark.parametrize(
    ("before", "after", "margin", "word"),
    [
        (passes(SAME), passes(SAME), None, "no change"),
        (passes([True] * 8), passes([True] * 8), None, "no change"),
        (passes(SAME), passes([*SAME[2:], True, True]), None, "not enough data"),  # as many, but other cases
        (passes(SAME), passes(SAME[:7]) + LOST, None, "not enough data"),  # a case was not measured
        (passes(SAME * 50), passes(SAME * 50), 0.1, "equivalent"),  # more is known than that nothing changed
    ],
)
def test_a_verdict_says_that_nothing_changed_where_every_result_is_the_same(before, after, margin, word):
    result = compared(before, after, margin=margin).result
    assert (result.word, verdict_line(result).endswith(f") {word}")) == (word, True)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([1, 0, 0], [0, 0, 0], "0.333 → 0.000 (−0.333, "),
        ([0.1, 0.7, 0.5], [0.2, 0.9, 0.2], "0.433 → 0.433 (+0.000, "),  # the floats differ by 6e-17
    ],
)
def test_an_error_of_rounding_is_no_digit(before, after, text):
    lines = [
        [result_line(f"c{at}", check_result(None, score=score)) for at, score in enumerate(run)]
        for run in (before, after)
    ]
    result = compared(*lines).result
    assert verdict_line(result).startswith(text)
    assert (result.after == 0) is not any(after)


@given(
    st.integers(1, 40),
    st.sampled_from([1, 1e-1, 1e-4]),
    st.sampled_from([None, 0.0003, 0.02, 0.3]),
    st.randoms(),
)
def test_the_verdict_is_that_of_the_interval_as_it_is_printed(number, spread, margin, chance):
    before, after = ([0.5 + spread * (chance.random() - 0.5) for _ in range(number)] for _ in range(2))
    lines = [
        [result_line(f"c{at}", check_result(None, score=score)) for at, score in enumerate(run)]
        for run in (before, after)
    ]
    result = compared(*lines, margin=margin).result
    limits = re.search(r"% (\S+)…(\S+), ", verdict_line(result).replace("−", "-"))
    assert interval_verdict(float(limits[1]), float(limits[2]), margin) == result.verdict


@pytest.mark.parametrize(
    ("low", "high", "margin", "text"),
    [
        (-0.2966, 0.16, 0.3, "−0.297…0.160"), (0.0000195, 0.00023, None, "0.00002…0.00023"),
        (-0.3, 0.1, 0.3, "−0.300…0.100"), (-0.001, 0.02, None, "−0.001…0.020"),
    ],
)  # fmt: skip
def test_limits_have_the_digits_that_the_verdict_needs(low, high, margin, text):
    result = DifferenceInterval(
        before=0.5, after=0.5, difference=0.0, low=low, high=high, level=0.95, method="t", cases=9,
        verdict=interval_verdict(low, high, margin), margin=margin,
    )  # fmt: skip
    assert f"95% {text}, 9 cases" in verdict_line(result)


def test_trials_of_a_case_are_averaged():
    before = [result_line(f"c{at}", passed) for at in range(30) for passed in (True, False)]
    after = [result_line(f"c{at}", True) for at in range(30)]
    result = compared(before, after).result
    assert (result.before, result.after, result.cases) == (0.5, 1.0, 30)
    assert result.method != "tango"


def test_unmeasured_cases_are_bounded_and_can_take_a_verdict_away():
    before = passes([False] * 12 + [True] * 18)
    after = passes([True] * 30)
    assert compared(before, after).verdict == "improved"
    lost = [result_line(f"c{at}", check_result(None, error="down")) for at in range(12)] + after[12:]
    pair = compared(before, lost)
    assert (pair.verdict, pair.unmeasured.count, pair.result.cases) == ("not enough data", 12, 18)
    assert pair.result.measured_verdict is None
    down = [result_line(f"c{at}", check_result(None, error="down")) for at in range(22, 30)]
    some = compared(before, after[:22] + down)
    assert (some.verdict, some.result.measured_verdict) == ("not enough data", "improved")
    assert any("and its interval between −1" in line for line in about_cases(some))
    assert pair.unmeasured.ids == tuple(f"c{at}" for at in range(12))
    assert (pair.result.unmeasured.worst, pair.result.unmeasured.best) == (0, pytest.approx(0.4))
    one = [result_line("c29", check_result(None, error="down"))]
    assert compared(before, after[:-1] + one).verdict == "improved"


def test_a_case_without_a_value_in_one_run_is_unmeasured_there():
    before, after = passes([True] * 20), [*passes([True] * 19), result_line("c19")]
    pair = compared(before, after)
    assert (pair.unmeasured.ids, pair.only_in_baseline.count, pair.result.cases) == (("c19",), 0, 19)
    assert pair.result.unmeasured.worst == pytest.approx(-1 / 20)
    assert compared(after, after).unmeasured.count == 0


def test_so_few_cases_that_no_interval_excludes_0_have_no_smallest_effect():
    for number in (5, 6):
        pair = compared(passes([False] * number), passes([True] * number))
        assert (pair.smallest_effect is None, pair.verdict == "improved") == (number == 5, number == 6)


def test_a_case_with_one_unmeasured_trial_is_unmeasured():
    before = passes([True] * 20)
    after = [*before, result_line("c3", check_result(None, error="down"))]
    pair = compared(before, after)
    assert (pair.unmeasured.ids, pair.result.cases) == (("c3",), 19)
    assert pair.result.unmeasured.worst == pytest.approx(-0.5 / 20)


def test_other_cases_checks_and_inputs_are_named():
    before = [*passes([True] * 20), result_line("old", True)]
    after = [*passes([True] * 19), result_line("c19", check_result(True, name="tone"), input="!"),
             result_line("new", True)]  # fmt: skip
    pair = compared(before, after)
    assert (pair.only_in_baseline.ids, pair.only_in_run.ids) == (("old",), ("new",))
    assert (pair.other_inputs.ids, pair.result.cases) == (("c19",), 20)
    assert pair.notes == ("the runs have different checks; only in b: tone",)


def test_the_check_of_an_agent_without_an_answer_is_no_check_of_a_run():
    """A run in which it stands, beside one in which every agent answered, has the same checks."""
    silent = result_line("c0", check_result(False, name=AGENT_ANSWERED))
    pair = compared(passes([True] * 20), [silent, *passes([True] * 20)[1:]])
    assert (pair.notes, pair.worse) == ((), 1)


def test_slices_have_intervals_that_are_adjusted_together():
    tags = [["x"], ["y"], ["x", "y"], []]
    before = [result_line(f"c{at}", False, tags=tags[at % 4]) for at in range(80)]
    after = [result_line(f"c{at}", at % 4 == 0, tags=tags[at % 4]) for at in range(80)]
    pair = compared(before, after, by=("tag",))
    found = {one.slice: (one.result.cases, one.result.verdict) for one in pair.slices}
    assert found == {
        "x": (40, "improved"),
        "y": (40, "not enough data"),
        "(none)": (20, "not enough data"),
    }
    assert {one.slice: round(one.result.level, 4) for one in pair.slices} == {
        "x": 0.9833,
        "y": 0.975,
        "(none)": 0.975,
    }


@pytest.mark.parametrize(("metric", "order"), [("passed", "zac"), ("latency_ms", "caz")])
def test_the_worst_slice_is_the_first(metric, order):
    passed = {"a": 5, "c": 9, "z": 1}
    lines = [
        [
            result_line(f"{name}{at}", at < after, tags=[name], output={"latency_ms": after})
            for name, after in passes.items()
            for at in range(10)
        ]
        for passes in (dict.fromkeys(passed, 5), passed)
    ]
    assert "".join(one.slice for one in compared(*lines, metric=metric, by=("tag",)).slices) == order


def test_checks_and_criteria_are_slices_of_their_own():
    def line(at, *, met, passed):
        judged = check_result(None, type="llm_judge", response={"criterion_1": {"met": met, "reason": "r"}})
        return result_line(f"c{at}", passed, judged, expected=[{"criterion": "is kind", "weight": 2}])

    before = [line(at, met=False, passed=True) for at in range(20)]
    after = [line(at, met=True, passed=True) for at in range(20)]
    pair = compared(before, after, by=("check", "criterion"))
    found = {(one.by, one.slice): one.result.verdict for one in pair.slices}
    assert found == {
        ("check", "contains"): "not enough data",
        ("check", "llm_judge"): "improved",
        ("criterion", "is kind"): "improved",
    }


METRICS = [
    ("passed", 0.0, 1.0),
    ("score", 0.45, 0.95),
    ("judge", 0.4, 0.9),
    ("llm_judge", 0.4, 0.9),
    ("judge:words", 3, 5),
    ("latency_ms", 10, 20),
]


@pytest.mark.parametrize(("metric", "before", "after"), METRICS)
def test_a_metric_reads_its_value_from_the_results(metric, before, after):
    def lines(passed, score, words, latency):
        judged = check_result(None, type="llm_judge", name="judge", response={"score": score, "words": words})
        other = check_result(passed, score=score + 0.1)
        return [result_line(f"c{at}", judged, other, output={"latency_ms": latency}) for at in range(20)]

    result = compared(lines(False, 0.4, 3, 10), lines(True, 0.9, 5, 20), metric).result
    assert (result.before, result.after) == (pytest.approx(before), pytest.approx(after))


def test_a_lower_latency_is_better():
    slow = [result_line(f"c{at}", True, output={"latency_ms": 200 + at % 7}) for at in range(30)]
    fast = [result_line(f"c{at}", True, output={"latency_ms": 100 + at % 5}) for at in range(30)]
    assert compared(slow, fast, "latency_ms").verdict == "improved"
    assert compared(fast, slow, "latency_ms").changes[0].better is False


def _latencies(number, factor):
    return [result_line(f"c{at}", True, output={"latency_ms": factor * (100 + at)}) for at in range(number)]


@pytest.mark.parametrize(("quantile", "before"), [("median", 129.5), ("p95", 156.0)])
def test_a_median_and_a_percentile_are_compared_by_a_bootstrap(quantile, before):
    pair = compared(_latencies(60, 1), _latencies(60, 2), f"latency_ms:{quantile}", margin=5)
    result = pair.result
    assert (result.before, result.after, result.method) == (before, 2 * before, "bca")
    assert (pair.verdict, pair.smallest_effect, result.equivalence_p) == ("regressed", None, None)
    assert result.low is not None
    assert result.high is not None
    assert 0 < result.low < before < result.high
    unmeasured = [*_latencies(59, 2), result_line("c59", True)]
    assert compared(_latencies(60, 1), unmeasured, f"latency_ms:{quantile}").verdict == "not enough data"


@pytest.mark.parametrize(
    ("number", "metric", "by", "message"),
    [
        (29, "latency_ms:p95", (), "expected 30 to 5000 cases for a bootstrap interval, got 29; .*: metric='latency_ms'$"),
        (30, "latency_ms:p95", ("tag",), "expected no by=: slices are compared by means"),
        (30, "cost_usd:p95", (), "no output of these runs has the number cost_usd in its metadata"),
        (1, "latency_ms:p99", (), "expected latency_ms, latency_ms:median or latency_ms:p95, got 'latency_ms:p99'"),
    ],
)  # fmt: skip
def test_a_quantile_of_too_few_cases_or_another_metric_is_refused(number, metric, by, message):
    lines = _latencies(number, 1)
    with pytest.raises((InvalidRequest, UsageError), match=message):
        compared(lines, lines, metric, by)


def test_a_quantile_compares_two_runs():
    runs = [scores(name, _latencies(30, 1), "latency_ms:p95") for name in "abc"]
    with pytest.raises(InvalidRequest, match="latency_ms:p95': expected two runs, got 3"):
        compare_runs(runs)


def test_equivalent_needs_a_margin_and_several_runs_are_adjusted():
    lines = passes([True] * 400)
    assert compared(lines, lines).verdict == "not enough data"
    assert compared(lines, lines, margin=0.05).verdict == "equivalent"
    runs = [scores(name, lines) for name in "abc"]
    levels = [round(one.result.level, 3) for one in compare_runs(runs).comparisons]
    assert levels == [0.975, 0.975]


REFUSED = [
    ([], [True], None, "a has no results"),
    ([], [], None, "a has no results"),
    (
        [result_line("x", True)],
        [result_line("y", check_result(None))],
        "contains",
        "no case of b has the metric",
    ),
    (
        [result_line("x", True)],
        [result_line("x", True)],
        "tone",
        "no check is called 'tone'; the checks are contains",
    ),
    ([result_line("x", True)], [result_line("x", True)], "cost_usd", "has the number cost_usd"),
    (
        [result_line("x", check_result(None))],
        [result_line("x", check_result(None))],
        None,
        "no check of these runs",
    ),
    ([result_line("", True)], [], None, "a:1: expected test_case.id"),
    ([{"test_case": {"id": "x"}}], [], None, "a:1: expected a result with execution_context"),
]


@pytest.mark.parametrize(("before", "after", "metric", "message"), REFUSED)
def test_a_wrong_comparison_of_runs_is_refused_with_its_reason(before, after, metric, message):
    after = [result_line("x", True)] if after == [True] else after
    with pytest.raises(InvalidRequest, match=message):
        compared(before, after, metric)


def test_a_metric_is_a_name():
    with pytest.raises(UsageError, match="expected passed, score"):
        read_metric("")


def test_memory_is_a_few_bytes_for_a_case():
    random.seed(1)
    run = scores("a", [result_line(f"case-{at}", True, input="x" * 2000) for at in range(200)])
    held = sum(len(one) * one.itemsize for one in (run.hashes, run.inputs, run.trials))
    assert held + len(run._ids) + 12 * 2 * run.rows < 80 * run.rows
