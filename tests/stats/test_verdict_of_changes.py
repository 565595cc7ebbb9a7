"""A verdict comes from the cases that changed: its false alarms by enumeration, and no jump with unchanged cases."""

# A test knows which limits are set.
# pyright: reportOperatorIssue=false, reportOptionalOperand=false

from itertools import product
from math import comb, erfc, prod, sqrt
from time import process_time, thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.stats.paired import PairedSample
from assay.stats.power import sensitivity
from assay.stats.sign_flip import mcnemar_p, sign_flip_p
from assay.stats.verdict import excludes_zero, verdict
from support.lazy_module import lazy_module

np = lazy_module("numpy")
ALPHA = 0.05
UNCHANGED = (0, 1, 14, 985)


def passes(gains, losses, unchanged):
    """One trial of each case, which passes or fails."""
    before = [0] * gains + [1] * losses + [1] * unchanged
    return PairedSample.of(before, [1] * gains + [0] * losses + [1] * unchanged)


def scored(changes, unchanged=0):
    """Scores of cases that changed by these differences, and of others that did not."""
    before = [0.5] * (len(changes) + unchanged)
    return PairedSample.of(before, [0.5 + one / 2 for one in changes] + [0.5] * unchanged, single_trial=False)


def verdict_of(sample):
    return verdict(sample.interval())


@pytest.mark.parametrize(
    ("losses", "gains", "expected"),
    [
        (0, 4, "not enough data"),  # exact McNemar: 0.125
        (0, 5, "not enough data"),  # 0.0625
        (0, 6, "improved"),
        (6, 0, "regressed"),
        (1, 7, "not enough data"),  # 0.0703: mid-p would reject
        (1, 8, "improved"),
        (2, 9, "not enough data"),
        (5, 15, "improved"),  # 0.0414
    ],
)
def test_a_verdict_of_passes_needs_mcnemars_exact_test_whatever_did_not_change(losses, gains, expected):
    for total in (14, 15, 16, 20, 50, 1_000):
        if total >= losses + gains:
            assert verdict_of(passes(gains, losses, total - losses - gains)) == expected, total
            three = [1.0] * gains + [-1.0] * losses  # all trials of the cases that changed
            assert verdict_of(scored(three, total - losses - gains)) == expected, total


@given(
    changes=st.lists(st.sampled_from([-1, -2 / 3, -1 / 3, 1 / 3, 2 / 3, 1, 0.9, 0.05]), max_size=24),
    level=st.sampled_from([0.8, 0.95, 0.999]),
)
def test_unchanged_cases_never_turn_a_verdict_and_interval_and_test_agree(changes, level):
    found = [scored(changes, unchanged).interval(level) for unchanged in UNCHANGED if changes or unchanged]
    assert len({one.p_value for one in found}) == 1
    assert len({verdict(one) for one in found}) == 1
    for one in found:
        assert excludes_zero(one) == (one.p_value <= (1 - level) * (1 + 1e-9))
        assert one.low <= one.estimate <= one.high
        assert one.low < one.high


@given(gains=st.integers(0, 40), losses=st.integers(0, 40), level=st.sampled_from([0.8, 0.95, 0.999999]))
def test_unchanged_cases_never_turn_a_verdict_of_passes(gains, losses, level):
    found = [passes(gains, losses, one).interval(level) for one in UNCHANGED if gains + losses + one]
    assert {one.p_value for one in found} == {mcnemar_p(gains, losses)}
    assert len({verdict(one) for one in found}) == 1
    for one in found:
        assert excludes_zero(one) == (one.p_value <= (1 - level) * (1 + 1e-9))
        assert one.low <= one.estimate <= one.high


@pytest.mark.parametrize("unchanged", UNCHANGED)
def test_false_alarms_of_passes_are_at_most_alpha_for_every_number_of_changed_cases(unchanged):
    """If the runs are alike, the gains among the changed cases are binomial: every outcome is summed."""
    for changed in range(0 if unchanged else 1, 61, 1 if unchanged < 100 else 6):
        alarm = sum(
            comb(changed, gains) / 2**changed
            for gains in range(changed + 1)
            if verdict_of(passes(gains, changed - gains, unchanged)) != "not enough data"
        )
        assert alarm <= ALPHA, changed


