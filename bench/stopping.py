"""
`python -m bench.stopping [--write]`: runs that stop when they have decided, by simulation with a fixed seed.

The first table has the shares of false decisions about systems that did not change, with a look after every round. The second one has
the cases that a decision took, beside a fixed number of cases with a power of 80%. `--write` writes both into docs/statistics.md.
"""

import argparse
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from assay.stats.paired import LEVEL
from assay.stats.power import POWER, show_power
from assay.stats.sequential import log_capital, round_size

PAGE = Path(__file__).parents[1] / "docs/statistics.md"
BEGIN, END = "<!-- stopping: begin -->", "<!-- stopping: end -->"
SEED, ROUNDS = 43, 10_000
CASES = (100, 1_000)  # of a run that is not stopped
MARGIN = 0.05
BAR = log(2 / (1 - LEVEL))
EFFECTS = (0.0, 0.02, 0.05, 0.1, 0.2)
CHANGED = (0.15, 0.2, 0.3, 0.38)  # of the cases; 0.38: two independent runs with rates of 0.7 and 0.8


class Kind(NamedTuple):
    """How a case is valued: the values that it can have, how likely each is, and the mean that would be no news."""

    name: str
    values: tuple[float, ...]
    chances: tuple[float, ...]
    least: float
    largest: float
    truth: float


class Outcome(NamedTuple):
    """The shares of the rounds that ended in each decision, and the mean number of cases."""

    up: float
    down: float
    equivalent: float
    cases: float


def pass_or_fail(changed: float, effect: float = 0.0) -> Kind:
    chances = ((changed - effect) / 2, 1 - changed, (changed + effect) / 2)
    return Kind(
        f"difference of pass or fail, {changed:.0%} of the cases change", (-1.0, 0.0, 1.0), chances, -1, 1, 0
    )


def difference_of(name: str, values: tuple[float, ...], chances: tuple[float, ...]) -> Kind:
    """The difference of two values that are drawn alike."""
    sums: dict[float, float] = {}
    for value, chance in zip(values, chances, strict=True):
        for other, likely in zip(values, chances, strict=True):
            at = round(value - other, 9)
            sums[at] = sums.get(at, 0.0) + chance * likely
    return Kind(
        f"difference of {name}", tuple(sorted(sums)), tuple(sums[one] for one in sorted(sums)), -1, 1, 0
    )


def rate_against_bar(rate: float) -> Kind:
    return Kind(f"rate of {rate:g} against a bar of {rate:g}", (0.0, 1.0), (1 - rate, rate), 0, 1, rate)


UNCHANGED = (
    *(pass_or_fail(changed) for changed in (0.02, 0.1, 0.3, 0.5)),
    difference_of(
        "3 trials a case, each passes with 0.8", (0, 1 / 3, 2 / 3, 1), (0.008, 0.096, 0.384, 0.512)
    ),
    difference_of("scores on five levels", (0, 0.25, 0.5, 0.75, 1), (0.05, 0.05, 0.2, 0.3, 0.4)),
    difference_of("scores, 90% of them 1", (0, 0.5, 1), (0.05, 0.05, 0.9)),
    *(rate_against_bar(rate) for rate in (0.5, 0.8, 0.95)),
)


def simulate(kind: Kind, cases: int, rounds: int = ROUNDS, margin: float | None = None) -> Outcome:
    """Runs of so many cases that look after every round and stop at the first decision."""
    size = round_size(cases)
    looks = -(-cases // size)
    rng = np.random.default_rng([SEED, cases, round(1_000 * sum(kind.chances[:-1])), len(kind.values)])
    sizes = np.full(looks, size)
    sizes[-1] = cases - size * (looks - 1)
    drawn = rng.multinomial(sizes, kind.chances, size=(rounds, looks)).cumsum(axis=1).astype(float)
    up, down = _refuted(kind, drawn, kind.truth, above=True), _refuted(kind, drawn, kind.truth, above=False)
    equal = np.zeros_like(up)
    if margin is not None:
        equal = _refuted(kind, drawn, -margin, above=True) & _refuted(kind, drawn, margin, above=False)
    decided = up | down | equal
    first = np.where(decided.any(axis=1), decided.argmax(axis=1), looks - 1)
    row = np.arange(rounds)
    within = equal[row, first]
    seen = sizes.cumsum()[first]
    shares = (up[row, first] & ~within, down[row, first] & ~within, within)
    return Outcome(*(float(one.mean()) for one in (*shares, seen)))


def _refuted(kind: Kind, drawn: Any, mean: float, *, above: bool) -> Any:
    """At each look: whether it or one before has shown that the true mean is above this one, or below it."""
    scaled = (np.array(kind.values) - kind.least) / (kind.largest - kind.least)
    at = (mean - kind.least) / (kind.largest - kind.least)
    capital = log_capital(scaled, drawn, at) if above else log_capital(1 - scaled, drawn, 1 - at)
    return np.logical_or.accumulate(capital >= BAR, axis=1)


def fixed_cases(changed: float, effect: float) -> int:
    """The least number of cases with which McNemar's exact test shows the effect with a power of 80%, and more cases do too."""
    low, high = 1, 16
    while show_power(effect, changed, high, LEVEL) < POWER:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if show_power(effect, changed, middle, LEVEL) >= POWER else (middle, high)
    return high


def false_alarms(rounds: int = ROUNDS) -> Iterator[str]:
    yield f"| system that did not change | {' | '.join(f'{cases:,} cases' for cases in CASES)} |"
    yield f"|---|{'--:|' * len(CASES)}"
    for kind in UNCHANGED:
        outcomes = [simulate(kind, cases, rounds) for cases in CASES]
        yield f"| {kind.name} | {' | '.join(f'{one.up + one.down:.4f}' for one in outcomes)} |"


def savings(rounds: int = ROUNDS) -> Iterator[str]:
    yield (
        "| effect, points | cases that change | decided | improved | equivalent | cases on average | fixed design, 80%"
        " power | cases / fixed |"
    )
    yield f"|--:|{'--:|' * 7}"
    for effect in EFFECTS:
        for changed in (one for one in CHANGED if one >= effect):
            found = simulate(pass_or_fail(changed, effect), CASES[-1], rounds, MARGIN)
            fixed = fixed_cases(changed, effect) if effect else None
            yield (
                f"| {100 * effect:g} | {changed:.0%} | {found.up + found.down + found.equivalent:.3f} | {found.up:.3f} |"
                f" {found.equivalent:.3f} | {found.cases:.0f} | {f'{fixed:,}' if fixed else '–'} |"
                f" {f'{found.cases / fixed:.2f}x' if fixed else '–'} |"
            )


def table() -> Iterator[str]:
    """The lines of docs/statistics.md between the markers."""
    yield from false_alarms()
    yield ""
    yield from savings()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stopping", description=__doc__)
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
