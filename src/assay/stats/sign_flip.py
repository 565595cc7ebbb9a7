"""
The sign-flip permutation test of a mean difference, and the interval that it gives for few cases.

`sign_flip_p` is the test of no difference. If the runs are alike, each case that changed is as likely to have changed
the other way. Cases that did not change have no part in it. It is exact if all changes are equally large (McNemar's
exact test) and for up to 20 changed cases. Beyond, random flips with a fixed seed estimate it, and three standard
errors of the estimate are added: the luck of the seed raises no alarm.

`SignFlip` has the means that the test accepts. Under a true mean m, each difference minus m is as likely as its
negative. The one-sided p of m is the share of the sign changes that give a sum at least as large. Flipping a set of
cases gives such a sum exactly if the mean of the set is at most m. The limits are therefore order statistics of the
means of all sets (J. A. Hartigan, Using subsample values as typical values, 1969). They need no search and no random
numbers.
"""

from collections.abc import Callable, Sequence
from math import floor, sqrt
from typing import Any

from assay.stats.distributions import binomial_cdf, normal_quantile, normal_tail, numpy

MAX_CASES = 20  # a million sets
SEED, FLIPS, BATCH = 20, 40_000, 4_000
LARGE = 0.15  # share of flips in one tail from which more of them decide nothing
GRID = 2**30  # steps from 0 to the largest change: sums of whole numbers are exact
MAX_SIZES = 256  # of changes that are flipped one by one; the sum of the smaller ones is normal
GAUSSIAN_BOUND = 3.178  # of a sum of random signs: V. Bentkus and D. Dzindzalieta, Bernoulli 21 (2015)
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
        # equal means that were added in another order differ in the last digits
        if abs(digits) < LARGEST_POWER:
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


def sign_flip_p(changes: Sequence[float]) -> float:
    """The two-sided p of no difference, from the differences of the cases that changed. Without any it is 1."""
    np = numpy()
    values = np.asarray(changes, dtype=float)
    if not len(values):
        return 1.0
    steps = np.rint(values / np.abs(values).max() * GRID)
    sizes, counts = np.unique(np.abs(steps[steps != 0]), return_counts=True)
    if len(sizes) == 1:
        return mcnemar_p(int((steps > 0).sum()), int((steps < 0).sum()))
    if len(values) <= MAX_CASES:
        return _exact_p(steps)
    total = abs(float(steps.sum()))
    below = GAUSSIAN_BOUND * normal_tail(total / sqrt(float((sizes**2 * counts).sum())))
    share, flips = _share_as_large(sizes, counts, total)
    return min(1.0, 2 * min(below, share + 3 * sqrt(share * (1 - share) / flips)))


def _exact_p(steps: Any) -> float:
    """Flipping a set gives a sum at least as large exactly if the sum of the set is at most 0."""
    np = numpy()
    sums = np.zeros(1)
    for one in steps:
        sums = np.concatenate((sums, sums + one))
    return min(1.0, 2 * min(float((sums <= 0).mean()), float((sums >= 0).mean())))


def _share_as_large(sizes: Any, counts: Any, total: float) -> tuple[float, int]:
    """The share of random flips whose sum is at least `total`, and their number, the changes themselves included."""
    np = numpy()
    rng = np.random.default_rng(SEED)
    order = np.argsort(-(sizes**2) * counts, kind="stable")
    chosen, rest = order[:MAX_SIZES], order[MAX_SIZES:]
    single, several = chosen[counts[chosen] == 1], chosen[counts[chosen] > 1]
    tables = _signed_sums(sizes[single])
    spread = sqrt(float((sizes[rest] ** 2 * counts[rest]).sum()))
    as_large = done = 1
    while done < FLIPS and (done < BATCH or as_large < LARGE * done):
        flips = min(BATCH, FLIPS - done)
        done += flips
        sums = np.zeros(flips)
        if len(single):
            bits = np.unpackbits(np.frombuffer(rng.bytes((flips * len(single) + 7) // 8), dtype=np.uint8))
            eights = np.packbits(bits[: flips * len(single)].reshape(flips, len(single)), axis=1)
            for column, sums_of_eight in zip(eights.T, tables, strict=True):
                sums += sums_of_eight[column]
        for one in several:
            sums += sizes[one] * (2.0 * rng.binomial(counts[one], 0.5, flips) - counts[one])
        if spread:
            sums += rng.normal(0.0, spread, flips)
        as_large += int((sums >= total).sum())
    return as_large / done, done


def _signed_sums(sizes: Any) -> Any:
    """For each eight of these whole numbers their sums with the signs of each byte: a bit that is set is a plus."""
    np = numpy()
    eights = np.zeros(-(-len(sizes) // 8) * 8)
    eights[: len(sizes)] = sizes
    signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1
    return np.einsum("ij,kj->ki", signs, eights.reshape(-1, 8))  # the threads of `@` wait for busy cores


# Tango's score interval for the difference of two paired proportions, and McNemar's exact test.

ROUNDS = 80  # limit of the bisection, which ends at the precision of a float


def tango_interval(gains: int, losses: int, cases: int, level: float) -> tuple[float, float]:
    """The interval of (gains - losses) / cases. `gains` are the cases that only the second run passed."""
    z = normal_quantile((1 + level) / 2)
    return _lower_limit(gains, losses, cases, z), -_lower_limit(losses, gains, cases, z)


def tango_score(gains: int, losses: int, cases: int, difference: float) -> float:
    """The score statistic under a true difference. It falls as `difference` grows, and is 0 at the observed one."""
    deviation = gains - losses - cases * difference
    if deviation == 0:
        return 0.0
    linear = -(gains + losses) + (2 * cases - gains + losses) * difference
    constant = -losses * difference * (1 - difference)
    share = (sqrt(max(0.0, linear * linear - 8 * cases * constant)) - linear) / (4 * cases)
    variance = cases * (2 * share + difference * (1 - difference))
    return deviation / sqrt(variance) if variance > 0 else (1 if deviation > 0 else -1) * float("inf")


def mcnemar_p(gains: int, losses: int) -> float:
    """McNemar's exact two-sided p. Without discordant pairs it is 1."""
    pairs = gains + losses
    return min(1.0, 2 * binomial_cdf(min(gains, losses), pairs, 0.5)) if pairs else 1.0


def _lower_limit(gains: int, losses: int, cases: int, z: float) -> float:
    observed = (gains - losses) / cases
    if observed == -1:
        return -1.0
    return bisect(lambda difference: tango_score(gains, losses, cases, difference) > z, -1.0, observed)


def bisect(excludes: Callable[[float], bool], low: float, high: float) -> float:
    """The border between values that a test excludes, from `low` on, and values that it accepts, up to `high`."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if excludes(middle) else (low, middle)
    return high
