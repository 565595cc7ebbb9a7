"""
Limits of a mean that hold at every look: a confidence sequence, for runs that stop as soon as they have decided.

The values are bounded and arrive in a random order. Against each mean m, a gambler starts with 1 and bets the share c
of it on every value: a value y on the scale from 0 to 1 multiplies it by 1 + c(y/m - 1). If the mean is at most m,
the capital cannot be expected to grow, so the chance that it ever reaches 40 is at most 1/40 (Ville's inequality).
Every m at which it did is below the lower limit. The upper limit mirrors it. Both together are wrong at some look in
at most 5% of all runs, whenever a run stops.

The best c depends on what is measured, so the capital is divided over many c with the weights of Beta(2, 2.5). Sources:
I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, 2024; F. Orabona and K.-S. Jun,
Tight concentrations and confidence sequences from the regret of universal portfolio, 2021. docs/statistics.md has the
simulations.
"""

from collections import Counter
from functools import cache
from math import ceil, isfinite, log
from typing import Any

from msgspec import Struct

from assay.stats.distributions import numpy
from assay.stats.paired import LEVEL

BETS = 64  # different shares of the capital
STEPS = 40  # of a bisection: an error of 1e-12 of the range
CELLS = 1024  # of values, if a run has more distinct ones: a limit is then wider by one cell at most
LOOKS = 50  # of a run with many cases
SMALLEST_ROUND = 10  # cases


def round_size(cases: int) -> int:
    """The cases between two looks of a run with so many."""
    return max(SMALLEST_ROUND, ceil(cases / LOOKS))


class Limits(Struct, frozen=True):
    """The mean of `n` values so far, with limits that hold at every look."""

    estimate: float | None
    low: float
    high: float
    n: int


class ConfidenceSequence:
    """The values of a run between `low` and `high`, one for each case, and the limits of their mean."""

    def __init__(self, low: float, high: float, level: float = LEVEL) -> None:
        if not (isfinite(low) and isfinite(high) and low < high):
            raise ValueError(f"range: expected two numbers in ascending order, got {low:g} and {high:g}")
        self._from, self._span, self._bar = low, high - low, log(2 / (1 - level))
        self._counts, self._exact = Counter[float](), True
        self._sum, self._n = 0.0, 0

    def add(self, value: float) -> None:
        """Add the value of one case."""
        scaled = (value - self._from) / self._span
        if not 0 <= scaled <= 1:
            raise ValueError(
                f"value: expected a number from {self._from:g} to {self._from + self._span:g}, got {value:g}"
            )
        self._counts[scaled if self._exact else _cell(scaled)] += 1
        self._sum += value
        self._n += 1
        if self._exact and len(self._counts) > CELLS:
            self._exact = False
            counts, self._counts = self._counts, Counter[float]()
            for one, times in counts.items():
                self._counts[_cell(one)] += times

    def look(self, before: Limits | None = None) -> Limits:
        """The limits now, never wider than those `before`, because limits hold at all looks together."""
        low, high = self._from, self._from + self._span
        if self._n:
            np = numpy()
            values = np.array(sorted(self._counts))
            counts = np.array([self._counts[one] for one in values.tolist()], dtype=float)
            # of a value in a cell, each limit takes the end that makes the interval wider
            least, largest = (
                (values, values) if self._exact else (np.floor(values) / CELLS, np.ceil(values) / CELLS)
            )
            low += self._span * self._highest_refuted(least, counts)
            high -= self._span * self._highest_refuted(1.0 - largest, counts)
        if before is not None:
            low = min(max(low, before.low), before.high)  # they cross in few runs of a thousand
            high = max(min(high, before.high), low)
        return Limits(self._sum / self._n if self._n else None, low, high, self._n)

    def _highest_refuted(self, values: Any, counts: Any) -> float:
        """The largest mean that these values have refuted as too small. The capital falls as the mean grows."""
        low, high = 0.0, 1.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            if log_capital(values, counts, middle) >= self._bar:
                low = middle
            else:
                high = middle
        return low


def _cell(scaled: float) -> float:
    """The number of the cell of a value, plus a half if the value is not at its lower end."""
    at = scaled * CELLS
    return at if at == int(at) else int(at) + 0.5


def log_capital(values: Any, counts: Any, mean: float) -> Any:
    """
    The logarithm of the capital against means up to `mean`, from values between 0 and 1 and how often each was seen.

    `counts` may have more dimensions in front: each row of the last one is a run of its own.
    """
    np = numpy()
    shares, weights = _bets()
    growth = np.log1p(shares[:, None] * (values[None, :] / mean - 1.0))
    logs = counts @ growth.T
    largest = logs.max(axis=-1, keepdims=True)
    return largest[..., 0] + np.log((np.exp(logs - largest) * weights).sum(axis=-1))


@cache
def _bets() -> tuple[Any, Any]:
    """The shares of the capital that are bet, and how much of it has each."""
    np = numpy()
    shares = (np.arange(BETS) + 0.5) / BETS
    weights = shares * (1 - shares) ** 1.5
    return shares, weights / weights.sum()
