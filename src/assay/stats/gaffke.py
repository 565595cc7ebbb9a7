"""
Gaffke's interval for the mean of independent values in a known range (N. Gaffke, Three test statistics for a
nonparametric one-sided hypothesis on the mean of a nonnegative variable, 2005; E. Learned-Miller and P. Thomas, 2020).

With uniform random weights D that sum to 1, the lower limit is the 2.5% quantile of D₀·0 + D₁x₁ + … + Dₙxₙ on the scale
from 0 to 1; the upper limit mirrors it. For values of 0 and 1 it is Clopper and Pearson's interval. It never has zero
width, never leaves the range, and needs no assumption about the values.

The weights are exponential variables divided by their sum, so the sum is at most t exactly if Y = Σ (xᵢ - t)·Eᵢ is at
most 0. The probability of that is an integral of exp(K(s)) / s along a vertical line, K being the cumulant function of
Y. The line goes through the saddle point, where the integrand is smooth. The trapezoidal rule on the scale of sinh then
has errors below 1e-6.
"""

from bisect import bisect_left
from cmath import log as complex_log
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import atan2, cos, cosh, exp, hypot, log, log1p, pi, sinh, sqrt
from typing import NamedTuple

TAIL = 0.025  # on each side
Z = 1.9599639845400536  # NormalDist().inv_cdf(1 - TAIL); a number, as `statistics` loads slowly; a test compares them
MAX_DISTINCT = (
    512  # distinct values that are kept as they are; more are put into as many cells of equal width
)
CHUNK = 16_384  # values that are counted at a time
# the weight of one value in the cells; integers, so that their sums do not depend on the order
UNIT = 1 << 31
NEGLIGIBLE = 1e-15  # of the integrand
MAX_ROUNDS = 60  # of the search for a root
CLOSE = 1e-6  # of the approximation to its root; the integral corrects the rest
WIDENING = 2.0  # of the bracket of a root
NUDGE = 1e-4  # for a numerical derivative
DENSITY = 0.05844507  # of the normal distribution at Z

Nodes = Sequence[
    tuple[float, float]
]  # distinct values, ascending, each with the number of cases that have it


class Tail(NamedTuple):
    """What the limits leave out on each side, its quantile of the normal distribution, and the density there."""

    share: float
    z: float
    density: float


USUAL = Tail(TAIL, Z, DENSITY)


def tail_of(level: float) -> Tail:
    """The tail of an interval at this level."""
    if level == 1 - 2 * TAIL:
        return USUAL
    from statistics import NormalDist  # deferred import: it loads fractions, decimals and random numbers

    share = (1 - level) / 2
    z = -NormalDist().inv_cdf(share)
    return Tail(share, z, NormalDist().pdf(z))


def mean_limits(
    counts: Mapping[float, float], low: float = 0.0, high: float = 1.0, tail: Tail = USUAL
) -> tuple[float, float]:
    """The limits of the mean of values between `low` and `high`, from the number of cases with each value; 95%."""
    width = high - low
    nodes = [((value - low) / width, counts[value]) for value in sorted(counts)]
    mirrored = [(1 - value, many) for value, many in reversed(nodes)]
    return low + width * _lower_limit(nodes, tail), high - width * _lower_limit(mirrored, tail)


def count_values(
    values: Iterable[float], low: float = 0.0, high: float = 1.0, most: int = MAX_DISTINCT
) -> dict[float, float]:
    """
    The number of cases with each value, in bounded memory, whatever the order of the values is.

    More than `most` values are divided between the two ends of their cell, so that the mean stays and the spread
    never shrinks.
    """
    counts = Counter[float]()
    cells: ValueCells | None = None
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK)):
        if cells is None:
            counts.update(chunk)
            if len(counts) <= most:
                continue
            cells = ValueCells(low, high, most)
            cells.add_counts(counts)
            continue
        cells.add(chunk)
    return dict(counts) if cells is None else cells.counts()


class ValueCells:
    """
    Values in cells of equal width: for each cell their number and the sum of their distances from its lower end.

    Cells of parts add up to those of all values, in any order.
    """

    def __init__(self, low: float, high: float, cells: int = MAX_DISTINCT) -> None:
        self._low, self._width = low, (high - low) / cells
        self._numbers, self._distances = [0] * (cells + 1), [0] * (cells + 1)

    def add(self, values: Iterable[float]) -> None:
        low, scale = self._low, UNIT / self._width
        places = sorted([int((value - low) * scale) for value in values])
        first = 0
        while first < len(places):
            cell = places[first] // UNIT
            last = bisect_left(places, (cell + 1) * UNIT, first)
            self._numbers[cell] += last - first
            self._distances[cell] += sum(places[first:last]) - (last - first) * cell * UNIT
            first = last

    def add_counts(self, values: Mapping[float, int]) -> None:
        """As `add`, with the number of cases of each value."""
        low, scale = self._low, UNIT / self._width
        for value, many in values.items():
            cell, distance = divmod(int((value - low) * scale), UNIT)
            self._numbers[cell] += many
            self._distances[cell] += many * distance

    def merge(self, other: "ValueCells") -> None:
        """Add the values of other cells of the same range."""
        self._numbers = [one + two for one, two in zip(self._numbers, other._numbers, strict=True)]
        self._distances = [one + two for one, two in zip(self._distances, other._distances, strict=True)]

    def counts(self) -> dict[float, float]:
        before = [0, *self._distances]
        weights = [
            number * UNIT - distance + moved
            for number, distance, moved in zip(self._numbers, self._distances, before, strict=False)
        ]
        return {self._low + self._width * at: weight / UNIT for at, weight in enumerate(weights) if weight}


