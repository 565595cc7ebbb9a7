"""Rules by which a run stops after a round (ADR-0239)."""

from math import nan

import pytest

from assay.comparison.metric import PASSED, SCORE
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.stopping import BarRule, DifferenceRule
from assay.errors import InvalidRequest


def run_of(values, name="run"):
    """`values`: of each case a number, or the numbers of its trials. None: not measured."""
    run = RunScores(name, ReadOptions(metric=PASSED))
    for at, value in enumerate(values):
        for one in value if isinstance(value, list) else [value]:
            run.add_score(f"c{at}", None, None if one is None else one == 1)
    return run


def scores_of(name, *scores):
    run = RunScores(name, ReadOptions(metric=SCORE), is_eval=True)
    for at, score in enumerate(scores):
        run.add_score(f"c{at}", score, None)
    return run


@pytest.mark.parametrize(
    ("before", "after", "margin", "decision"),
    [
        pytest.param([0.0] * 30, [1.0] * 30, None, "improved", id="all better"),
        pytest.param([1.0] * 30, [0.0] * 30, None, "regressed", id="all worse"),
        pytest.param([1.0] * 4, [0.0] * 4, None, None, id="four changes"),
        pytest.param([0.0, 1.0] * 400, [0.0, 1.0] * 400, 0.05, "equivalent", id="no change, with a margin"),
        pytest.param([0.0, 1.0] * 400, [0.0, 1.0] * 400, None, None, id="no change, without a margin"),
        pytest.param([0.0] * 30, [[1.0, 1.0, 0.0]] * 30, None, "improved", id="trials count once"),
        pytest.param([0.0] * 10, [[1.0] * 100] * 3, None, None, id="three cases with many trials"),
    ],
)
def test_the_difference_to_a_baseline_decides(before, after, margin, decision):
    look = DifferenceRule(run_of(before, "before"), margin).look(run_of(after))
    assert look.decision == decision
    assert look.low <= look.estimate <= look.high
    assert look.cases == len(after)
    assert look.metric == "passed"


@pytest.mark.parametrize(
    ("values", "bar", "decision"),
    [
        ([1.0] * 60, 0.8, "above the bar"),
        ([0.0] * 10, 0.8, "below the bar"),
        ([1.0] * 10, 0.8, None),
        ([1.0, 1.0, 1.0, 1.0, 0.0] * 40, 0.8, None),
    ],
)
def test_a_rate_is_above_its_bar_or_below_it(values, bar, decision):
    look = BarRule(bar).look(run_of(values))
    assert look.decision == decision
    assert (look.cases, look.unmeasured) == (len(values), 0)


def test_unmeasured_cases_that_could_turn_a_decision_keep_a_run_going():
    measured = [1.0] * 60
    assert BarRule(0.8).look(run_of(measured)).decision == "above the bar"
    look = BarRule(0.8).look(run_of([*measured, *[None] * 20]))
    assert (look.decision, look.cases, look.unmeasured) == (None, 60, 20)
    before = run_of([0.0] * 30 + [1.0] * 30, "before")
    assert DifferenceRule(before).look(run_of([1.0] * 60)).decision == "improved"
    assert DifferenceRule(before).look(run_of([1.0] * 30 + [None] * 30)).decision is None


def test_limits_hold_from_look_to_look():
    rule, values = BarRule(0.5), [1.0] * 20
    first = rule.look(run_of(values))
    later = rule.look(run_of(values + [0.0] * 20))
    assert later.low == first.low
    assert later.high <= first.high


def test_nothing_measured_decides_nothing():
    look = BarRule(0.5).look(run_of([None, None]))
    assert (look.estimate, look.low, look.high, look.decision, look.unmeasured) == (None, 0.0, 1.0, None, 2)


def test_numbers_without_a_known_range_are_refused():
    with pytest.raises(InvalidRequest, match="numbers from 0 to 1 alone"):
        DifferenceRule(scores_of("before", 3.5)).look(scores_of("after", 1.0))


@pytest.mark.parametrize("margin", [0.0, 1.0, -0.1, nan])
def test_a_margin_outside_its_range_is_refused(margin):
    with pytest.raises(InvalidRequest, match="between 0 and 1"):
        DifferenceRule(run_of([1.0], "before"), margin)
