"""How the scores, latencies and costs of the measured results of a run are distributed: bars of bounded number."""

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from assay.cases.table import indexes, numbers_of, read_columns
from assay.ports import CaseBlock
from assay.ports.cases import ERROR, SKIPPED

SCORE_BARS, BARS = 10, 16
TAIL = 0.99  # results beyond this share are in the last bar


class DistributionBar(Struct, frozen=True, kw_only=True):
    """The results from `low` up to below `high`; the last bar has those at its end too."""

    low: float
    high: float
    results: int


class Distribution(Struct, frozen=True, kw_only=True):
    """`name` is score, latency_ms or cost_usd. `results`: those that have the number."""

    name: str
    results: int
    median: float
    bars: tuple[DistributionBar, ...]


def distributions(blocks: Iterable[CaseBlock]) -> tuple[Distribution, ...]:
    """Those of the numbers that results have. Results that were not measured have none."""
    values: dict[str, list[float]] = {"score": [], "latency_ms": [], "cost_usd": []}
    for block in blocks:
        columns = read_columns(block.data)
        index = indexes(columns)
        measured = [pattern[0] not in (ERROR, SKIPPED) for pattern in columns.patterns]
        scores, costs, latencies, *_ = numbers_of(columns, index)
        for name, column in (("score", scores), ("latency_ms", latencies), ("cost_usd", costs)):
            pairs = zip(index, column, strict=False)
            values[name] += [value for number, value in pairs if measured[number] and value == value]
    return tuple(_distribution(name, sorted(found)) for name, found in values.items() if found)


def _distribution(name: str, ordered: Sequence[float]) -> Distribution:
    many = len(ordered)
    median = (ordered[(many - 1) // 2] + ordered[many // 2]) / 2
    return Distribution(name=name, results=many, median=median, bars=_bars(ordered, is_score=name == "score"))


def _bars(ordered: Sequence[float], *, is_score: bool) -> tuple[DistributionBar, ...]:
    least, largest = ordered[0], ordered[-1]
    if is_score and least >= 0 and largest <= 1:
        first, last, count = 0.0, 1.0, SCORE_BARS
    else:
        first, last, count = min(0.0, least), ordered[ceil(TAIL * len(ordered)) - 1], BARS
    if last <= first:
        return (DistributionBar(low=least, high=largest, results=len(ordered)),)
    width = (last - first) / count
    counts = [0] * count
    for value in ordered:
        counts[min(count - 1, int((value - first) / width + 1e-9))] += 1
    return tuple(
        DistributionBar(
            low=first + at * width,
            high=max(last, largest) if at == count - 1 else first + (at + 1) * width,
            results=results,
        )
        for at, results in enumerate(counts)
    )
