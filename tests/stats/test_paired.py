"""Paired differences: published numbers, scipy and statsmodels, and the laws that tie interval, p value and verdict."""

# A test knows which limits are set; scipy and statsmodels have no types.
# pyright: reportCallIssue=false, reportMissingTypeStubs=false, reportOperatorIssue=false, reportOptionalOperand=false

import subprocess
import sys
from itertools import product
from math import inf, isclose, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import MissingExtra
from assay.stats import distributions
from assay.stats.distributions import normal_tail, student_quantile
from assay.stats.paired import PairedResult, PairedSample, agreeing_limits
from assay.stats.power import sensitivity
from assay.stats.sign_flip import SignFlip, mcnemar_p, sign_flip_p, tango_interval, tango_score
from assay.stats.verdict import excludes_zero, holm, interval_verdict, tost_p, unmeasured_bounds, verdict
from support.lazy_module import lazy_module

np = lazy_module("numpy")
stats = lazy_module("scipy.stats")
contingency_tables = lazy_module("statsmodels.stats.contingency_tables")
multitest = lazy_module("statsmodels.stats.multitest")
weightstats = lazy_module("statsmodels.stats.weightstats")


@pytest.mark.parametrize(
    ("gains", "losses", "cases", "level", "low", "high", "digits"),
    [
        (0, 1, 44, 0.90, -0.096, None, 3),  # Tango 1998, section 6.1: soft contact lenses
        (1, 7, 21, 0.95, -0.517, -0.026, 3),  # Fagerland et al. 2014: airway hyper-responsiveness
        (40, 20, 160, 0.95, 0.0309, 0.2181, 4),  # PropCIs, scoreci.mp
    ],
)
def test_published_score_intervals(gains, losses, cases, level, low, high, digits):
    found = tango_interval(gains, losses, cases, level)
    assert round(found[0], digits) == low
    assert high is None or round(found[1], digits) == high


def tango_p(gains, losses, cases, difference=0.0):
    """The two-sided p of a true difference: the test that `tango_interval` inverts."""
    return min(1.0, 2 * normal_tail(abs(tango_score(gains, losses, cases, difference))))


def test_published_tests_of_paired_rates():
    assert round(tango_score(0, 1, 44, -0.1), 3) == 1.709  # Tango 1998, section 6.1
    assert round(tango_p(1, 7, 21), 3) == 0.034  # Fagerland et al. 2014: asymptotic
    assert round(mcnemar_p(1, 7), 3) == 0.070  # and exact conditional
    assert mcnemar_p(0, 0) == 1


@given(gains=st.integers(0, 60), losses=st.integers(0, 60), same=st.integers(0, 200))
def test_the_score_interval_inverts_its_test(gains, losses, same):
    cases = gains + losses + same
    if not cases:
        return
    low, high = tango_interval(gains, losses, cases, 0.95)
    assert -1 <= low <= (gains - losses) / cases <= high <= 1
    assert tango_interval(losses, gains, cases, 0.95) == pytest.approx((-high, -low), abs=1e-12)
    for limit in (low, high):
        if abs(limit) < 1 - 1e-9:
            assert tango_p(gains, losses, cases, limit) == pytest.approx(0.05, abs=1e-6)
    table = [[same, losses], [gains, 0]]
    assert mcnemar_p(gains, losses) == pytest.approx(
        contingency_tables.mcnemar(table, exact=True).pvalue, rel=1e-9
    )
    if gains + losses:
        asymptotic = contingency_tables.mcnemar(table, exact=False, correction=False).pvalue
        assert tango_p(gains, losses, cases) == pytest.approx(asymptotic, rel=1e-9)


def numbers(least, most):
    return st.lists(st.floats(-1, 1).map(lambda one: round(one, 3)), min_size=least, max_size=most)


@given(differences=numbers(15, 60), margin=st.floats(0.01, 0.9))
def test_t_is_that_of_scipy_and_statsmodels(differences, margin):
    sample = PairedSample.of([0.0] * len(differences), differences, single_trial=False)
    if sample.method != "t":
        return
    found = sample.interval()
    for limits in (
        tuple(stats.ttest_1samp(differences, 0).confidence_interval(0.95)),
        weightstats.DescrStatsW(differences).tconfint_mean(),
    ):
        agreeing = agreeing_limits(found.estimate, limits, found.p_value, 0.95)
        assert (found.low, found.high) == pytest.approx(agreeing, abs=1e-10)
    tost, _, _ = weightstats.ttost_paired(np.array(differences), np.zeros(len(differences)), -margin, margin)
    assert tost_p(sample, margin) == pytest.approx(tost, abs=1e-10)


