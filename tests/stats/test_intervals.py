"""Intervals of one run (FEP-52): laws for any values, and the same digits in any order and division into parts."""

import random
import tracemalloc
from math import sqrt
from statistics import NormalDist, fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.stats import gaffke
from assay.stats.gaffke import count_values, mean_limits
from assay.stats.intervals import UNIT, counted_rate, mean_of, pass_all_k, pass_at_k, wilson
from support.lazy_module import lazy_module
from support.stats import gaffke_reference

coverage = lazy_module("bench.coverage")
special = lazy_module("scipy.special")
proportion = lazy_module("statsmodels.stats.proportion")

shares = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    st.floats(0, 1),
    st.floats(0, 1e-9),
    st.floats(1 - 1e-9, 1),
)
some_shares = st.lists(shares, min_size=1, max_size=40)
ranges = st.sampled_from([(0.0, 1.0), (1.0, 5.0), (-1.0, 1.0), (0.0, 100.0), (-1e9, 1e-9)])


@settings(deadline=None)
@given(values=some_shares, limits=ranges, answers=st.integers(1, 3))
def test_an_interval_has_a_width_and_stays_in_its_range(values, limits, answers):
    low, high = limits
    values = [min(high, max(low, low + value * (high - low))) for value in values]
    found = mean_of(values, answers * len(values), limits)
    assert low <= found.low <= found.mean <= found.high <= high
    assert found.low < found.high
    assert found.method in ("wilson", "gaffke")


@settings(deadline=None)
@given(values=some_shares, seed=st.integers(0, 99), answers=st.integers(1, 3))
def test_the_order_of_the_cases_changes_no_digit(values, seed, answers):
    other = list(values)
    random.Random(seed).shuffle(other)
    assert mean_of(other, answers * len(values), UNIT) == mean_of(values, answers * len(values), UNIT)


@settings(deadline=None, max_examples=25)
@given(values=st.lists(shares, min_size=2, max_size=20))
def test_an_interval_is_that_of_the_exact_recursion(values):
    assert mean_limits(count_values(values)) == pytest.approx(gaffke_reference.limits(values), abs=1e-5)


