"""Two runs over different cases: the test, the interval that agrees with it, and what few cases can show."""

# A test knows which limits are set; scipy has no types.
# pyright: reportCallIssue=false, reportMissingTypeStubs=false, reportOperatorIssue=false, reportOptionalOperand=false

from itertools import combinations
from math import comb, hypot, sqrt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InvalidRequest
from assay.stats.bootstrap import bootstrap_interval
from assay.stats.intervals import wilson
from assay.stats.unpaired import UnpairedSample
from assay.stats.unpaired_power import unpaired_cases_to_show, unpaired_sensitivity
from assay.stats.verdict import excludes_zero, holm, interval_verdict
from support.lazy_module import lazy_module
from support.stats.unpaired_simulation import CELLS, simulate, unpaired_table

np = lazy_module("numpy")
stats = lazy_module("scipy.stats")

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
ALPHA, ROUNDS, ALL_ROUNDS = 0.05, 4, 400

COUNTS = st.integers(1, 40).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size)))
SCORES = st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.8, 1.0]), min_size=1, max_size=5)


def passes(counts):
    passed, size = counts
    return [1] * passed + [0] * (size - passed)


@settings(max_examples=60, deadline=None)
@given(COUNTS, COUNTS)
def test_cases_that_pass_or_fail_have_fishers_test_and_newcombes_interval(before, after):
    found = UnpairedSample.of(passes(before), passes(after)).interval()
    tails = [
        stats.fisher_exact(
            [[after[0], after[1] - after[0]], [before[0], before[1] - before[0]]], alternative=one
        )[1]
        for one in ("less", "greater")
    ]
    equal = before[0] / before[1] == after[0] / after[1]
    assert found.p_value == pytest.approx(1.0 if equal else min(1.0, 2 * min(tails)), rel=1e-9)
    (rate, other) = before[0] / before[1], after[0] / after[1]
    (low, high), (other_low, other_high) = wilson(rate, before[1]), wilson(other, after[1])
    limits = (
        other - rate - hypot(other - other_low, high - rate),
        other - rate + hypot(other_high - other, rate - low),
    )
    assert found.method == "newcombe"
    if excludes_zero(found) == (limits[0] > 0 or limits[1] < 0):
        assert (found.low, found.high) == pytest.approx(limits, abs=1e-12)
    assert excludes_zero(found) == (found.p_value <= ALPHA * (1 + 1e-9))
    assert found.low <= found.estimate <= found.high


def test_no_outcome_of_small_runs_makes_the_alarm_likelier_than_stated():
    """All outcomes of two runs with one rate, by enumeration: the level is at most 5%, whatever the rate is."""
    for first, second in ((4, 4), (6, 6), (5, 12), (12, 5), (15, 15)):
        rejects = [
            (passed, other)
            for passed in range(first + 1)
            for other in range(second + 1)
            if excludes_zero(UnpairedSample.of(passes((passed, first)), passes((other, second))).interval())
        ]
        for rate in (0.05, 0.1, 0.3, 0.5, 0.8, 0.95):
            level = sum(
                comb(first, passed) * comb(second, other) * rate ** (passed + other)
                * (1 - rate) ** (first + second - passed - other)
                for passed, other in rejects
            )  # fmt: skip
            assert level <= ALPHA


def permutations(before, after):
    """Every split of the cases, with Welch's statistic; the share at least as large as the one seen."""
    pool, chosen = [*before, *after], len(before)

    def statistic(first):
        second = [one for at, one in enumerate(pool) if at not in first]
        first = [pool[at] for at in first]
        means = [sum(one) / len(one) for one in (first, second)]
        spread = sum(
            sum((value - mean) ** 2 for value in one) / (len(one) - 1) / len(one)
            for one, mean in zip((first, second), means, strict=True)
            if len(one) > 1
        )
        difference = means[1] - means[0]
        if spread > 1e-15:
            return difference / sqrt(spread)
        return 0.0 if abs(difference) < 1e-9 else float("inf") * (1 if difference > 0 else -1)

    observed = statistic(tuple(range(chosen)))
    every = [statistic(one) for one in combinations(range(len(pool)), chosen)]
    sign = 1 if observed > 0 else -1
    return 2 * sum(one * sign >= observed * sign * (1 - 1e-7) for one in every) / len(every)


@settings(max_examples=25, deadline=None)
@given(SCORES, SCORES)
def test_other_values_have_all_permutations(before, after):
    found = UnpairedSample.of(before, after, single_trial=False).interval()
    if sum(before) / len(before) == pytest.approx(sum(after) / len(after), abs=1e-12):
        assert found.p_value == 1 or abs(found.estimate) < 1e-12
        return
    assert found.p_value == pytest.approx(min(1.0, permutations(before, after)))
    assert excludes_zero(found) == (found.p_value <= ALPHA * (1 + 1e-9))
    assert -1 <= found.low <= found.estimate <= found.high <= 1


