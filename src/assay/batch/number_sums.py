"""Sums of the numbers of a check that add up: the mean, its interval and the quantiles of parts in any order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from math import fsum, isinf, sqrt
from typing import Any

from assay.extras import require
from assay.results.number_ranges import common_range
from assay.results.statistics import SCORE
from assay.stats.gaffke import MAX_DISTINCT, ValueCells
from assay.stats.intervals import UNIT, Mean, Range, mean_in_range, mean_without_range

ACCURACY = 0.01  # of a quantile: its distance from a true one, as a share of it
SHIFT = 1_074  # bits after the point of the smallest float: every float is a whole number of these


class NumberSums:
    """
    The numbers of a check under one name. All sums are whole numbers, so they do not depend on parts or their order.

    Up to MAX_DISTINCT values are counted; more of a known range go to cells of equal width.
    """

    def __init__(self, name: str, limits: Range | None) -> None:
        require("assay.batch.summarize", "cluster", package="ddsketch")
        self.limits = limits if limits or name != SCORE else UNIT
        self.answers = self.cases = 0
        self._sum = self._squares = 0
        self._low, self._high = float("inf"), float("-inf")
        self._counts: Counter[float] | None = Counter()
        self._cells: ValueCells | None = None
        self._sketch: Any = import_module("ddsketch").DDSketch(ACCURACY)

    def add_case(self, answers: Sequence[float]) -> None:
        """Add the numbers of one case: one for each of its trials."""
        value = answers[0] if len(answers) == 1 else fsum(one / len(answers) for one in answers)
        self.answers += len(answers)
        self.cases += 1
        exact = _whole(value)
        self._sum += exact
        self._squares += exact * exact
        self._low, self._high = min(self._low, value), max(self._high, value)
        self._add_counts({value: 1})
        for one in answers:
            self._sketch.add(one)

    def merge(self, other: "NumberSums") -> None:
        """Add the numbers of other cases."""
        if self.limits is not None:
            self.limits = None if other.limits is None else common_range(self.limits, other.limits)
        self.answers += other.answers
        self.cases += other.cases
        self._sum += other._sum
        self._squares += other._squares
        self._low, self._high = min(self._low, other._low), max(self._high, other._high)
        self._sketch.merge(other._sketch)
        if other._counts is not None:
            self._add_counts(other._counts)
        elif other._cells is None or not self._uses_cells():
            self._counts = self._cells = None
        else:
            assert self._cells is not None
            self._cells.merge(other._cells)

    def _add_counts(self, counts: Mapping[float, int]) -> None:
        if self._counts is not None:
            self._counts.update(counts)
            if len(self._counts) > MAX_DISTINCT:
                self._uses_cells()
        elif self._uses_cells():
            assert self._cells is not None
            self._cells.add_counts(counts)

    def _uses_cells(self) -> bool:
        """Move the counts to cells. False: a value is outside of the range, so the interval needs no counts."""
        if self.limits is None or self._low < self.limits[0] or self._high > self.limits[1]:
            self._counts = self._cells = None
        elif self._counts is not None:
            self._cells = ValueCells(*self.limits)
            self._cells.add_counts(self._counts)
            self._counts = None
        return self._cells is not None

    def mean(self) -> Mean:
        """The mean over the cases with its interval, as `mean_of` has it of all values."""
        mean = _float(Fraction(self._sum, 1 << SHIFT)) / self.cases
        if isinf(mean):
            mean = _float(Fraction(self._sum, self.cases << SHIFT))
        limits = self.limits
        if limits is not None and limits[0] <= self._low and self._high <= limits[1]:
            counts = self._cells.counts() if self._cells is not None else dict(self._counts or {})
            return mean_in_range(mean, self.cases, self.answers, counts, limits)
        return mean_without_range(mean, self.cases, self.answers, self._deviation)

    def _deviation(self) -> float | None:
        spread = self._squares - Fraction(self._sum * self._sum, self.cases)
        variance = _float(spread / ((self.cases - 1) << 2 * SHIFT))
        return None if isinf(variance) else sqrt(variance)

    def quantile(self, share: float) -> float:
        """The approximate quantile of the answers: within ACCURACY of a value at that rank."""
        return float(self._sketch.get_quantile_value(share))


def _whole(value: float) -> int:
    """The value in units of the smallest float."""
    part, whole = value.as_integer_ratio()
    return part << SHIFT - (whole.bit_length() - 1)


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