@pytest.mark.parametrize("cases", [1, 2, 5, 15, 30, 100, 1_000, 1_000_000])
def test_the_interval_of_zeros_and_ones_is_that_of_clopper_and_pearson(cases):
    for passed in sorted({0, 1, 2, cases // 3, cases // 2, cases - 1, cases} & set(range(cases + 1))):
        counts = {value: many for value, many in ((0.0, cases - passed), (1.0, passed)) if many}
        low = special.betaincinv(passed, cases - passed + 1, 0.025) if passed else 0.0
        high = special.betaincinv(passed + 1, cases - passed, 0.975) if passed < cases else 1.0
        assert mean_limits(counts) == pytest.approx((low, high), abs=2e-6, rel=2e-3)


@pytest.mark.parametrize("cases", [1, 2, 3, 9, 10, 14, 17, 18, 50, 500])
def test_a_plain_rate_is_wilsons_of_statsmodels_but_for_one_of_ten_to_seventeen(cases):
    for passed in range(cases + 1):
        low, high = proportion.proportion_confint(passed, cases, method="wilson")
        corrected = 10 <= cases <= 17
        if corrected and passed == 1:
            assert wilson(passed / cases, cases)[0] < low
            low = wilson(passed / cases, cases)[0]
        if corrected and passed == cases - 1:
            assert wilson(passed / cases, cases)[1] > high
            high = wilson(passed / cases, cases)[1]
        assert wilson(passed / cases, cases) == pytest.approx((low, high), abs=1e-12)


def test_the_constants_of_the_normal_distribution():
    assert NormalDist().inv_cdf(1 - gaffke.TAIL) == gaffke.Z
    assert NormalDist().pdf(gaffke.Z) == pytest.approx(gaffke.DENSITY)


def test_many_distinct_values_need_little_memory_and_lose_little():
    dice = random.Random(2)
    values = [dice.betavariate(8, 2) for _ in range(40_000)]
    tracemalloc.start()
    try:
        counts = count_values(iter(values))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(counts) <= gaffke.MAX_DISTINCT + 1
    assert peak < 4_000_000
    assert sum(counts.values()) == pytest.approx(len(values), abs=1e-9)
    assert sum(value * many for value, many in counts.items()) == pytest.approx(sum(values), abs=1e-3)
    dice.shuffle(values)
    assert count_values(values) == counts


def test_limits_of_cells_are_those_of_the_values():
    """600 distinct values, in cells and as they are."""
    dice = random.Random(3)
    values = [dice.random() ** 3 for _ in range(600)]
    exact = mean_limits(dict.fromkeys(values, 1))
    rough = mean_limits(count_values(values))
    assert rough == pytest.approx(exact, abs=1e-5)
    assert rough[0] <= exact[0] + 1e-7
    assert rough[1] >= exact[1] - 1e-7


def test_the_rate_of_unequal_cases_is_the_mean_over_cases():
    """One case was asked a hundred times and always passed; nine were asked once and failed."""
    found = counted_rate({(100, 100): 1, (0, 1): 9})
    assert (found.rate, found.of, found.cases, found.method) == (0.1, 109, 10, "gaffke")
    assert found.high < 0.5


@pytest.mark.parametrize("estimate", [pass_all_k, pass_at_k])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_a_repeat_rate_has_a_width_even_if_all_cases_are_alike(estimate, k):
    for passed in (0, 8):
        found = estimate({(passed, 8): 5}, k)
        assert found.rate == passed / 8
        assert found.low < found.high
        assert 0 <= found.low <= found.rate <= found.high <= 1


@pytest.mark.parametrize(
    ("values", "limits", "low", "high", "method"),
    [
        ([1.0, 1.0, 1.0], UNIT, 0.4385, 1.0, "wilson"),  # was 1 to 1
        ([0.98, 0.93, 0.68], UNIT, 0.2493, 0.9776, "gaffke"),  # was 0.47 to 1.25
        ([5.0, 5.0, 5.0], (1.0, 5.0), 1 + 4 * 0.025 ** (1 / 3), 5.0, "gaffke"),
        ([5.0, 5.0, 5.0], None, None, None, "too-few"),
        ([5.0] * 40, None, None, None, "none"),
        ([2.0, 1.0], UNIT, None, None, "too-few"),  # one is not in the range, so that the range is not known
    ],
)
def test_the_interval_of_few_numbers(values, limits, low, high, method):
    found = mean_of(values, len(values), limits)
    assert found.mean == pytest.approx(fmean(values))
    assert found.method == method
    assert (found.low, found.high) == ((low, high) if low is None else pytest.approx((low, high), abs=1e-3))


# coverage by simulation (`python -m bench.coverage`)


def documented_rows():
    """(value of a case, cases, coverage for each rate) of the tables in docs/statistics.md. None: too few cases."""
    text = (coverage.PAGE).read_text("utf-8").partition(coverage.BEGIN)[2].partition(coverage.END)[0]
    cells = [[one.strip() for one in line.strip("|").split("|")] for line in text.splitlines() if line]
    return [
        (name, size, [None if one == "too few" else float(one) for one in shares.split(" · ")])
        for name, size, shares in cells
        if size.replace(",", "").isdigit()
    ]


def test_the_documented_coverage_is_that_of_the_simulation_and_reaches_its_bars(series):
    """In `make soak` every number is compared, in `make test` the rows."""
    simulated, rows = series(None, coverage.table), documented_rows()
    if simulated is not None:
        text = coverage.PAGE.read_text("utf-8").partition(coverage.BEGIN)[2].partition(coverage.END)[0]
        assert text.strip().splitlines() == list(simulated())
    names = [kind.name for kind in coverage.KINDS for _ in coverage.SIZES]
    names += [coverage.label_name(errors) for errors in coverage.ERRORS for _ in coverage.LABELS]
    sizes = [f"{size:,}" for _ in coverage.KINDS for size in coverage.SIZES]
    sizes += [f"{size}" for _ in coverage.ERRORS for size in coverage.LABELS]
    assert [row[:2] for row in rows] == list(zip(names, sizes, strict=True))
    for name, size, shares in rows:
        if shares == [None]:  # costs of few cases
            continue
        assert min(shares) >= coverage.LEAST, (name, size)
        assert len(shares) == 1 or fmean(shares) >= coverage.LEAST_MEAN, (name, size)


@pytest.mark.parametrize("size", [5, 15, 30])
def test_the_coverage_of_one_run(size):
    """Some cells with fewer rounds: the bars less three standard errors. `make soak` has all cells and rounds."""
    rounds = 200
    for kind in coverage.KINDS:
        for rate in {kind.rates[-1], kind.rates[len(kind.rates) // 2]}:
            share = coverage.coverage(kind, size, rate, rounds)
            if share is None:
                assert kind.free
                assert size < 30
            else:
                assert share >= coverage.LEAST - 3 * sqrt(0.1 * 0.9 / rounds), (kind.name, rate)


@pytest.mark.parametrize("size", [5, 40])
def test_the_approximation_of_the_simulation_is_that_of_the_interval(size):
    """Away from 2.5%, it says on which side of a limit the truth is."""
    dice = random.Random(5)
    for _ in range(20):
        values = [dice.choice([0.0, 0.5, 0.9, 1.0, dice.random()]) for _ in range(size)]
        low, high = mean_limits(count_values(values))
        for truth in (low * 0.97, low + (1 - low) * 0.03, high * 0.97, high + (1 - high) * 0.03):
            row = coverage.np.array([values])
            tails = coverage.lower_tail(row, truth)[0], coverage.lower_tail(1 - row, 1 - truth)[0]
            if abs(min(tails) / gaffke.TAIL - 1) > coverage.CLOSE:
                assert (min(tails) >= gaffke.TAIL) == (low <= truth <= high)


def test_corrected_intervals_hold_the_truth():
    """30 labels, and a judge that passes what people fail."""
    shares = [coverage.label_coverage(30, rate, coverage.ERRORS[2], rounds=40) for rate in (0.5, 0.9)]
    assert min(shares) >= coverage.LEAST - 3 * sqrt(0.1 * 0.9 / 40)