def test_random_permutations_are_near_all_of_them_and_repeat():
    rng = np.random.default_rng(3)
    before, after = rng.random(12).tolist(), (rng.random(11) * 0.5).tolist()
    found = UnpairedSample.of(before, after, single_trial=False)  # 1,352,078 splits: random ones
    exact = stats.permutation_test(
        (before, after), lambda one, other, axis: stats.ttest_ind(other, one, equal_var=False, axis=axis).statistic,
        n_resamples=200_000, vectorized=True, rng=1,
    ).pvalue  # fmt: skip
    assert exact - 0.001 <= found.p_value() <= exact + 0.01
    assert found.p_value() == UnpairedSample.of(before, after, single_trial=False).p_value()


@pytest.mark.parametrize(
    ("before", "after", "span", "method", "limits"),
    [
        ([], [1.0], 1.0, "none", (None, None)),
        ([1.0], [0.0], 1.0, "newcombe", (-1.0, 0.12210872068194178)),
        ([5.0] * 20, [5.0] * 20, None, "welch", (None, None)),  # no spread, and the test does not reject
        ([5.0, 6.0], [7.0, 8.0], None, "permutation", (None, None)),
        ([1e200] * 15 + [2e200] * 15, [1e200] * 15 + [2.1e200] * 15, None, "welch", (None, None)),
    ],
)
def test_degenerate_samples(before, after, span, method, limits):
    found = UnpairedSample.of(before, after, span=span).interval()
    assert (found.method, found.low, found.high) == (method, *map(pytest.approx, limits))
    assert interval_verdict(found.low, found.high, None) == "not enough data"
    assert found.sizes == (len(before), len(after))


def test_a_certain_difference_without_spread_has_the_interval_of_the_test():
    found = UnpairedSample.of([1.0] * 10, [2.0] * 10, span=None).interval()
    assert found.low > 0
    assert found.method == "permutation"


def test_welch_is_that_of_scipy():
    rng = np.random.default_rng(5)
    before, after = rng.exponential(1, 700), rng.exponential(1.2, 600)
    found = UnpairedSample.of(before.tolist(), after.tolist(), span=None).interval()
    test = stats.ttest_ind(after, before, equal_var=False)
    assert found.p_value == pytest.approx(test.pvalue)
    expected = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@settings(max_examples=25, deadline=None)
@given(COUNTS, COUNTS, st.integers(0, 4), st.integers(0, 4), st.randoms())
def test_no_outcome_of_unmeasured_cases_leaves_the_bounds(before, after, missing, others, random):
    sample = UnpairedSample.of(passes(before), passes(after))
    for is_after, count in ((False, missing), (True, others)):
        for _ in range(count):
            sample.add_unmeasured((0.0, 1.0), is_after=is_after)
    bounds = sample.unmeasured_bounds()
    filled = [
        [*passes(before), *random.choices((0, 1), k=missing)],
        [*passes(after), *random.choices((0, 1), k=others)],
    ]
    found = UnpairedSample.of(*filled).interval()
    assert bounds.cases == missing + others
    assert bounds.worst - 1e-12 <= found.estimate <= bounds.best + 1e-12
    assert bounds.low - 1e-9 <= found.low
    assert found.high <= bounds.high + 1e-9


def test_strata_remove_a_difference_that_is_of_the_mix_alone():
    """Each slice has one rate in both runs; the second run has more of the worse slice."""
    sample = UnpairedSample(1.0, {"easy": 0.5, "hard": 0.5})
    plain = UnpairedSample()
    for is_after, mix in ((False, (100, 100)), (True, (20, 180))):
        for name, size, rate in (("easy", mix[0], 0.9), ("hard", mix[1], 0.4)):
            for value in passes((round(size * rate), size)):
                sample.add(value, is_after=is_after, stratum=name)
                plain.add(value, is_after=is_after)
    assert plain.interval().high < 0
    found = sample.interval()
    assert found.estimate == pytest.approx(0)
    assert not excludes_zero(found)
    assert (found.before, found.after) == pytest.approx((0.65, 0.65))


def test_one_stratum_is_the_sample_without_strata():
    values = [0.2, 0.9, 1.0, 0.4], [0.1, 0.3, 0.8]
    sample = UnpairedSample(1.0, {"all": 1.0})
    for is_after, run in enumerate(values):
        for value in run:
            sample.add(value, is_after=bool(is_after), stratum="all")
    assert sample.interval() == UnpairedSample.of(*values).interval()


