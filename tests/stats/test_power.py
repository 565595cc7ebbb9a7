"""The planned number of cases and the smallest effect reach the power that they state, with the interval that is really used."""

from functools import cache
from math import comb, sqrt

import pytest

from assay.stats.paired import PairedSample
from assay.stats.power import (
    MAX_EXACT,
    POWER,
    binary_cases,
    mean_cases,
    show_power,
    smallest_binary_effect,
    smallest_effect,
    smallest_sign_flip_effect,
    within_power,
)
from support.lazy_module import lazy_module

np = lazy_module("numpy")
ROUNDS, ALL_ROUNDS = 200, 1_000


@cache
def limits(gains, losses, cases):
    """The limits that a comparison with these counts shows."""
    unchanged = cases - gains - losses
    after = [1] * gains + [0] * losses + [0] * unchanged
    found = PairedSample.of([0] * gains + [1] * losses + [0] * unchanged, after).interval()
    return found.low, found.high


def shows(low, _):
    return low > 0


def is_within(margin):
    return lambda low, high: -margin < low and high < margin


def plain_power(effect, share, cases, answer):
    """The probability of the answer, outcome by outcome."""
    gain, loss = (share + effect) / 2, (share - effect) / 2
    return sum(
        comb(cases, gains)
        * comb(cases - gains, losses)
        * gain**gains
        * loss**losses
        * (1 - share) ** (cases - gains - losses)
        for gains in range(cases + 1)
        for losses in range(cases + 1 - gains)
        if answer(*limits(gains, losses, cases))
    )


@pytest.mark.parametrize("cases", [6, 8, 14, 15, 20])
def test_the_power_of_passes_and_failures_is_that_of_all_outcomes(cases):
    for share, effect in ((0.3, 0.1), (0.8, 0.6), (1.0, 0.9)):
        expected = plain_power(effect, share, cases, shows)
        assert show_power(effect, share, cases, 0.95) == pytest.approx(expected, abs=1e-6)
    if cases >= 15:
        for share, margin in ((0.05, 0.25), (0.3, 0.4), (1.0, 0.9)):
            expected = plain_power(0.0, share, cases, is_within(margin))
            assert within_power(margin, share, cases, 0.95) == pytest.approx(expected, abs=1e-6)


def test_the_normal_distribution_continues_the_sums():
    for power, effect in ((show_power, 0.0038), (within_power, 0.005)):
        last, first = power(effect, 0.2, MAX_EXACT, 0.95), power(effect, 0.2, MAX_EXACT + 1, 0.95)
        assert last == pytest.approx(first, abs=4e-3)
        assert 0.5 < last < 0.99


def binary_share(rng, rounds, cases, share, effect, answer):
    """The share of simulated comparisons that give the answer."""
    share = max(share, effect)
    drawn = rng.multinomial(cases, [(share + effect) / 2, (share - effect) / 2, 1 - share], rounds)
    return sum(answer(*limits(int(gains), int(losses), cases)) for gains, losses, _ in drawn) / rounds


def normal_share(rng, rounds, cases, mean, answer):
    found = 0
    for differences in rng.normal(mean, 1.0, (rounds, cases)):
        result = PairedSample.of([0.0] * cases, differences, span=None).interval()
        found += answer(result.low, result.high)
    return found / rounds


def test_simulated_comparisons_reach_the_power(series):
    """A small grid in `make test`, the whole one in `make soak`. Each share may be three standard errors below 80%."""
    rounds, soak = series(ROUNDS, ALL_ROUNDS), series(False, True)
    rng, reached = np.random.default_rng(7), {}
    for cases in (8, 10, 12, 14, 15, 20, 50, 200) if soak else (14, 20):
        for share in (0.2, 0.5, 0.9):
            effect = smallest_binary_effect(cases, share)
            if effect is not None:
                reached["effect", cases, share] = binary_share(rng, rounds, cases, share, effect, shows)
    for margin in (0.05, 0.1, 0.2) if soak else (0.1, 0.2):
        for share in (0.02, 0.2, 0.5):
            cases, share = binary_cases(margin, share), max(share, margin)  # noqa: PLW2901
            reached["shows", margin, share] = binary_share(rng, rounds, cases, share, margin, shows)
            reached["within", margin, share] = binary_share(rng, rounds, cases, share, 0.0, is_within(margin))
    for cases in (6, 7, 8, 9, 10, 12, 14, 15, 30) if soak else (6, 8, 15):
        smallest = smallest_sign_flip_effect if cases < 15 else smallest_effect
        reached["mean", cases] = normal_share(rng, rounds, cases, smallest(cases, 1.0), shows)
    for margin in (0.3, 0.5, 0.8) if soak else (0.5,):
        cases = mean_cases(margin, 1.0)
        reached["mean within", margin] = normal_share(rng, rounds, cases, 0.0, is_within(margin))
        reached["mean shows", margin] = normal_share(rng, rounds, cases, margin, shows)
    least = POWER - 3 * sqrt(POWER * (1 - POWER) / rounds)
    assert {cell: found for cell, found in reached.items() if found < least} == {}
