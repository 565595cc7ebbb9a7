"""Lists of cases and charts of a comparison: the same cases and counts as the comparison itself, in a bounded size."""

import builtins
import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.comparison import pairing
from assay.comparison.compare import compare_runs
from assay.comparison.pairing import PairedRuns
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.views import case_lists
from assay.comparison.views.case_lists import BARS, GRID, MAX_POINTS, CaseLists
from assay.comparison.views.page_view import comparison_view
from assay.comparison.wording import verdict_line
from assay.concurrency import loop_budget
from assay.concurrency import threads as threads_module
from assay.concurrency.threads import Threads
from assay.concurrency.workers import batch
from assay.errors import InvalidRequest
from support.waiting import PATIENCE
from test_compare_runs import passes, scores

NUMBERS = st.one_of(st.none(), st.floats(-3, 3, width=32))
CASES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), NUMBERS, st.sampled_from(["", "x", "y"])), min_size=1, max_size=12
)


def run(name, cases):
    """A run whose cases have these scores. None: it was not measured."""
    found = RunScores(name, ReadOptions(), is_eval=True)
    for id, score, _ in cases:
        found.add_score(id, score, None)
    return found


@settings(max_examples=60)
@given(CASES, CASES)
def test_the_lists_are_those_of_the_comparison(before, after):
    runs = [run("a", before), run("b", after)]
    try:
        (pair,) = compare_runs(runs, limit=100).comparisons
    except InvalidRequest:
        return
    lists = CaseLists(PairedRuns(runs), 1)
    worse, better = ([one.id for one in pair.changes if one.better is gain] for gain in (False, True))
    expected = {"worse": worse, "better": better, "changed": worse + better}
    expected |= {
        name: list(getattr(pair, name).ids) for name in ("unmeasured", "only_in_baseline", "only_in_run")
    }
    for change, ids in expected.items():
        found = [lists.case(number) for number in lists.numbers(change, 0, 100)]
        assert [one.id for one in found] == ids
        assert all(one.change == change for one in found) or change == "changed"
    assert lists.count("unchanged") == pair.unchanged
    unchanged = [lists.case(number) for number in lists.numbers("unchanged", 0, 100)]
    for change, value in case_lists.IN_BOTH.items():
        found = [lists.case(number) for number in lists.numbers(change, 0, 100)]
        assert found == [one for one in unchanged if one.before == one.after == value]
    charts = lists.charts()
    if pair.unpaired:
        assert (charts.points, charts.bars, pair.changes) == ((), (), ())
        return
    assert sum(point.cases for point in charts.points) == pair.result.cases
    assert sum(bar.cases for bar in charts.bars) == pair.result.cases
    assert sum(bar.cases for bar in charts.bars if bar.low == bar.high == 0) == pair.unchanged


@settings(max_examples=40)
@given(CASES, CASES, st.integers(1, 4))
def test_the_size_of_the_parts_changes_nothing(before, after, size):
    runs = [run("a", before), run("b", after)]

    def found():
        paired = PairedRuns(runs)
        lists = CaseLists(paired, 1)
        return comparison_view(paired, None), [list(lists.numbers(one, 0, 99)) for one in case_lists.FILTERS]

    try:
        whole = found()
    except InvalidRequest:
        return
    with pytest.MonkeyPatch.context() as patched:
        for module in (case_lists, pairing, loop_budget):
            patched.setattr(module, "PART", size)
        assert found() == whole


def test_a_large_comparison_takes_turns_and_sorts_in_parts(monkeypatch):
    """There is one thread. A's comparison began first, and B's call ends before it."""
    monkeypatch.setattr(threads_module, "TURN", 0.0)
    sorts, dice = [], random.Random(1)

    def spied(values, **options):
        sorts.append(len(values := list(values)))
        return builtins.sorted(values, **options)

    for module in (case_lists, pairing):
        monkeypatch.setattr(module, "sorted", spied, raising=False)
    cases = [[(f"c{at}", dice.random(), "") for at in range(20_000)] for _ in range(2)]
    runs = [run(name, some) for name, some in zip("ab", cases, strict=True)]
    waits, started, other = threading.Event(), threading.Event(), threading.Event()

    def compare(work):
        started.set()
        assert waits.wait(PATIENCE)
        return work(), other.is_set()

    made: list[Any] = []
    for work in (
        lambda: PairedRuns(runs),
        lambda: comparison_view(made[0], 0.01),
        lambda: CaseLists(made[0], 1).count("changed"),
    ):
        threads = Threads(1, 1)
        with batch.owner_scope("A"):
            call = threads.future(lambda work=work: compare(work))[1]
        assert started.wait(PATIENCE)
        with batch.owner_scope("B"):
            threads.future(other.set)
        waits.set()
        result, took_turns = call.result(PATIENCE)
        assert took_turns
        made.append(result)
        for event in (waits, started, other):
            event.clear()
    assert made[2] == 20_000
    assert max(sorts) <= 4 * loop_budget.PART


