"""Limits of a mean that hold at every look (ADR-0239), and runs that stop by them (`python -m bench.stopping`)."""

import random
from itertools import pairwise
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.stats import sequential
from assay.stats.sequential import CELLS, ConfidenceSequence, log_capital, round_size
from support.lazy_module import lazy_module

stopping = lazy_module("bench.stopping")
VALUES = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1 / 3, 1.0]), min_size=1, max_size=80)


def limits_of(values, low=-1.0, high=1.0, every=None):
    sequence, found = ConfidenceSequence(low, high), []
    for at, value in enumerate(values, 1):
        sequence.add(value)
        if every and at % every == 0:
            found.append(sequence.look(found[-1] if found else None))
    return [*found, sequence.look(found[-1] if found else None)]


@given(VALUES)
def test_limits_stay_in_the_range_and_never_get_wider(values):
    looks = limits_of(values, every=7)
    for before, after in pairwise(looks):
        assert before.low <= after.low <= after.high <= before.high
    assert -1 <= looks[-1].low <= looks[-1].high <= 1
    assert looks[-1].n == len(values)


@given(VALUES, st.randoms(use_true_random=False))
def test_one_look_does_not_depend_on_the_order(values, dice):
    shuffled = dice.sample(values, len(values))
    one, other = limits_of(values)[0], limits_of(shuffled)[0]
    assert (one.low, one.high) == (other.low, other.high)
    assert one.low <= one.estimate <= one.high


@given(VALUES)
def test_limits_of_mirrored_values_are_mirrored(values):
    one, other = limits_of(values)[0], limits_of([-value for value in values])[0]
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)


@given(VALUES)
def test_the_lower_limit_is_where_the_capital_reaches_forty(values):
    np = pytest.importorskip("numpy")
    low = (limits_of(values)[0].low + 1) / 2
    scaled = np.array([(value + 1) / 2 for value in values])
    if low > 1e-6:
        assert log_capital(scaled, np.ones(len(values)), low) == pytest.approx(log(40), abs=1e-4)
    assert log_capital(scaled, np.ones(len(values)), min(1.0, low + 1e-3)) < log(40)


def test_many_distinct_values_are_kept_in_cells_that_make_the_interval_wider(monkeypatch):
    dice = random.Random(43)
    values = [dice.betavariate(8, 2) for _ in range(3 * CELLS)]
    cells = limits_of(values, 0, 1)[0]
    monkeypatch.setattr(sequential, "CELLS", 10 * len(values))
    exact = limits_of(values, 0, 1)[0]
    assert cells.estimate == exact.estimate
    assert (
        exact.low - 2 / CELLS <= cells.low <= exact.low < exact.high <= cells.high <= exact.high + 2 / CELLS
    )


def test_limits_that_cross_meet():
    looks = limits_of([-1.0] * 60 + [1.0] * 600, every=60)
    assert looks[-1].low == looks[-1].high == looks[0].high


@pytest.mark.parametrize("value", [1.1, -0.1, float("nan"), float("inf")])
def test_a_value_outside_the_range_is_refused(value):
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        ConfidenceSequence(0, 1).add(value)


@pytest.mark.parametrize("limits", [(1, 1), (1, 0), (0, float("inf")), (float("nan"), 1)])
def test_a_range_without_two_ends_is_refused(limits):
    with pytest.raises(ValueError, match="in ascending order"):
        ConfidenceSequence(*limits)


@pytest.mark.parametrize(("cases", "size"), [(1, 10), (499, 10), (501, 11), (1_000, 20), (10**6, 20_000)])
def test_a_run_has_at_most_fifty_rounds_of_at_least_ten_cases(cases, size):
    assert round_size(cases) == size


# docs/statistics.md


def documented(columns):
    text = stopping.PAGE.read_text("utf-8").partition(stopping.BEGIN)[2].partition(stopping.END)[0]
    rows = [[one.strip() for one in line.strip("|").split("|")] for line in text.splitlines() if line]
    return [row for row in rows if len(row) == columns and not row[1].startswith("-")][1:]


def test_the_documented_tables_are_those_of_the_simulation(series):
    """In `make soak` every number is compared."""
    simulated = series(None, stopping.table)
    if simulated is not None:
        text = stopping.PAGE.read_text("utf-8").partition(stopping.BEGIN)[2].partition(stopping.END)[0]
        assert text.strip().splitlines() == list(simulated())
    assert [row[0] for row in documented(3)] == [kind.name for kind in stopping.UNCHANGED]


def test_false_decisions_are_at_most_one_in_twenty():
    rows = documented(3)
    assert rows
    assert all(float(one) <= 0.05 for row in rows for one in row[1:])


def test_an_effect_of_ten_points_is_decided_with_few_cases():
    rows = [row for row in documented(8) if row[0] == "10"]
    assert rows
    for _, _, decided, _, _, cases, fixed, _ in rows:
        assert float(decided) >= 0.95
        assert int(cases) <= 0.4 * stopping.CASES[-1]
        assert int(cases) <= 1.2 * int(fixed)


@pytest.mark.parametrize("at", [1, 4, 8])
def test_some_cells_with_fewer_rounds(at):
    rounds = 400
    found = stopping.simulate(stopping.UNCHANGED[at], 1_000, rounds)
    assert found.up + found.down <= 0.05 + 3 * sqrt(0.05 * 0.95 / rounds)


def test_the_simulation_decides_as_the_sequence_does():
    """The same cases one by one: it stops in the same round, on the same side."""
    np = pytest.importorskip("numpy")
    kind, dice = stopping.pass_or_fail(0.3, 0.15), np.random.default_rng(7)
    for _ in range(20):
        values = dice.choice(kind.values, 300, p=kind.chances)
        sequence, first = ConfidenceSequence(-1, 1), None
        drawn = np.array(
            [[(values[: at + 10] == one).sum() for one in kind.values] for at in range(0, 300, 10)]
        )
        above = stopping._refuted(kind, drawn[None].astype(float), 0.0, above=True)[0]
        for at in range(0, 300, 10):
            for value in values[at : at + 10]:
                sequence.add(float(value))
            if sequence.look().low > 0 and first is None:
                first = at // 10
        assert first == (int(above.argmax()) if above.any() else None)
