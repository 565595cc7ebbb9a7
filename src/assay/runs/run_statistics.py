"""
The statistics of a run: its score with an interval, its cases by outcome, its cost and its latency (ADR-0106).

They are computed once, when the run ends, and stored in its metadata. Every list, page, report and command reads that
document.
"""

from collections.abc import Iterable
from math import ceil
from typing import Any

import msgspec
from msgspec import Struct

from assay.ports import CLOSED, Run, RunFacts
from assay.stats.intervals import Mean, Method, Rate
from assay.stats.number_text import Scale, cost_text, milliseconds_text, range_text, value_text

STATISTICS = "statistics"  # in the metadata of a run that has ended


class Score(Struct, frozen=True, kw_only=True):
    """A number with its 95% interval. `cases`: the measured ones; `method`: of the interval; `scale`: of the text."""

    name: str
    scale: Scale
    value: float
    low: float | None = None
    high: float | None = None
    cases: int
    method: Method = "none"

    @property
    def text(self) -> str:
        return value_text(self.value, self.scale)

    @property
    def range_text(self) -> str:
        return range_text(self.low, self.high, self.scale)


class CaseCounts(Struct, frozen=True, kw_only=True):
    """The cases or tasks of a run by outcome. `error` and `skipped` were not measured."""

    passed: int = 0
    failed: int = 0
    ungraded: int = 0
    error: int = 0
    skipped: int = 0

    @property
    def measured(self) -> int:
        return self.passed + self.failed + self.ungraded

    @property
    def all(self) -> int:
        return self.measured + self.error + self.skipped


class Cost(Struct, frozen=True, kw_only=True):
    """What a run has spent: the sum of the known costs, and the number of answers whose cost is not known."""

    known_usd: float = 0.0
    unknown: int = 0

    @property
    def total_usd(self) -> float | None:
        """None: a cost is not known."""
        return None if self.unknown else self.known_usd

    @property
    def text(self) -> str:
        return cost_text(self.known_usd, self.unknown)


class CostParts(Struct, frozen=True, kw_only=True):
    """The known cost of the outputs, and that of their judges. A run that only judges outputs did not pay for them."""

    system_usd: float = 0.0
    judges_usd: float = 0.0

    @property
    def total_usd(self) -> float:
        return round(self.system_usd + self.judges_usd, 12)


class Latency(Struct, frozen=True, kw_only=True):
    """The latency of the measured results, in milliseconds. `p95_ms` is the 95th percentile by nearest rank."""

    median_ms: float
    p95_ms: float
    results: int

    @property
    def p95_text(self) -> str:
        return milliseconds_text(self.p95_ms)

    @property
    def median_text(self) -> str:
        return milliseconds_text(self.median_ms)


class RunStatistics(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    `score` is null if nothing was measured. `cases` are distinct ids; `results` counts each repeat or trial of a case.

    `pass_rate` is the share of checks of an evaluation. `pass_k` and `pass_at_k` are by k; they are empty if no case is
    repeated. `cost` is null if the run asked for nothing that has a cost; `parts` is null if neither the outputs nor
    their judges have a known cost.
    """

    score: Score | None = None
    cases: int = 0
    results: int = 0
    counts: CaseCounts = CaseCounts()
    cost: Cost | None = None
    parts: CostParts | None = None
    latency: Latency | None = None
    pass_rate: Rate | None = None
    pass_k: dict[str, Rate] = {}
    pass_at_k: dict[str, Rate] = {}

    @property
    def whole_cost(self) -> Cost | None:
        """What the outputs and their judges cost, whoever paid for them: lists show it and sort by it."""
        if self.parts is None:
            return self.cost
        return Cost(known_usd=self.parts.total_usd, unknown=self.cost.unknown if self.cost else 0)


def latency_of(milliseconds: Iterable[float]) -> Latency | None:
    ordered = sorted(milliseconds)
    if not ordered:
        return None
    many = len(ordered)
    median = (ordered[(many - 1) // 2] + ordered[many // 2]) / 2
    return Latency(median_ms=median, p95_ms=ordered[ceil(0.95 * many) - 1], results=many)


def cost_parts(system_usd: float, judges_usd: float) -> CostParts | None:
    """None: neither has a known cost."""
    parts = CostParts(system_usd=round(system_usd, 9), judges_usd=round(judges_usd, 12))
    return parts if parts.total_usd else None


def named_score(name: str, found: Rate | Mean) -> Score:
    is_rate = isinstance(found, Rate)
    return Score(
        name=name,
        scale="rate" if is_rate else "number",
        value=found.rate if is_rate else found.mean,
        low=found.low,
        high=found.high,
        cases=found.cases,
        method=found.method,
    )


def planned_cases(run: Run, statistics: RunStatistics | None, *, trials: int) -> int | None:
    """The number of cases that the run has or will have. `trials`: results of a case in its `total`."""
    total: int | None = run.metadata.get("total")
    if total is None or statistics is None or trials > 1:
        return None if total is None else -(-total // trials)
    return statistics.cases + max(0, total - statistics.results)


def facts_of(statistics: RunStatistics) -> RunFacts:
    """The numbers by which a list sorts and filters runs."""
    score, cost = statistics.score, statistics.whole_cost
    return RunFacts(score=score.value if score else None, cost=cost.total_usd if cost else None)


def stored_statistics(run: Run) -> RunStatistics | None:
    """The recorded document; None for a run that has not ended, or that ended without one."""
    document: Any = run.metadata.get(STATISTICS) if run.status in CLOSED else None
    return None if document is None else msgspec.convert(document, RunStatistics)


def statistics_metadata(statistics: RunStatistics) -> dict[str, Any]:
    """The member of the metadata of a run."""
    return {STATISTICS: msgspec.to_builtins(statistics)}