def test_holm_adjusts_paired_and_unpaired_samples_alike():
    one, other = (
        UnpairedSample.of([0] * 30, [1] * 9 + [0] * 21),
        UnpairedSample.of([0] * 30, [1] * 6 + [0] * 24),
    )
    found = holm({"one": one, "other": other})
    assert found["one"].level == pytest.approx(0.975)
    assert found["other"].adjusted_p == pytest.approx(other.p_value())


@pytest.mark.parametrize(
    ("sample", "margin"),
    [
        (UnpairedSample.of(passes((96, 120)), passes((110, 130))), 0.3),
        (UnpairedSample.of([0.0] * 40, [0.0] * 50), 0.2),
    ],
)
def test_the_p_of_equivalence_is_that_of_the_interval(sample, margin):
    p = sample.equivalence_p(margin)
    for tail, inside in ((p * 1.01, True), (p * 0.99, False)):
        found = sample.interval(1 - 2 * tail)
        assert (found.low > -margin and found.high < margin) is inside


def test_the_smallest_effect_is_shown_with_the_power():
    sample = UnpairedSample.of(passes((40, 50)), passes((36, 50)))
    smallest = unpaired_sensitivity(sample).smallest_effect
    rate = 41 / 52
    rng = np.random.default_rng(1)
    shown = 0
    for passed, other in zip(
        rng.binomial(50, rate, 400), rng.binomial(50, rate - smallest, 400), strict=True
    ):
        shown += UnpairedSample.of(passes((passed, 50)), passes((other, 50))).interval().high < 0
    assert 0.8 - 3 * sqrt(0.16 / 400) <= shown / 400 <= 0.8 + 3 * sqrt(0.16 / 400)


@pytest.mark.parametrize(
    ("sample", "smallest"),
    [
        (UnpairedSample(), None),
        (UnpairedSample.of([1], [1]), None),  # no outcome of two cases is rare enough
        (UnpairedSample.of([5.0] * 20, [5.0] * 20, span=None), None),
    ],
)
def test_samples_that_can_show_nothing(sample, smallest):
    assert unpaired_sensitivity(sample, 0.1).smallest_effect is smallest


def test_more_cases_in_each_run_show_a_smaller_difference():
    sample = UnpairedSample.of(passes((96, 120)), passes((94, 120)))
    found = [unpaired_cases_to_show(sample, effect) for effect in (0.3, 0.1, 0.05, 0.01)]
    assert found == sorted(found)
    assert found[0] == 0
    assert unpaired_sensitivity(sample, 0.05).more_cases > unpaired_sensitivity(sample, 0.1).more_cases


def test_a_bootstrap_of_different_cases():
    rng = np.random.default_rng(2)
    before, after = rng.exponential(1, 40).tolist(), rng.exponential(3, 60).tolist()
    found = bootstrap_interval(np.median, before, after, is_paired=False)
    assert found.low > 0
    assert (found.sizes, found.n) == ((40, 60), 100)
    with pytest.raises(InvalidRequest, match="expected 30 to 5000 cases for a bootstrap interval, got 29"):
        bootstrap_interval(np.median, before, after[:29], is_paired=False)


# The table of docs/statistics.md. `make soak` has all rounds.


@pytest.fixture(scope="module")
def simulated(series):
    return {cell: simulate(*cell, series(ROUNDS, ALL_ROUNDS)) for cell in CELLS}


def test_false_alarms_and_coverage(simulated, series):
    rounds = series(ROUNDS, ALL_ROUNDS)
    most = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / rounds)
    assert {cell: found for cell, (found, _) in simulated.items() if found > most} == {}
    coverage = [found for _, found in simulated.values() if found is not None]
    assert sum(coverage) / len(coverage) >= 0.94


def test_the_table_in_the_documents_is_that_of_all_rounds(simulated, series):
    """In `make soak` every number; in `make test` the rows, and that the numbers in them satisfy the promise."""
    after_heading = PAGE.read_text().partition("| cases | values | method |")[2].split("\n\n")[0]
    rows = [line for line in after_heading.splitlines() if line[2:3].isdigit()]
    expected = [row for row in unpaired_table(simulated) if row[2].isdigit()]
    if series(False, True):
        assert rows == expected
        return
    assert [row.split("|")[1:4] for row in rows] == [row.split("|")[1:4] for row in expected]
    alarms = [float(row.split("|")[4]) for row in rows]
    coverage = [float(held) for row in rows if (held := row.split("|")[5].strip()) != "none"]
    assert max(alarms) <= ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / ALL_ROUNDS)
    assert min(coverage) >= 0.9
    assert sum(coverage) / len(coverage) >= 0.94
