"""Power, pass@k, agreement, corrected means and the bootstrap: against scipy, statsmodels, published numbers and identities."""

# A test knows which limits are set; scipy and statsmodels have no types.
# pyright: reportCallIssue=false, reportMissingTypeStubs=false, reportOperatorIssue=false, reportOptionalOperand=false

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InvalidRequest
from assay.results.statistics import rates_by_k
from assay.stats.bootstrap import RESAMPLES, bootstrap_interval
from assay.stats.distributions import normal_quantile
from assay.stats.intervals import UNIT, mean_of, pass_all_k, pass_at_k
from assay.stats.judge_agreement import Label, cohen_kappa, corrected_mean, krippendorff_alpha
from assay.stats.paired import PairedSample
from assay.stats.power import (
    mean_cases,
    sensitivity,
    smallest_effect,
    t_power,
)
from support.lazy_module import lazy_module

np = lazy_module("numpy")
stats = lazy_module("scipy.stats")
inter_rater = lazy_module("statsmodels.stats.inter_rater")
known_power = lazy_module("statsmodels.stats.power")


@pytest.mark.parametrize(("cases", "power"), [(15, 0.8), (50, 0.8), (400, 0.9)])
def test_the_smallest_effect_is_that_of_statsmodels(cases, power):
    other = known_power.TTestPower().solve_power(nobs=cases, alpha=0.05, power=power)
    assert smallest_effect(cases, 2.0, power=power) == pytest.approx(2 * other, rel=1e-4)
    assert t_power(0.3, 1.0, cases, 0.95) == pytest.approx(
        known_power.TTestPower().power(0.3, cases, 0.025, alternative="larger"), rel=1e-6
    )


def test_the_cases_that_settle_a_margin():
    """Enough in both directions, and one case fewer is not."""
    cases = mean_cases(0.05, 0.3)
    both = (normal_quantile(0.975) + normal_quantile(0.9)) * 0.3 / 0.05
    assert cases == pytest.approx(both**2, rel=0.01)
    assert t_power(0.05, 0.3, cases, 0.95) > 0.8
    assert smallest_effect(cases, 0.3) < 0.05


def test_sensitivity_never_depends_on_the_observed_effect():
    one = PairedSample.of([0.5] * 40, [0.6, 0.4] * 20)
    shifted = PairedSample.of([0.3] * 40, [0.6, 0.4] * 20)
    assert sensitivity(one, 0.05).smallest_effect == pytest.approx(sensitivity(shifted, 0.05).smallest_effect)
    gains, mixed = (
        PairedSample.of([0] * 40, [1] * 8 + [0] * 32),
        PairedSample.of([0] * 36 + [1] * 4, [1] * 4 + [0] * 36),
    )
    assert sensitivity(gains, 0.1) == sensitivity(mixed, 0.1)
    found = sensitivity(gains, 0.1)
    assert found.more_cases == found.settling_cases - 40 > 0


@pytest.mark.parametrize(
    ("sample", "margin", "smallest", "more"),
    [
        (PairedSample(), 0.1, None, None),
        (PairedSample.of([0], [1]), 0.1, None, None),
        (PairedSample.of([0] * 30, [0] * 30), None, 0.2507, None),  # six of thirty must change the same way
        (PairedSample.of([0] * 5, [0] * 5), None, None, None),  # five are never enough
        (
            PairedSample.of([0.5] * 30, [0.5] * 30),
            None,
            0.2507,
            None,
        ),  # as if one more case differed by the span, and six must
        (PairedSample.of([5.0] * 30, [5.0] * 30, span=None), 0.1, None, None),
        (
            PairedSample.of([0, 1] * 500, [0, 0, 1, 1] * 250),
            1e-9,
            0.0627,
            10**12 - 1000,
        ),  # bounded, not endless
    ],
)
def test_sensitivity_of_degenerate_samples(sample, margin, smallest, more):
    found = sensitivity(sample, margin)
    assert found.smallest_effect == (None if smallest is None else pytest.approx(smallest, abs=1e-3))
    assert found.more_cases == more


def plain_share(passed, trials, k, test):
    drawn = list(combinations([True] * passed + [False] * (trials - passed), k))
    return sum(map(test, drawn)) / len(drawn)


