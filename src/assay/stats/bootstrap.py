"""
The BCa bootstrap interval of a difference of two metrics that are not means, such as medians or F1.

scipy computes it. The cases are drawn in pairs, with a seed: equal input has an equal interval. For few cases the
bootstrap excludes 0 too often. A permutation test that swaps the runs within cases is exact if the runs are alike, so
the interval excludes 0 exactly where that test rejects. The cases of runs that are not paired are drawn from each run,
and permuted over both.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from math import isfinite
from typing import Any

from assay.errors import InvalidRequest
from assay.extras import require
from assay.stats.distributions import FEATURE, numpy
from assay.stats.paired import LEVEL, PairedResult, agreeing_limits

LEAST_CASES, MOST_CASES = 30, 5_000
RESAMPLES = 2_000
BATCH_NUMBERS = 2_000_000  # of one array of resamples: bounds the memory

Statistic = Callable[[Any, int], Any]  # of an array along an axis, as `numpy.median`


def bootstrap_interval(
    statistic: Statistic,
    before: Sequence[float],
    after: Sequence[float],
    *,
    seed: int = 0,
    level: float = LEVEL,
    is_paired: bool = True,
) -> PairedResult:
    """
    The difference of `statistic(values, axis)` between the runs, with its BCa interval; from 30 to 5,000 cases.

    `p_value` is that of the permutation test; the interval excludes 0 exactly if it is at most 1 - level. If all
    resamples have the same difference, there is no interval: `low` and `high` are None.
    """
    cases = len(before)
    if is_paired and cases != len(after):
        raise ValueError(f"expected as many cases before as after, got {cases} and {len(after)}")
    for size in (cases, len(after)):
        if not LEAST_CASES <= size <= MOST_CASES:
            raise InvalidRequest(
                f"expected {LEAST_CASES} to {MOST_CASES} cases for a bootstrap interval, got {size}; "
                "a metric that is a mean has an interval for any number of cases"
            )
    require(FEATURE, "compare")
    np, stats = numpy(), import_module("scipy.stats")
    values = np.asarray(before, dtype=float), np.asarray(after, dtype=float)

    def difference(one: Any, other: Any, axis: int = -1) -> Any:
        return statistic(other, axis) - statistic(one, axis)

    first, second = (float(statistic(one, -1)) for one in values)
    low = high = None
    if len({*zip(before, after, strict=True)} if is_paired else {*before, *after}) > 1:
        batch = max(1, BATCH_NUMBERS // max(cases, len(after)))
        with np.errstate(all="ignore"):  # a degenerate distribution has no limits; it is answered below
            found = _bootstrap(stats, values, difference, level, seed, batch, is_paired=is_paired)
        low, high = (float(one) if isfinite(one) else None for one in found)
    p_value = _swap_p(difference, values, seed) if is_paired else _permutation_p(difference, values, seed)
    if low is None or high is None or low == high:
        low = high = None
    else:
        low, high = agreeing_limits(second - first, (low, high), p_value, level) or (None, None)
    n, sizes = (cases, None) if is_paired else (cases + len(after), (cases, len(after)))
    return PairedResult(first, second, second - first, low, high, level, "bca", n, p_value, sizes=sizes)


def _swap_p(difference: Any, values: Any, seed: int) -> float:
    """The two-sided p of runs that are alike: the share of random swaps with a difference at least as large."""
    np = numpy()
    rng = np.random.default_rng(seed)
    before, after = values
    observed = abs(float(difference(before, after))) * (1 - 1e-12)
    as_large, batch = 0, max(1, BATCH_NUMBERS // len(before))
    for start in range(0, RESAMPLES, batch):
        swaps = rng.random((min(batch, RESAMPLES - start), len(before))) < 0.5
        found = difference(np.where(swaps, after, before), np.where(swaps, before, after))
        as_large += int((np.abs(found) >= observed).sum())
    return (1 + as_large) / (1 + RESAMPLES)


def _permutation_p(difference: Any, values: Any, seed: int) -> float:
    """The same of runs that are not paired: the cases are permuted over both."""
    np = numpy()
    rng = np.random.default_rng(seed)
    pool, first = np.concatenate(values), len(values[0])
    observed = abs(float(difference(*values))) * (1 - 1e-12)
    as_large, batch = 0, max(1, BATCH_NUMBERS // len(pool))
    for start in range(0, RESAMPLES, batch):
        shape = min(batch, RESAMPLES - start), len(pool)
        drawn = rng.permuted(np.broadcast_to(pool, shape), axis=1)
        found = difference(drawn[:, :first], drawn[:, first:])
        as_large += int((np.abs(found) >= observed).sum())
    return (1 + as_large) / (1 + RESAMPLES)


def _bootstrap(
    stats: Any, values: Any, difference: Any, level: float, seed: int, batch: int, *, is_paired: bool
) -> Any:
    catch = import_module("warnings").catch_warnings
    with catch(action="ignore"):  # scipy warns of a degenerate distribution
        return stats.bootstrap(
            values,
            difference,
            paired=is_paired,
            vectorized=True,
            method="BCa",
            n_resamples=RESAMPLES,
            confidence_level=level,
            batch=batch,
            rng=numpy().random.default_rng(seed),
        ).confidence_interval