@given(differences=numbers(2, 8), mean=st.floats(-1, 1).map(lambda one: round(one, 2)))
def test_sign_flips_are_the_plain_enumeration(differences, mean):
    """Every pattern of signs, one by one, in thousandths: exact."""
    shifted = [round(1000 * one) - round(1000 * mean) for one in differences]
    sums = [
        sum(sign * one for sign, one in zip(signs, shifted, strict=True))
        for signs in product((1, -1), repeat=len(shifted))
    ]
    above = sum(one >= sum(shifted) for one in sums) / len(sums)
    below = sum(one <= sum(shifted) for one in sums) / len(sums)
    test = SignFlip(differences)
    assert test.above(mean) == above
    assert test.below(mean) == below
    limits = test.interval(0.9)
    if limits is None:
        assert test.p_value(mean) > 0.1 or len(differences) > 4
    else:  # inside, the test accepts; outside it rejects
        assert (limits[0] <= mean <= limits[1]) == (test.p_value(mean) > 0.1 or mean in limits)


def test_sign_flips_agree_with_scipy():
    differences = [0.3, -0.1, 0.25, 0.4, 0.05, -0.2, 0.35]
    plain = stats.permutation_test(
        (np.array(differences),),
        lambda one, axis: one.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
    )
    assert SignFlip(differences).p_value() == pytest.approx(plain.pvalue)
    assert sign_flip_p(differences) == pytest.approx(plain.pvalue)


@pytest.mark.parametrize(
    ("before", "after", "method", "low", "high", "p_value"),
    [
        ([], [], "none", None, None, None),
        ([0], [1], "equal-differences", -0.95, 1, 1),  # one case excludes hardly anything
        ([0, 1], [1, 1], "sign-flip", -1, 1, 1),  # two cases, five cases: no set of signs is rare enough
        ([0, 0, 0, 0, 1], [1, 1, 1, 1, 1], "sign-flip", -1, 1, 0.125),
        ([0.5] * 6, [0.6, 0.7, 0.8, 0.9, 1.0, 0.55], "sign-flip", 0.05, 0.5, 2 / 64),  # six: the extremes
        ([0] * 8, [0] * 8, "equal-differences", -0.369, 0.369, 1),  # no difference seen in 8 cases
        ([0] * 8, [1] * 8, "equal-differences", 0.261, 1, 2 / 2**8),
        ([0] * 20, [0] * 20, "tango", -0.161, 0.161, 1),  # no discordant pair
        ([0] * 20, [1] * 20, "tango", 0.678, 1, 0.0),  # (n - z²) / (n + z²)
        ([0.2] * 20, [0.2] * 20, "equal-differences", -0.168, 0.168, 1),
        ([0.2] * 200, [0.3] * 200, "equal-differences", 0.080, 0.116, 0.0),
    ],
)
def test_degenerate_samples_have_an_answer(before, after, method, low, high, p_value):
    found = PairedSample.of(before, after).interval()
    assert (found.method, found.n) == (method, len(before))
    assert (found.low, found.high, found.p_value) == pytest.approx((low, high, p_value), abs=6e-4)


def test_without_a_span_equal_differences_have_no_interval():
    found = PairedSample.of([3.0] * 40, [3.0] * 40, span=None).interval()
    assert (found.low, found.high, found.p_value) == (None, None, 1)
    assert verdict(found, margin=1) == "not enough data"
    assert PairedSample.of([3.0, 1.0], [4.0, 1.5], span=None).interval().low is None


@pytest.mark.parametrize("size", [1, 2, 6, 14, 15, 40])
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-12, 1.0, 1e12, 1e150, 1e300, 1.7e308])
def test_numbers_of_any_size_have_an_answer(size, scale):
    after = [scale * (-1) ** at for at in range(size)]
    sample = PairedSample.of([0.0] * size, after, span=None)
    found, able = sample.interval(), sensitivity(sample, margin=scale)
    for number in (found.low, found.high, found.p_value, tost_p(sample, scale), able.smallest_effect):
        assert number is None or abs(number) < inf
    assert (found.low is None) == (found.high is None)
    assert abs(found.estimate) <= scale
    assert verdict(found, margin=scale) in ("not enough data", "equivalent")


