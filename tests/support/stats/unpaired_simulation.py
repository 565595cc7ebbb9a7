"""Simulated comparisons of runs over different cases: how often the interval holds the truth, and how often A/A is a false alarm."""

# A test knows which limits are set.
# pyright: reportCallIssue=false, reportOperatorIssue=false, reportOptionalOperand=false

from functools import cache

from assay.stats.unpaired import UnpairedSample
from assay.stats.verdict import excludes_zero
from support.lazy_module import lazy_module

np = lazy_module("numpy")

SIZES = ((6, 6), (10, 30), (30, 10), (20, 20), (50, 50), (30, 300))
TRIALS = 3
SLICES, RATES = 3, (0.9, 0.7, 0.5)
MIXES = (0.6, 0.3, 0.1), (0.2, 0.3, 0.5)  # of the first run and of the second
DROP = 0.2

# A kind draws the values of a run, from its number of cases and from how much the run is worse.


def draw_passes(rate):
    return lambda rng, size, drop: (rng.random(size) < rate - drop) * 1.0


def draw_trials(rng, size, drop):
    """Three trials of each case: a cluster. Each case has its own probability to pass."""
    return rng.binomial(TRIALS, rng.beta(2, 1, size) * (1 - drop)) / TRIALS


def draw_scores(rng, size, drop):
    """Scores of a rubric: most are 1, the others anywhere below."""
    return np.where(rng.random(size) < 0.7 - drop, 1.0, rng.random(size))


def draw_costs(rng, size, drop):
    return rng.exponential(1 + drop, size)


KINDS = {
    "pass or fail, 50%": (draw_passes(0.5), -DROP),
    "pass or fail, 90%": (draw_passes(0.9), -DROP),
    "3 trials": (draw_trials, -DROP * 2 / 3),
    "scores": (draw_scores, -DROP / 2),
    "costs, exponential": (draw_costs, DROP),
}
STANDARDIZED = "pass or fail, standardized"
METHODS = {"3 trials": "Gaffke", "scores": "Gaffke"}
CELLS = [(kind, sizes) for kind in (*KINDS, STANDARDIZED) for sizes in SIZES if sizes[0] > 6 or kind in KINDS]


def simulate(kind, sizes, rounds, seed=39):
    """(false alarms of A/A, coverage with no difference and with one); the latter over the rounds with an interval."""
    alarms = held = shown = 0
    for drop in (0.0, DROP):
        rng = np.random.default_rng([seed, *sizes, bool(drop), [*KINDS, STANDARDIZED].index(kind)])
        truth = -drop if kind == STANDARDIZED else KINDS[kind][1] if drop else 0.0
        for _ in range(rounds):
            result = (_standardized if kind == STANDARDIZED else _interval)(kind, rng, sizes, drop)
            alarms += not drop and excludes_zero(result)
            if result.low is not None:
                shown += 1
                held += bool(result.low <= truth <= result.high)
    return alarms / rounds, held / shown if shown >= rounds else None


def _interval(kind, rng, sizes, drop):
    draw = KINDS[kind][0]
    before, after = draw(rng, sizes[0], 0.0), draw(rng, sizes[1], drop)
    if kind.startswith("pass"):
        return _counted_interval(*sizes, int(before.sum()), int(after.sum()))
    span = None if kind.startswith("costs") else 1.0
    return UnpairedSample.of(before.tolist(), after.tolist(), span=span, single_trial=False).interval()


@cache
def _counted_interval(first, second, passed, others):
    return UnpairedSample.of(
        [1] * passed + [0] * (first - passed), [1] * others + [0] * (second - others)
    ).interval()


def _standardized(_, rng, sizes, drop):
    """Three slices, whose rates are equal in both runs without a drop; the mixes of the runs differ."""
    slices = [rng.choice(SLICES, size, p=mix) for size, mix in zip(sizes, MIXES, strict=True)]
    shared = sorted({*slices[0].tolist()} & {*slices[1].tolist()})
    counts = {str(one): int((slices[0] == one).sum()) for one in shared}
    total = sum(counts.values())
    sample = UnpairedSample(1.0, {name: count / total for name, count in counts.items()})
    for is_after, run in enumerate(slices):
        for one in run.tolist():
            if one in shared:
                passed = float(rng.random() < RATES[one] - drop * is_after)
                sample.add(passed, is_after=bool(is_after), stratum=str(one))
    return sample.interval()


def method(kind, sizes):
    if kind.startswith("pass"):
        return "Newcombe"
    return METHODS.get(kind) or ("Welch" if min(sizes) >= 15 else "test-based")


def unpaired_table(results):
    """The rows of docs/statistics.md, from the results of all cells."""
    yield "| cases | values | method | false alarms | coverage |"
    yield "|---|---|---|---|---|"
    for kind, sizes in CELLS:
        alarms, coverage = results[kind, sizes]
        held = "none" if coverage is None else f"{coverage:.3f}"
        yield f"| {sizes[0]} and {sizes[1]} | {kind} | {method(kind, sizes)} | {alarms:.3f} | {held} |"