@given(cases=st.lists(st.integers(0, 5), min_size=1, max_size=12), k=st.integers(1, 5))
def test_pass_at_k_and_pass_all_k_are_the_shares_of_draws(cases, k):
    counts = {(passed, 5): cases.count(passed) for passed in set(cases)}
    at, every = pass_at_k(counts, k), pass_all_k(counts, k)
    assert at.rate == pytest.approx(np.mean([plain_share(passed, 5, k, any) for passed in cases]))
    assert every.rate == pytest.approx(np.mean([plain_share(passed, 5, k, all) for passed in cases]))
    assert at.low <= at.rate <= at.high
    assert at.cases == len(cases)
    assert every == rates_by_k(counts, pass_all_k)[str(k)]  # what reports show
    assert at == rates_by_k(counts, pass_at_k)[str(k)]


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (4, "expected k of at most 3, because a case has 3 measured trials, got 4"),
        (0, "expected k of at least 1, got 0"),
    ],
)
def test_k_above_the_trials_is_refused(k, message):
    for rate in (pass_at_k, pass_all_k):
        with pytest.raises(InvalidRequest, match=message):
            rate({(2, 3): 4, (5, 5): 1}, k)
        assert rate({}, 1) is None


@given(pairs=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2, max_size=40))
def test_kappa_is_that_of_statsmodels(pairs):
    found = cohen_kappa(pairs)
    if found.value is None:
        assert "one category" in found.reason
        return
    table = np.zeros((3, 3))
    for one, other in pairs:
        table["abc".index(one), "abc".index(other)] += 1
    with np.errstate(invalid="ignore"):  # it divides 0 by 0 if one rater has one category
        other = inter_rater.cohens_kappa(table)
    assert found.value == pytest.approx(other.kappa, abs=1e-12)
    if found.low is not None:
        limits = max(-1, other.kappa_low), min(1, other.kappa_upp)  # theirs may leave the range of kappa
        assert (found.low, found.high) == pytest.approx(limits, abs=1e-9)


KRIPPENDORFF = [  # K. Krippendorff, Computing Krippendorff's alpha-reliability (2011), section C: four observers, twelve units
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
]


def test_published_agreement():
    units = [
        [int(one) for one in unit if one != "."] for unit in zip(*map(str.split, KRIPPENDORFF), strict=True)
    ]
    assert round(krippendorff_alpha(units).value, 3) == 0.743
    assert krippendorff_alpha(units).cases == 11  # the last unit has one answer
    # Two observers and two categories, section A of the same text
    first, second = "0100000010", "1110010000"
    assert round(krippendorff_alpha(zip(first, second, strict=True)).value, 3) == 0.095


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (cohen_kappa([]), "no case has two answers"),
        (krippendorff_alpha([["a"], []]), "no case has two answers"),
        (cohen_kappa([("a", "a")] * 3), "one category"),
        (krippendorff_alpha([["a", "a"]] * 3), "one category"),
    ],
)
def test_undefined_agreement_has_a_reason(found, reason):
    assert found.value is None
    assert reason in found.reason


def drawn_labels(rng, judged, human, count):
    return [Label(judged[i], human[i]) for i in rng.choice(len(judged), count, replace=False)]


def test_equal_labels_are_not_certain():
    found = corrected_mean([1.0, 0.0] * 50, [Label(1.0, 1.0)] * 5)
    assert (found.mean, found.bias, found.weight) == (1.0, 0.0, 0.0)
    assert (found.low, found.high) == pytest.approx((0.025**0.2, 1.0), abs=0.1)
    assert -1 < found.bias_low < 0 < found.bias_high < 1