scores = st.sampled_from([0, 0, 1, 1, 0.5, 0.25])


@st.composite
def samples(draw, most=24):
    size = draw(st.integers(1, most))
    values = draw(st.sampled_from([st.sampled_from([0, 1]), scores]))
    pairs = draw(st.lists(st.tuples(values, values), min_size=size, max_size=size))
    return PairedSample.of([one for one, _ in pairs], [other for _, other in pairs])


@given(
    sample=samples(),
    level=st.sampled_from([0.8, 0.9, 0.95, 0.99]),
    margin=st.sampled_from([0.05, 0.2, 0.45, 0.9]),
)
def test_interval_p_value_and_verdict_say_the_same(sample, level, margin):
    found = sample.interval(level)
    assert found.low <= found.estimate + 1e-12
    assert found.estimate <= found.high + 1e-12
    assert excludes_zero(found) == (found.p_value <= 1 - level + 1e-12)
    within = -margin < found.low and found.high < margin
    # At the margin itself, to the last digits of a float, the strict and the weak comparison differ.
    if not any(isclose(margin, abs(bound), rel_tol=1e-12) for bound in (found.low, found.high)):
        assert within == (tost_p(sample, margin) <= (1 - level) / 2 + 1e-12)
    expected = "equivalent" if within else None
    assert verdict(found, margin) == (expected or verdict(found))


@pytest.mark.parametrize(
    ("low", "high", "margin", "expected"),
    [
        (0.01, 0.2, None, "improved"),
        (-0.2, -0.01, None, "regressed"),
        (-0.01, 0.01, None, "not enough data"),  # never equivalent without a margin
        (-0.01, 0.01, 0.02, "equivalent"),
        (0.005, 0.01, 0.02, "equivalent"),  # certain, and too small to matter
        (0.005, 0.03, 0.02, "improved"),
        (-0.03, 0.01, 0.02, "not enough data"),
        (0.0, 0.1, None, "not enough data"),  # 0 is in the interval
        (-0.02, 0.01, 0.02, "not enough data"),  # so is the margin
        (None, None, 0.02, "not enough data"),
    ],
)
def test_the_verdict_of_an_interval(low, high, margin, expected):
    found = PairedResult(0.5, 0.5, 0.0, low, high, 0.95, "t", 20)
    assert verdict(found, margin) == expected
    turned = {"improved": "regressed", "regressed": "improved"}
    assert verdict(found, margin, lower_is_better=True) == turned.get(expected, expected)


@given(st.lists(samples(30), min_size=1, max_size=6))
def test_holm_intervals_exclude_zero_exactly_where_holm_rejects(some):
    found = list(holm(dict(enumerate(some))).values())
    p_values = [sample.interval().p_value for sample in some]
    rejected, adjusted, _, _ = multitest.multipletests(p_values, method="holm")
    assert [one.adjusted_p for one in found] == pytest.approx(list(adjusted))
    assert [excludes_zero(one) for one in found] == list(rejected)
    assert all(one.level >= 0.95 - 1e-12 for one in found)


def test_holm_of_one_sample_changes_nothing():
    sample = PairedSample.of([0] * 30, [1] * 9 + [0] * 21)
    (alone,) = holm({"all": sample}).values()
    assert (alone.low, alone.high, alone.level) == (*astuple(sample.interval())[3:5], pytest.approx(0.95))
    missing = holm({"all": sample, "none": PairedSample()})
    assert missing["none"].adjusted_p is None
    assert missing["all"].level == pytest.approx(0.975)


def astuple(result):
    return tuple(getattr(result, name) for name in result.__struct_fields__)


RANGES = {"first": (-1.0, 0.0), "second": (0.0, 1.0), "both": (-1.0, 1.0)}


@given(
    sample=samples(18),
    lacks=st.lists(st.sampled_from(["first", "second"]), min_size=1, max_size=4),
    both=st.booleans(),
)
def test_no_way_to_fill_unmeasured_cases_leaves_the_bounds(sample, lacks, both):
    ranges = [RANGES["both" if both else one] for one in lacks]
    bounds = unmeasured_bounds(sample, ranges)
    fills = product(*[(low, (low + high) / 2, high) for low, high in ranges])
    for fill in fills:
        whole = unmeasured_bounds(sample, [(one, one) for one in fill])
        if whole_method(sample, fill) != whole_method(sample, [low for low, _ in ranges]):
            continue  # another formula: degenerate samples, and halves among cases that pass or fail
        assert bounds.low - 1e-9 <= whole.low
        assert whole.high <= bounds.high + 1e-9
        assert bounds.worst - 1e-9 <= whole.worst <= bounds.best + 1e-9