def test_a_page_starts_anywhere_and_the_rows_of_every_trial_are_found():
    trials = [passes([True, True, False]) + passes([True, False, False]), passes([False, True, True])]
    lists = CaseLists(PairedRuns([scores("a", trials[0]), scores("b", trials[1])]), 1)
    (second,) = lists.numbers("changed", 1, 1)
    assert lists.case(second).id == "c2"
    assert lists.rows([second], baseline=True) == [2, 5]
    assert lists.rows([second], baseline=False) == [2]
    assert lists.positions([second], 1, baseline=False) == [2]
    assert list(lists.numbers("changed", 3, 5)) == []


def test_a_case_is_found_by_its_position():
    repeated = [line for line in passes([True, False]) for _ in range(3)]
    lists = CaseLists(PairedRuns([scores("a", repeated), scores("b", passes([False, False, True]))]), 1)
    numbers = [*lists.numbers("changed", 0, 9), *lists.numbers("only_in_run", 0, 9)]
    assert lists.positions(numbers, 3, baseline=True) == [0, None]
    assert lists.positions(numbers, 1, baseline=False) == [0, 2]
    tasks = [run("a", [("x", 1, ""), ("y", 0, "")]), run("b", [("y", 1, ""), ("x", 1, "")])]
    for line in passes([True]):  # the lines of an agent eval come before its tasks
        evidence = scores("a", [line])
        assert evidence.tasks == 1
    lists = CaseLists(PairedRuns(tasks), 1)
    (changed,) = lists.numbers("changed", 0, 9)
    assert [lists.positions([changed], 1, baseline=side) for side in (True, False)] == [[1], [0]]


def test_a_slice_has_its_cases_and_a_check_its_scores():
    lines: list[Any] = passes([True, False, True, False])
    for at, line in enumerate(lines):
        line["execution_context"]["test_case"]["metadata"] = {"tags": ["even" if at % 2 == 0 else "odd"]}
    runs = [scores("a", lines, by=("tag", "check")), scores("b", passes([False] * 4), by=("tag", "check"))]
    paired = PairedRuns(runs)
    assert [CaseLists(paired, 1, "tag", name).count("worse") for name in ("even", "odd", "none")] == [2, 0, 0]
    name = next(iter(runs[0].checks))
    assert CaseLists(paired, 1, "check", name).count("worse") == 2
    with pytest.raises(InvalidRequest, match="slice_by"):
        CaseLists(paired, 1, "language", "de")


def test_what_passes_in_both_and_what_fails_in_both_are_lists_of_their_own():
    pair = [scores("a", passes([True, True, False, False])), scores("b", passes([True, False, True, False]))]
    lists = CaseLists(PairedRuns(pair), 1)
    found = {
        change: [lists.case(number).id for number in lists.numbers(change, 0, 9)]
        for change in ("unchanged", "passed_in_both", "failed_in_both")
    }
    assert found == {"unchanged": ["c0", "c3"], "passed_in_both": ["c0"], "failed_in_both": ["c3"]}


def test_charts_of_many_values_are_bounded_and_the_words_are_those_of_the_command():
    runs = [run("a", [(f"c{at}", at / 5000, "") for at in range(5000)])]
    runs += [run("b", [(f"c{at}", (at * 7919 % 5000) / 5000, "") for at in range(5000)])]
    view = comparison_view(PairedRuns(runs), None)
    charts = view.pairs[0].charts
    assert charts.grid
    assert MAX_POINTS / 4 < len(charts.points) <= GRID * GRID
    assert len(charts.bars) <= 2 * BARS + 1
    assert view.pairs[0].headline == verdict_line(compare_runs(runs).comparisons[0].result)
    assert view.comparison.comparisons[0].changes == ()
