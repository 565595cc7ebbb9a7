"""
The test of no difference between two runs over different cases: permutations of the cases over the runs.

If the runs are alike, each case is as likely to be in the other one. Of cases that pass or fail, the share of the
permutations with a difference at least as large is Fisher's exact test. Of other values, the difference of the means is
divided by its standard error, as in Welch's t: such a test is exact for runs that are alike, and holds for runs with
one mean and unlike spreads too, if they are large (A. Janssen, Statistics and Probability Letters 36, 1997).

A sample may have strata, each with a weight: then cases are permuted within them. Few permutations are enumerated.
Otherwise random ones with a fixed seed estimate the share, and three standard errors of the estimate are added: the
luck of the seed raises no alarm. From LARGE cases in each run on, the quantile is that of Welch's t.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from math import comb, sqrt
from typing import Any, NamedTuple

from assay.concurrency.loop_budget import spend
from assay.stats.distributions import numpy, special, student_tail

SEED, SPLITS, BATCH = 39, 20_000, 2_000
LIKELY = 0.15  # share of splits in one tail from which more of them decide nothing
EXACT = 20_000  # splits that are enumerated
LARGE = 500  # cases of each run from which t is as exact
MANY, WIDE = (
    1_000,
    3,
)  # cases, and times as many as the smaller run has: above, they are drawn with replacement
NUMBERS = 2_000_000  # of one array: bounds the memory
CLOSE = 1e-9  # of a statistic: equal ones that were added in another order differ in the last digits


class Stratum(NamedTuple):
    """The values of both runs in one part of the cases, as arrays, and the weight of the part."""

    weight: float
    before: Any
    after: Any

    @property
    def difference(self) -> float:
        return float(self.after.mean() - self.before.mean())

    @property
    def variance(self) -> float:
        """Of the difference. One case alone has none that is known."""
        return sum(float(one.var(ddof=1)) / len(one) for one in (self.before, self.after) if len(one) > 1)


def welch(strata: Sequence[Stratum]) -> tuple[float, float]:
    """The standard error of the weighted difference, and its degrees of freedom (Welch and Satterthwaite)."""
    parts = [
        (one.weight**2 * float(side.var(ddof=1)) / len(side), len(side) - 1)
        for one in strata
        for side in (one.before, one.after)
        if len(side) > 1
    ]
    variance = sum(part for part, _ in parts)
    below = sum(part * part / df for part, df in parts)
    return sqrt(variance), variance * variance / below if below else 1.0


def effective_sizes(strata: Sequence[Stratum]) -> tuple[float, float]:
    """How many cases of one stratum would be as sure, in each run."""
    before = sum(one.weight**2 / len(one.before) for one in strata)
    return 1 / before, 1 / sum(one.weight**2 / len(one.after) for one in strata)


def permutation_p(strata: Sequence[Stratum], *, binary: bool) -> float:
    """The two-sided p of runs that are alike: twice the smaller tail."""
    observed = sum(one.weight * one.difference for one in strata)
    if not observed:
        return 1.0
    if binary:
        return min(1.0, 2 * _binary_tail(strata, observed))
    if min(effective_sizes(strata)) >= LARGE:
        error, df = welch(strata)
        return min(1.0, 2 * student_tail(abs(observed) / error, df)) if error else 0.0
    scaled = _scaled(strata)
    statistic = _statistic(*_observed(scaled))
    sign = 1.0 if statistic > 0 else -1.0
    border = statistic * sign * (1 - CLOSE)
    splits = 1
    for one in scaled:
        splits *= comb(_size(one), min(len(one.before), len(one.after)))
    if splits <= EXACT:
        found = _statistic(*_enumerated(scaled))
        return min(1.0, 2 * float((found * sign >= border).mean()))
    return min(1.0, 2 * _estimated((_statistic(*drawn) * sign for drawn in _drawn(scaled)), border))


def _estimated(batches: Iterator[Any], border: float) -> float:
    """The share of random splits at or beyond the border, the sample itself included, and three standard errors."""
    as_large = done = 1
    for found in batches:
        spend()
        as_large += int((found >= border).sum())
        done += len(found)
        if done >= SPLITS or (done > BATCH and as_large > LIKELY * done):
            break
    share = as_large / done
    return share + 3 * sqrt(share * (1 - share) / done)


# Cases that pass or fail: the number of passes of the second run is hypergeometric in each stratum.


class _Passes(NamedTuple):
    """The passes that the second run can have in a stratum: their probabilities, and the weighted differences."""

    differences: Any
    probabilities: Any


def _binary_tail(strata: Sequence[Stratum], observed: float) -> float:
    np, sign = numpy(), 1.0 if observed > 0 else -1.0
    border = observed * sign * (1 - CLOSE)
    every = [_passes(one) for one in strata]
    outcomes = 1
    for one in every:
        outcomes *= len(one.differences)
    if outcomes > EXACT and len(every) > 1:
        return _estimated(_drawn_passes(strata, sign), border)
    sums, chances = np.zeros(1), np.ones(1)
    for one in every:
        sums = np.add.outer(sums, one.differences).ravel()
        chances = np.multiply.outer(chances, one.probabilities).ravel()
    return float(chances[sums * sign >= border].sum())


def _passes(one: Stratum) -> _Passes:
    np, log = numpy(), log_choose
    before, after, passed = len(one.before), len(one.after), int(one.before.sum() + one.after.sum())
    counts = np.arange(max(0, passed - before), min(passed, after) + 1, dtype=float)
    logs = log(after, counts) + log(before, passed - counts) - log(before + after, float(passed))
    return _Passes(one.weight * (counts / after - (passed - counts) / before), np.exp(logs))


def log_choose(cases: int, chosen: Any) -> Any:
    functions: Any = special()
    return (
        functions.gammaln(cases + 1) - functions.gammaln(chosen + 1) - functions.gammaln(cases - chosen + 1)
    )


def _drawn_passes(strata: Sequence[Stratum], sign: float) -> Iterator[Any]:
    np = numpy()
    rng = np.random.default_rng(SEED)
    while True:
        sums = np.zeros(BATCH)
        for one in strata:
            before, after = len(one.before), len(one.after)
            passed = int(one.before.sum() + one.after.sum())
            drawn = rng.hypergeometric(passed, before + after - passed, after, BATCH)
            sums += one.weight * (drawn / after - (passed - drawn) / before)
        yield sums * sign


# Other values: the sum and the sum of squares of the smaller run say the statistic.


class _Moments(NamedTuple):
    """Of the values that the smaller run has in a stratum, for many splits at once."""

    stratum: Stratum
    sums: Any
    squares: Any

    def difference(self) -> tuple[Any, Any]:
        """The weighted difference, the second run minus the first, and its weighted variance."""
        np, one = numpy(), self.stratum
        sizes = sorted((len(one.before), len(one.after)))
        total = float(one.before.sum() + one.after.sum())
        squares = float((one.before**2).sum() + (one.after**2).sum())
        means: list[Any] = []
        variance: Any = 0.0
        for size, sums, own in zip(
            sizes, (self.sums, total - self.sums), (self.squares, squares - self.squares), strict=True
        ):
            means.append(sums / size)
            if size > 1:
                variance = variance + np.maximum(0.0, own - sums * sums / size) / (size - 1) / size
        smaller_is_after = len(one.after) < len(one.before)
        difference = means[0] - means[1] if smaller_is_after else means[1] - means[0]
        return one.weight * difference, one.weight**2 * variance


def _size(one: Stratum) -> int:
    return len(one.before) + len(one.after)


def _scaled(strata: Sequence[Stratum]) -> list[Stratum]:
    """The values around the mean of their stratum, on one scale: sums stay in the range of a float."""
    centred: list[Stratum] = []
    for one in strata:
        middle = (one.before.mean() * len(one.before) + one.after.mean() * len(one.after)) / _size(one)
        centred.append(Stratum(one.weight, one.before - middle, one.after - middle))
    largest = max(float(abs(side).max()) for one in centred for side in (one.before, one.after))
    return [Stratum(one.weight, one.before / largest, one.after / largest) for one in centred]


def _observed(strata: Sequence[Stratum]) -> tuple[Any, Any]:
    numerator = denominator = 0.0
    for one in strata:
        side = one.after if len(one.after) < len(one.before) else one.before
        parts = _Moments(one, side.sum(), (side**2).sum()).difference()
        numerator, denominator = numerator + parts[0], denominator + parts[1]
    return numerator, denominator


def _statistic(numerator: Any, denominator: Any) -> Any:
    """The difference by its standard error. Without any spread it is infinite, on the side of the difference."""
    np = numpy()
    tiny = 1e-18  # of values between -1 and 1: what rounding leaves of no spread
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(
            np.asarray(denominator) > tiny,
            numerator / np.sqrt(denominator),
            np.where(abs(np.asarray(numerator)) > CLOSE, np.sign(numerator) * np.inf, 0.0),
        )
    return found if found.ndim else float(found)


def _enumerated(strata: Sequence[Stratum]) -> tuple[Any, Any]:
    np = numpy()
    numerators, denominators = np.zeros(1), np.zeros(1)
    for one in strata:
        pool = np.concatenate((one.before, one.after))
        chosen = min(len(one.before), len(one.after))
        indices = np.fromiter(
            chain.from_iterable(combinations(range(len(pool)), chosen)), dtype=np.intp
        ).reshape(-1, chosen)
        values = pool[indices]
        parts = _Moments(one, values.sum(axis=1), (values**2).sum(axis=1)).difference()
        numerators = np.add.outer(numerators, parts[0]).ravel()
        denominators = np.add.outer(denominators, parts[1] + np.zeros(len(values))).ravel()
    return numerators, denominators


def _drawn(strata: Sequence[Stratum]) -> Iterator[tuple[Any, Any]]:
    np = numpy()
    rng = np.random.default_rng(SEED)
    pools = [np.concatenate((one.before, one.after)) for one in strata]
    batch = max(1, min(BATCH, NUMBERS // max(map(len, pools))))
    while True:
        numerator: Any = 0.0
        denominator: Any = 0.0
        for one, pool in zip(strata, pools, strict=True):
            chosen = min(len(one.before), len(one.after))
            if len(pool) > max(MANY, WIDE * chosen):
                values = pool[rng.integers(0, len(pool), (batch, chosen))]
                shrink = sqrt((len(pool) - chosen) / len(pool))  # the spread of draws without replacement
            else:
                values = rng.permuted(np.broadcast_to(pool, (batch, len(pool))), axis=1)[:, :chosen]
                shrink = 1.0
            parts = _Moments(one, values.sum(axis=1), (values**2).sum(axis=1)).difference()
            numerator, denominator = numerator + shrink * parts[0], denominator + parts[1]
        yield numerator, denominator