def test_no_corner_of_unlike_ranges_leaves_the_bounds_of_t():
    """Ranges of unlike widths, as trials give them. One order of the corners alone misses 8 of 600 such samples."""
    rng = np.random.default_rng(5)
    for _ in range(150):
        values = rng.random((2, 16)) * 0.05
        sample = PairedSample.of(*values.tolist(), single_trial=False)
        lows = rng.choice([-1, -2 / 3, -1 / 3, -0.1, 0], 5)
        ranges = list(
            zip(lows.tolist(), (lows + rng.choice([1 / 3, 2 / 3, 1, 0.1], 5)).tolist(), strict=True)
        )
        bounds = unmeasured_bounds(sample, ranges)
        corners = np.array(list(product(*ranges)))
        means, squares = corners.sum(axis=1), (corners**2).sum(axis=1)
        n = sample.n + 5
        means = (means + sample.n * sample.estimate) / n
        total = squares + sample.squares + sample.n * sample.estimate**2
        reach = student_quantile(0.975, n - 1) * np.sqrt((total - n * means**2) / (n - 1) / n)
        low, high = (means - reach).min(), (means + reach).max()
        assert bounds.low <= low + 1e-9 or low <= 0 < bounds.low  # no fill is accepted by the test
        assert bounds.high >= high - 1e-9 or bounds.high < 0 <= high


def whole_method(sample, fill):
    from assay.stats.verdict import _filled

    return _filled(sample, fill).method


def test_a_verdict_that_unmeasured_cases_could_turn_is_not_enough_data():
    sample = PairedSample.of([0] * 100, [1] * 12 + [0] * 88)
    found = sample.interval()
    assert verdict(found) == "improved"
    few, many = (unmeasured_bounds(sample, [(-1, 0)] * count) for count in (1, 10))
    assert verdict(found, bounds=few) == "improved"
    assert verdict(found, bounds=many) == "not enough data"
    assert (many.cases, round(many.worst, 3), round(many.best, 3)) == (10, 0.018, 0.109)
    assert verdict(found, bounds=unmeasured_bounds(sample, [])) == "improved"
    endless = PairedSample.of([0.0] * 30, [1.0, 2.0] * 15, span=None)
    assert verdict(endless.interval(), bounds=unmeasured_bounds(endless, [(-inf, inf)])) == "not enough data"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairedSample(0), "span: expected a number above 0"),
        (lambda: PairedSample().add(0, nan), "expected finite numbers"),
        (lambda: PairedSample().interval(1), "level: expected a number between 0 and 1"),
        (lambda: verdict(PairedSample().interval(), 0), "margin: expected a number above 0"),
        (lambda: tost_p(PairedSample(), -1), "margin: expected a number above 0"),
        (lambda: SignFlip([0.1] * 21), "expected 1 to 20 cases, got 21"),
        (lambda: PairedSample.of([1], [1, 2]), "argument 2 is longer"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_missing_extra_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setattr("assay.extras.find_spec", lambda module: None if module == "scipy" else object())
    distributions.special.cache_clear()
    with pytest.raises(MissingExtra, match=r"a comparison needs scipy: pip install 'openassay\[compare\]'"):
        PairedSample.of([0] * 20, [1] * 20).interval()
    distributions.special.cache_clear()


def test_assay_and_its_statistics_do_not_load_scipy():
    code = "import sys, assay, assay.stats.verdict, assay.stats.verdict, assay.stats.power; print({'scipy', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_interval_above_zero_is_an_improvement():
    assert interval_verdict(0.05, 0.19, None) == "improved"


def test_unmeasured_cases_may_be_like_equal_ones():
    sample = PairedSample.of([0.5] * 14, [0.5] * 14)
    bounds, alike = unmeasured_bounds(sample, [(-1, 1)]), unmeasured_bounds(sample, [(0, 0)])
    assert bounds.low <= alike.low < 0 < alike.high <= bounds.high