SIZES = [
    (1.0,) * 9,
    (1 / 3,) * 4 + (2 / 3,) * 3 + (1.0,) * 2,
    (0.9, 0.5, 0.31, 0.3, 0.22, 0.2, 0.1, 0.05),
    (1.0, 0.01, 0.01, 0.01, 0.01, 0.01),
    (0.5, 0.25, 0.25, 0.125),
]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("unchanged", [0, 15])
def test_false_alarms_of_scores_are_at_most_alpha_by_all_signs(sizes, unchanged):
    """If the runs are alike, every pattern of signs is equally likely."""
    alarms = 0
    for signs in product((1, -1), repeat=len(sizes)):
        changes = [sign * size for sign, size in zip(signs, sizes, strict=True)]
        alarms += verdict_of(scored(changes, unchanged)) != "not enough data"
    assert alarms / 2 ** len(sizes) <= ALPHA


@pytest.mark.parametrize("counts", [(7, 8, 7), (12, 6, 4), (20, 20, 10), (60, 3, 2)])
def test_false_alarms_of_seeded_flips_are_at_most_alpha_by_all_counts(counts):
    """Changes of one, two or three thirds of the trials: every number of gains among each. The p depends on their sum alone."""
    chances: dict[int, float] = {}
    for gains in product(*(range(count + 1) for count in counts)):
        total = sum(
            size * (2 * gain - count) for size, gain, count in zip((1, 2, 3), gains, counts, strict=True)
        )
        chance = prod(comb(count, gain) / 2**count for gain, count in zip(gains, counts, strict=True))
        chances[total] = chances.get(total, 0.0) + chance

    def p_of(total):
        """The p of changes with this sum."""
        signs = []
        for size, count in zip((3, 2, 1), reversed(counts), strict=True):
            most = size * count
            rest = sum(other * many for other, many in zip((1, 2, 3), counts, strict=True) if other < size)
            losses = min(count, max(0, (most + rest - total) // (2 * size)))
            signs += [size / 3] * (count - losses) + [-size / 3] * losses
            total -= size * (count - 2 * losses)
        return None if total else sign_flip_p(signs)

    p_values = {total: p_of(total) for total in chances if total >= 0}
    assert sum(one is None for one in p_values.values()) == 0
    least = min((total for total, one in p_values.items() if one <= ALPHA), default=10**6)
    assert sum(chance for total, chance in chances.items() if abs(total) >= least) <= ALPHA
    exact = sum(chance for total, chance in chances.items() if abs(total) >= least)
    assert p_values[least] >= exact  # the luck of the seed does not lower it


@given(st.lists(st.floats(-1, 1).filter(bool), min_size=21, max_size=80), st.randoms())
def test_seeded_flips_depend_on_neither_order_nor_direction_nor_scale(changes, random):
    mixed = list(changes)
    random.shuffle(mixed)
    found = sign_flip_p(changes)
    assert sign_flip_p(mixed) == found
    assert sign_flip_p([-one for one in changes]) == found
    assert sign_flip_p([4 * one for one in changes]) == found
    assert 0 <= found <= 1


def test_many_changes_of_any_size_are_bounded_work_and_near_t():
    rng = np.random.default_rng(3)
    for size in (300, 30_000):
        changes = rng.normal(2 / size**0.5, 1, size)
        z = changes.sum() / (changes**2).sum() ** 0.5
        assert sign_flip_p(changes) == pytest.approx(erfc(abs(z) / sqrt(2)), abs=0.01)
    assert sign_flip_p(rng.normal(1, 1, 1_000)) < 1e-12  # many slices need so small a p


def test_seeded_flips_use_one_thread():
    """Threads of a numerical library that wait for a core cost several times the work itself."""
    changes = np.random.default_rng(1).normal(0.3, 1, 119)
    sign_flip_p(changes)  # loads the library
    own, whole = thread_time(), process_time()
    sign_flip_p(changes)
    own, whole = thread_time() - own, process_time() - whole
    assert whole < 1.5 * own


@pytest.mark.parametrize(
    ("sample", "smallest"),
    [
        (passes(0, 0, 5), None),  # five changes are never enough
        (passes(0, 0, 15), 0.5),  # six of fifteen must change the same way
        (passes(0, 4, 11), 0.5),
        (passes(0, 0, 1_000), 0.008),
        (scored([-1, -1, 0.5], 12), 0.2),  # changes of about 0.4
    ],
)
def test_the_smallest_effect_has_as_many_changes_as_the_test_needs(sample, smallest):
    found = sensitivity(sample).smallest_effect
    assert (found is None) == (smallest is None)
    if smallest is not None:
        assert found == pytest.approx(smallest, rel=0.25)
