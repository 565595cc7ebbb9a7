"""Simulated comparisons over a stated grid: how often an interval holds the true difference, and how often A/A is a false alarm."""

# A test knows which limits are set; scipy and statsmodels have no types.
# pyright: reportCallIssue=false, reportMissingTypeStubs=false, reportOperatorIssue=false, reportOptionalOperand=false

from functools import cache

from assay.stats.bootstrap import bootstrap_interval
from assay.stats.paired import FEW, PairedSample
from assay.stats.verdict import excludes_zero
from support.lazy_module import lazy_module

np = lazy_module("numpy")

ALPHA = 0.05
SIZES = (6, 10, 14, 20, 50, 200)
SHARES = (0.05, 0.2, 0.5)  # of the cases that change between the runs
TRIALS = 3
MEDIAN_SIZES = (30, 100)

# A kind draws `size` cases of both runs, from the share of cases that change and whether they all change for the better.


def draw_pass_or_fail(rng, size, share, one_way):
    """One trial of each case, which passes or fails."""
    change = rng.random(size) < share
    better = rng.random(size) < (0.75 if one_way else 0.5)
    stable = rng.random(size) < 0.7
    before = np.where(change, ~better, stable).astype(float)
    return before, np.where(change, better, stable).astype(float)


def draw_trials(rng, size, share, one_way):
    """Three trials of each case: a cluster. Each case has its own probability to pass, which changes for some cases."""
    base = rng.beta(2, 1, size)
    moved = np.where(rng.random(size) < share, base + (1 - base) / 2 if one_way else base, base)
    return rng.binomial(TRIALS, base) / TRIALS, rng.binomial(TRIALS, moved) / TRIALS


def draw_scores(rng, size, share, one_way):
    """Scores of a rubric. Most cases are equal; the others differ by a skewed amount."""
    amount = np.minimum(rng.exponential(0.2, size), 1) * (rng.random(size) < share)
    sign = np.where(rng.random(size) < (0.75 if one_way else 0.5), 1, -1)
    before = np.full(size, 0.5)
    return before, before + amount * sign / 2


KINDS = {"pass or fail": draw_pass_or_fail, "3 trials": draw_trials, "scores": draw_scores}
CELLS = [(kind, size, share) for kind in KINDS for size in SIZES for share in SHARES]


@cache
def true_difference(kind, share):
    """Of the changes that go one way more often; by formula, and for a truncated exponential by its mean."""
    if kind == "pass or fail":
        return share / 2
    if kind == "3 trials":
        return share * (1 / 3) / 2  # the mean of 1 - base is 1/3
    return share / 4 * 0.2 * (1 - np.exp(-1 / 0.2))


def simulate(kind, size, share, rounds, seed=22):
    """(false alarms of A/A, coverage with no difference and with one), each over `rounds` rounds."""
    alarms = held = 0
    for one_way in (False, True):
        rng = np.random.default_rng([seed, size, round(share * 100), one_way])
        truth = true_difference(kind, share) if one_way else 0.0
        for _ in range(rounds):
            result = _interval(kind, *KINDS[kind](rng, size, share, one_way))
            held += result.low <= truth <= result.high
            alarms += not one_way and excludes_zero(result)
    return alarms / rounds, held / (2 * rounds)


def _interval(kind, before, after):
    if kind == "pass or fail":
        return _counted_interval(len(before), int((after > before).sum()), int((after < before).sum()))
    sample = PairedSample.of(before.tolist(), after.tolist(), single_trial=kind != "3 trials")
    return sample.interval()


@cache
def _counted_interval(size, gains, losses):
    before = [0] * gains + [1] * losses + [1] * (size - gains - losses)
    after = [1] * gains + [0] * losses + [1] * (size - gains - losses)
    return PairedSample.of(before, after).interval()


METHODS = {"pass or fail": "Tango", "3 trials": "t", "scores": "t"}


def table(results, medians):
    """The rows of docs/statistics.md, from the results of all cells."""
    yield "| cases | kind | method | false alarms, by share of cases that change | coverage |"
    yield "|---|---|---|---|---|"
    for kind in KINDS:
        for size in SIZES:
            cells = [results[kind, size, share] for share in SHARES]
            method = METHODS[kind] if size >= FEW else "sign flips"
            alarms, coverage = (" · ".join(f"{cell[which]:.3f}" for cell in cells) for which in (0, 1))
            yield f"| {size} | {kind} | {method} | {alarms} | {coverage} |"
    for size, alarms in medians.items():
        yield f"| {size} | median of scores | BCa | {alarms:.3f} | {1 - alarms:.3f} |"


def simulate_medians(size, rounds, seed=22):
    """The same for BCa: medians of skewed scores, which do not differ."""
    rng = np.random.default_rng([seed, size])
    alarms = 0
    for _ in range(rounds):
        base = rng.exponential(1, size)
        before, after = base + rng.exponential(0.5, size), base + rng.exponential(0.5, size)
        alarms += excludes_zero(bootstrap_interval(np.median, before.tolist(), after.tolist()))
    return alarms / rounds
