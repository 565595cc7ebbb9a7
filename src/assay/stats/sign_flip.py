"""
The exact sign-flip permutation test of a mean difference, for few cases, and the interval that it gives.

Under a true mean m, each difference minus m is as likely as its negative. The one-sided p of m is the share of the
sign changes that give a sum at least as large. Flipping a set of cases gives such a sum exactly if the mean of the
set is at most m. The limits are therefore order statistics of the means of all sets (J. A. Hartigan, Using subsample
values as typical values, 1969). They need no search and no random numbers.
"""

from collections.abc import Sequence
from math import floor
from typing import Any

from assay.stats.distributions import numpy

MAX_CASES = 20  # a million sets
LARGEST_POWER = 290  # of ten, that a float holds with room for the digits


class SignFlip:
    """The means of all sets of the differences, sorted."""

    def __init__(self, differences: Sequence[float]) -> None:
        if not 0 < len(differences) <= MAX_CASES:
            raise ValueError(f"sign flips: expected 1 to {MAX_CASES} cases, got {len(differences)}")
        np = numpy()
        sums, sizes = np.zeros(1), np.zeros(1)
        with np.errstate(over="ignore", invalid="ignore"):  # the limits are then infinite or not a number
            for one in differences:
                sums, sizes = np.concatenate((sums, sums + one)), np.concatenate((sizes, sizes + 1))
            means = sums[1:] / sizes[1:]
        digits = 12 - _magnitude(differences)
        if (
            abs(digits) < LARGEST_POWER
        ):  # equal means that were added in another order differ in the last digits
            means = np.round(means, digits)
        self._means: Any = np.sort(means)
        self._patterns = 2 ** len(differences)

    def interval(self, level: float) -> tuple[float, float] | None:
        """None if so few cases cannot exclude any mean at this level."""
        rank = floor((1 - level) / 2 * self._patterns * (1 + 1e-12))
        if rank == 0:
            return None
        return float(self._means[rank - 1]), float(self._means[-rank])

    def p_value(self, mean: float = 0.0) -> float:
        """The two-sided p of a true mean: the test that `interval` inverts."""
        return min(1.0, 2 * min(self.above(mean), self.below(mean)))

    def above(self, mean: float) -> float:
        """The one-sided p against a larger mean."""
        return (1 + int((self._means <= mean).sum())) / self._patterns

    def below(self, mean: float) -> float:
        """The one-sided p against a smaller mean."""
        return (1 + int((self._means >= mean).sum())) / self._patterns


def _magnitude(differences: Sequence[float]) -> int:
    largest = max(abs(one) for one in differences)
    return floor(numpy().log10(largest)) if largest > 0 else 0
