"""
`python -m bench.coverage [--write]`: how often the interval of one run holds the truth, by simulation with a fixed seed.

The limits are inverted for a whole cell at once: the truth is within Gaffke's interval exactly if both tail probabilities at the truth are at least 2.5%.
Where an approximation of the tail is close to 2.5%, the interval itself decides. `--write` writes the tables into docs/statistics.md.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from math import comb
from typing import Any

from msgspec import Struct

from assay.stats.gaffke import TAIL, mean_limits
from assay.stats.intervals import MIN_T_CASES, mean_of, wilson
from assay.stats.judge_agreement import Label, corrected_mean
from bench.measure import HOME

np: Any = import_module("numpy")  # without types
special: Any = import_module("scipy.special")

PAGE = HOME / "docs" / "statistics.md"
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"
SEED = 34
ROUNDS = 2_000
SIZES = (5, 8, 10, 15, 20, 30, 50, 100, 200, 1_000)
RATES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
CORRELATIONS = (0.0, 0.3, 0.9)
TRIALS, K = 8, 4  # of pass^k
LEAST, LEAST_MEAN = 0.90, 0.94  # of a cell, and of the mean over the rates of a row
LARGEST = 2_000_000  # numbers that are drawn at a time
CLOSE = 0.1  # of the tail: there the approximation does not decide


class Kind(Struct, frozen=True):
    """What the value of a case is. `draw` takes the generator, the shape and a rate; `truth` is the mean of the values."""

    name: str
    draw: Callable[[Any, tuple[int, int], float], Any]
    truth: Callable[[float], float]
    rates: tuple[float, ...] = RATES
    single: bool = False  # one answer a case
    free: bool = False  # its range is not known


def chances(rng: Any, shape: tuple[int, int], rate: float, correlation: float) -> Any:
    """The chance of each case to pass: equal without correlation, else of a beta distribution with this mean."""
    if not correlation:
        return np.full(shape, rate)
    total = 1 / correlation - 1
    return rng.beta(rate * total, (1 - rate) * total, shape)


def equal_answers(correlation: float) -> Kind:
    def draw(rng: Any, shape: tuple[int, int], rate: float) -> Any:
        return rng.binomial(10, chances(rng, shape, rate, correlation)) / 10

    return Kind(f"10 answers a case, correlation {correlation:g}", draw, lambda rate: rate)


def unequal_answers(correlation: float) -> Kind:
    def draw(rng: Any, shape: tuple[int, int], rate: float) -> Any:
        answers = np.exp(rng.uniform(0, np.log(101), shape)).astype(int)
        return rng.binomial(answers, chances(rng, shape, rate, correlation)) / answers

    return Kind(f"1 to 100 answers a case, correlation {correlation:g}", draw, lambda rate: rate)


def repeats(correlation: float) -> Kind:
    table = np.array([comb(passed, K) / comb(TRIALS, K) for passed in range(TRIALS + 1)])

    def draw(rng: Any, shape: tuple[int, int], rate: float) -> Any:
        return table[rng.binomial(TRIALS, chances(rng, shape, rate, correlation))]

    def truth(rate: float) -> float:
        if not correlation:
            return rate**K
        total = 1 / correlation - 1
        return float(np.prod([(rate * total + one) / (total + one) for one in range(K)]))

    return Kind(f"pass^{K} of {TRIALS} trials, correlation {correlation:g}", draw, truth)


def five_levels(rng: Any, shape: tuple[int, int], rate: float) -> Any:
    return rng.binomial(4, rate, shape) / 4


def mostly_one(rng: Any, shape: tuple[int, int], rate: float) -> Any:
    return np.where(rng.random(shape) < 0.9, 1.0, rng.random(shape))


KINDS = (
    Kind(
        "1 answer a case",
        lambda rng, shape, rate: (rng.random(shape) < rate) * 1.0,
        lambda rate: rate,
        single=True,
    ),
    *map(equal_answers, CORRELATIONS),
    *map(unequal_answers, CORRELATIONS),
    *map(repeats, CORRELATIONS),
    Kind("scores on five levels", five_levels, lambda rate: rate, single=True),
    Kind("scores, 90% at 1", mostly_one, lambda _: 0.95, (0.95,), single=True),
    Kind(
        "scores of beta(8, 2)",
        lambda rng, shape, _: rng.beta(8, 2, shape),
        lambda _: 0.8,
        (0.8,),
        single=True,
    ),
    Kind(
        "costs, exponential",
        lambda rng, shape, _: rng.exponential(1, shape),
        lambda _: 1.0,
        (1.0,),
        free=True,
    ),
)


def coverage(kind: Kind, size: int, rate: float, rounds: int = ROUNDS) -> float | None:
    """The share of rounds whose interval holds the truth. None: there are too few cases for an interval."""
    if kind.free and size < MIN_T_CASES:
        return None
    if kind == KINDS[0]:
        return plain_coverage(size, rate)
    rng = np.random.default_rng([SEED, KINDS.index(kind), size, round(1_000 * rate)])
    truth, held, left = kind.truth(rate), 0, rounds
    while left:
        some = min(left, max(1, LARGEST // size))
        held += _holding(kind, kind.draw(rng, (some, size), rate), truth)
        left -= some
    return held / rounds


def plain_coverage(size: int, rate: float) -> float:
    """The coverage for one answer a case: the sum over all numbers of cases that could pass, without a simulation."""
    passed = np.arange(size + 1)
    ways = special.gammaln(size + 1) - special.gammaln(passed + 1) - special.gammaln(size - passed + 1)
    chance = np.exp(ways + passed * np.log(rate) + (size - passed) * np.log(1 - rate))
    return float(chance[_plain_holds(size, rate)].sum())


def _holding(kind: Kind, values: Any, truth: float) -> int:
    """The number of rounds whose interval holds the truth."""
    size = values.shape[1]
    if kind.free:
        return sum(_holds(row, truth, free=True) for row in values)
    plain = ((values == 0) | (values == 1)).all(axis=1) & kind.single
    passed = values[plain].sum(axis=1).round().astype(int)
    held = int(_plain_holds(size, truth)[passed].sum())
    rest = values[~plain]
    lower, upper = lower_tail(rest, truth), lower_tail(1 - rest, 1 - truth)
    smaller = np.minimum(lower, upper)
    close = abs(smaller / TAIL - 1) < CLOSE
    held += int((smaller[~close] >= TAIL).sum())
    return held + sum(_holds(row, truth) for row in rest[close])


@cache
def _plain_holds(size: int, truth: float) -> Any:
    limits = [wilson(passed / size, size) for passed in range(size + 1)]
    return np.array([low <= truth <= high for low, high in limits])


def _holds(values: Any, truth: float, *, free: bool = False) -> bool:
    if free:
        found = mean_of(values.tolist(), len(values), None)
        return found.low is not None and found.high is not None and found.low <= truth <= found.high
    low, high = _limits(tuple(sorted(Counter[float](values.tolist()).items())))
    return low <= truth <= high


@cache
def _limits(counts: tuple[tuple[float, int], ...]) -> tuple[float, float]:
    return mean_limits(dict(counts))


def lower_tail(values: Any, truth: float) -> Any:
    """P(D·x <= truth) for uniform weights D of 0 and the values of each round, by Barndorff-Nielsen's approximation; 1 where it is large."""
    tail = np.ones(len(values))
    far = values.sum(axis=1) / (values.shape[1] + 1) > truth
    if not far.any():
        return tail
    away = np.hstack([np.zeros((int(far.sum()), 1)), values[far]]) - truth
    low, high = np.full(len(away), -1 / truth), np.zeros(len(away))
    for _ in range(60):
        middle = (low + high) / 2
        above = (away / (1 - middle[:, None] * away)).sum(axis=1) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    saddle = (low + high) / 2
    ratio = 1 - saddle[:, None] * away
    r = -np.sqrt(np.maximum(2 * np.log(ratio).sum(axis=1), 1e-6))
    u = np.minimum(saddle * np.sqrt(((away / ratio) ** 2).sum(axis=1)), -1e-9)
    tail[far] = np.where(r < -0.1, special.ndtr(r + np.log(u / r) / r), 1.0)
    return tail