def _lower_limit(nodes: Nodes, tail: Tail) -> float:
    """The lower limit of the mean of values between 0 and 1."""
    largest = nodes[-1][0]
    if largest <= 0:
        return 0.0
    if len(nodes) == 1:
        return largest * tail.share ** (1 / nodes[0][1])
    if nodes[0][0] == 0:
        scaled = [(0.0, nodes[0][1] + 1), *((value / largest, many) for value, many in nodes[1:])]
    else:
        scaled = [(0.0, 1.0), *((value / largest, many) for value, many in nodes)]
    return largest * _quantile(scaled, tail)


class _Tilt(NamedTuple):
    """The saddle point of Y for one t. `r_star`: Barndorff-Nielsen's normal quantile of P(Y <= 0)."""

    t: float
    reference: float  # -1 / s
    cumulant: float  # K(s)
    r_star: float
    slopes: list[
        tuple[float, float]
    ]  # for each node its number of cases, and the derivative of its logarithm


def _tilt(nodes: Nodes, log_distance: float) -> _Tilt:
    """
    The saddle point of the t to which weights in proportion to 1 / (x + distance) lead. A larger distance gives a
    larger t.
    """
    distance = exp(log_distance)
    weights = [many / (value + distance) for value, many in nodes]
    t = sum([weight * value for weight, (value, _) in zip(weights, nodes, strict=True)]) / sum(weights)
    reference = t + distance
    slopes = [(many, (value - t) * reference / (value + distance)) for value, many in nodes]
    cumulant = -sum([many * log1p((value - t) / reference) for value, many in nodes])
    r = -sqrt(max(0.0, -2 * cumulant))
    u = -sqrt(sum([many * slope * slope for many, slope in slopes])) / reference
    return _Tilt(t, reference, cumulant, r + log(u / r) / r if r < -1e-3 else 0.0, slopes)


def _tail_probability(tilt: _Tilt, step: float) -> float:
    """P(Y <= 0): the integral along the vertical line through the saddle point."""
    scale = 1 / sqrt(sum([many * slope * slope for many, slope in tilt.slopes]))
    inverse = 1 / tilt.reference
    total, at = 0.0, step / 2
    while True:
        height = scale * sinh(at)
        logarithm = sum([many * complex_log(complex(1, height * slope)) for many, slope in tilt.slopes])
        size = exp(tilt.cumulant - logarithm.real) / hypot(inverse, height) * cosh(at)
        total += size * cos(logarithm.imag + atan2(height, inverse))
        if size < NEGLIGIBLE / scale:
            return total * scale * step / pi
        at += step


def _quantile(nodes: Nodes, tail: Tail) -> float:
    """The t with P(Y <= 0) = the tail: first by the approximation, then twice corrected by the integral."""
    size = sum([many for _, many in nodes])
    step = 0.2 if size < 16 else 0.1 if size < 200 else 0.05
    at = _approximate(nodes, tail.z)
    tilt = _tilt(nodes, at)
    wrong = _tail_probability(tilt, step) - tail.share
    slope = (_tilt(nodes, at + NUDGE).r_star - tilt.r_star) / NUDGE
    second_at = at - wrong / tail.density / slope
    second = _tilt(nodes, second_at)
    second_wrong = _tail_probability(second, step) - tail.share
    if second_wrong == wrong:
        return second.t
    return _tilt(nodes, second_at - second_wrong * (second_at - at) / (second_wrong - wrong)).t


def _approximate(nodes: Nodes, z: float) -> float:
    """The logarithm of the distance at which `r_star` is -z, by the regula falsi of Illinois."""
    low = high = 0.0
    below = above = _tilt(nodes, 0.0).r_star + z
    while below >= 0:
        high, above = low, below
        low -= WIDENING
        below = _tilt(nodes, low).r_star + z
    while above < 0:
        low, below = high, above
        high += WIDENING
        above = _tilt(nodes, high).r_star + z
    for _ in range(MAX_ROUNDS):
        middle = (low * above - high * below) / (above - below)
        value = _tilt(nodes, middle).r_star + z
        if abs(value) < CLOSE:
            return middle
        if value < 0:
            low, below, above = middle, value, above / 2
        else:
            high, above, below = middle, value, below / 2
    return (low + high) / 2