def test_identities_of_the_corrected_mean():
    rng = np.random.default_rng(1)
    human = (rng.random(400) < 0.6).astype(float).tolist()
    noisy = [one if rng.random() < 0.9 else 1 - one for one in human]
    labels = drawn_labels(rng, noisy, human, 80)
    alone = corrected_mean(noisy, labels, weight=0)
    assert alone.mean == pytest.approx(np.mean([one.human for one in labels]))  # the labels alone
    full = corrected_mean(noisy, labels, weight=1)
    assert full.mean == pytest.approx(full.uncorrected - full.bias)  # PPI: the mean less the bias
    best = corrected_mean(noisy, labels)
    assert best.high - best.low < min(alone.high - alone.low, full.high - full.low)
    # PPI++ (Angelopoulos et al.) with the unlabelled rest: weight / (1 + n/N) of the rest, the same estimate
    rest_size = 400 - 80
    chosen_mean = np.mean([one.judged for one in labels])
    rest_mean = (sum(noisy) - 80 * chosen_mean) / rest_size
    weight = best.weight / (1 + 80 / rest_size)
    assert best.mean == pytest.approx(alone.mean + weight * (rest_mean - chosen_mean))
    perfect = corrected_mean(human, drawn_labels(rng, human, human, 80))
    assert (perfect.mean, perfect.bias, perfect.weight) == pytest.approx((np.mean(human), 0, 1))
    constant = corrected_mean([1.0] * 400, [Label(1.0, one.human) for one in labels])
    assert (constant.mean, constant.weight) == (pytest.approx(alone.mean), 0)


def test_labels_of_all_cases_give_the_plain_interval():
    human = [0.2, 0.9, 0.4, 1.0, 0.7, 0.1]
    found = corrected_mean([0.5, 0.6] * 3, [Label(0.5, one) for one in human], weight=0)
    plain = mean_of(human, 6, UNIT)
    assert (found.mean, found.low, found.high) == pytest.approx((plain.mean, plain.low, plain.high))


scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@settings(deadline=None)
@given(
    labels=st.lists(st.builds(Label, scores, scores), min_size=1, max_size=12),
    more=st.lists(scores, max_size=12),
)
def test_a_corrected_mean_has_a_width_and_stays_in_its_range(labels, more):
    found = corrected_mean([one.judged for one in labels] + more, labels)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.low < found.high
    assert -1 <= found.bias_low <= found.bias <= found.bias_high <= 1
    assert found.bias_low < found.bias_high


@pytest.mark.parametrize(
    ("judged", "labels", "message"),
    [
        ([], [], "expected 1 to 0 labels"),
        ([1.0], [], "expected 1 to 1 labels, one for each case at most, got 0"),
        ([1.0], [Label(1, 1)] * 2, "got 2"),
        ([1.0], [Label(1, 5)], "expected scores from 0 to 1, got 5"),
    ],
)
def test_labels_that_cannot_correct_are_refused(judged, labels, message):
    with pytest.raises(InvalidRequest, match=message):
        corrected_mean(judged, labels)


def test_the_bootstrap_is_that_of_scipy_with_a_seed():
    rng = np.random.default_rng(5)
    before, after = rng.random(40), rng.random(40) + 0.4
    found = bootstrap_interval(np.median, before.tolist(), after.tolist(), seed=3)
    plain = stats.bootstrap(
        (before, after),
        lambda one, other, axis: np.median(other, axis=axis) - np.median(one, axis=axis),
        paired=True, n_resamples=RESAMPLES, rng=np.random.default_rng(3),
    ).confidence_interval  # fmt: skip
    assert (found.low, found.high) == tuple(plain)
    assert found.p_value < 0.05
    assert found == bootstrap_interval(np.median, before.tolist(), after.tolist(), seed=3)
    assert found.low != bootstrap_interval(np.median, before.tolist(), after.tolist(), seed=4).low


def test_a_bootstrap_is_extended_to_zero_where_swaps_do_not_reject():
    before = [0.0] * 25 + [1.0] * 5
    after = [0.0] * 20 + [0.01] * 5 + [1.0] * 5
    found = bootstrap_interval(lambda values, axis: np.quantile(values, 0.8, axis=axis), before, after)
    assert found.p_value > 0.05
    assert found.low <= 0 <= found.high


@pytest.mark.parametrize("cases", [29, 5_001])
def test_a_bootstrap_of_too_few_or_too_many_cases_is_refused(cases):
    with pytest.raises(
        InvalidRequest, match=f"expected 30 to 5000 cases for a bootstrap interval, got {cases}"
    ):
        bootstrap_interval(np.median, [0.0] * cases, [1.0] * cases)


def test_equal_cases_have_no_bootstrap_interval():
    for before, after in (([0.5] * 30, [0.6] * 30), ([0.0, 1.0] * 15, [0.0, 1.0] * 15)):
        found = bootstrap_interval(np.median, before, after)
        assert (found.low, found.high, found.method) == (None, None, "bca")