LABELS = (5, 10, 20, 30, 60)
JUDGED = 300
ERRORS = ((0.1, 0.1), (0.0, 0.3), (0.3, 0.0))  # of a judge, where people fail and pass a case
LABEL_ROUNDS = 300


def label_coverage(
    labels: int, rate: float, errors: tuple[float, float], rounds: int = LABEL_ROUNDS
) -> float:
    """The share of rounds whose corrected interval holds the rate that people would give."""
    rng = np.random.default_rng([SEED, labels, round(1_000 * rate), ERRORS.index(errors)])
    held = 0
    for _ in range(rounds):
        human = rng.random(JUDGED) < rate
        judged = human ^ (rng.random(JUDGED) < np.where(human, errors[1], errors[0]))
        drawn = [
            Label(float(judged[at]), float(human[at])) for at in rng.choice(JUDGED, labels, replace=False)
        ]
        found = corrected_mean(judged.astype(float).tolist(), drawn)
        held += found.low <= rate <= found.high
    return held / rounds


def label_name(errors: tuple[float, float]) -> str:
    return f"judge passes {errors[0]:.0%} of the failures and fails {errors[1]:.0%} of the passes"


def cells() -> Iterator[tuple[Kind, int, float]]:
    for kind in KINDS:
        for size in SIZES:
            for rate in kind.rates:
                yield kind, size, rate


def row(name: str, size: int, shares: list[float | None]) -> str:
    texts = ["too few" if share is None else f"{share:.3f}" for share in shares]
    return f"| {name} | {size:,} | {' · '.join(texts)} |"


def table() -> Iterator[str]:
    """The lines of docs/statistics.md between the markers."""
    yield f"| value of a case | cases | coverage, for {' · '.join(f'{rate:g}' for rate in RATES)} |"
    yield "|---|---|---|"
    for kind in KINDS:
        for size in SIZES:
            yield row(kind.name, size, [coverage(kind, size, rate) for rate in kind.rates])
    yield ""
    yield f"| labels of {JUDGED} judged cases | labels | coverage, for {' · '.join(f'{rate:g}' for rate in RATES)} |"
    yield "|---|---|---|"
    for errors in ERRORS:
        for labels in LABELS:
            yield row(label_name(errors), labels, [label_coverage(labels, rate, errors) for rate in RATES])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/statistics.md too")
    arguments = parser.parse_args()
    lines: list[str] = []
    for line in table():
        print(line, flush=True)
        lines.append(line)
    if arguments.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
