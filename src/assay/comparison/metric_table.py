"""
Every metric of runs beside the first of them: what passed, the score, each check, the cost and the 95th percentile of
the latency. Holm adjusts the intervals of all metrics of all runs together (ADR-0224).
"""

from collections.abc import Iterator
from math import isnan

from msgspec import Struct

from assay.comparison.difference import DifferenceInterval
from assay.comparison.metric import COST, JUDGES, LATENCY, P95, PASSED, SCORE, Metric, MetricKind
from assay.comparison.pairing import CaseValues, PairedRuns, QuantileValues, quantile_values
from assay.comparison.run_scores import Series, check_metric
from assay.comparison.samples import CaseSample
from assay.comparison.slice_samples import series_sample, series_span
from assay.concurrency.loop_budget import spend
from assay.stats.verdict import HasInterval, holm

Key = tuple[int, int]  # a run, and a metric


class MetricDifference(Struct, frozen=True, kw_only=True):
    """The difference of one metric. Its interval is adjusted for the number of metrics and runs (Holm)."""

    metric: str
    kind: MetricKind
    lower_is_better: bool
    result: DifferenceInterval


class _Read(Struct, frozen=True):
    """A metric, and its values in each run."""

    metric: Metric
    series: list[Series | None]

    def is_in(self, *runs: int) -> bool:
        """Whether each of these runs has measured it."""
        return all((series := self.series[at]) is not None and series.measured > 0 for at in runs)


def metric_differences(
    paired: PairedRuns, margin: float | None, level: float
) -> list[tuple[MetricDifference, ...]]:
    """For each run, every metric that it shares with the first. The margin is that of the chosen metric."""
    metrics = [*_metrics(paired)]
    samples: dict[Key, tuple[CaseSample, HasInterval]] = {}
    same: dict[Key, Key] = {}
    for number, one in enumerate(metrics):
        first = CaseValues(paired.index, 0, one.series[0])
        for at in paired.pairings:
            spend()
            equal = _equal_metric(metrics, number, at)
            if equal is not None and (at, equal) in samples:
                same[at, number] = at, equal
            elif (sample := _sample(paired, at, one, first)) is not None:
                samples[at, number] = sample
    adjusted = holm({key: interval for key, (_, interval) in samples.items()}, level)
    found: list[list[MetricDifference]] = [[] for _ in paired.runs]
    for number, one in enumerate(metrics):
        metric = one.metric
        own_margin = margin if metric.name == paired.metric.name else None
        for at in paired.pairings:
            key = same.get((at, number), (at, number))
            if key not in samples:
                continue
            result = samples[key][0].result(adjusted[key], own_margin, metric)
            found[at].append(
                MetricDifference(
                    metric=metric.name,
                    kind=metric.kind,
                    lower_is_better=metric.lower_is_better,
                    result=result,
                )
            )
    return [tuple(one) for one in found]


def metric_names(paired: PairedRuns, at: int) -> tuple[str, ...]:
    """The metrics that a run shares with the first: those of `metric_differences`, without the work."""
    if not paired.runs[0].options.every_metric:
        return ()
    return tuple(one.metric.name for one in _metrics(paired) if one.is_in(0, at))


def _metrics(paired: PairedRuns) -> Iterator[_Read]:
    """The metrics that the first run has, in the order of the table."""
    runs = paired.runs
    for metric in (PASSED, SCORE):
        yield _Read(metric, [run.metrics[metric.name] for run in runs])
    for label in runs[0].check_scores:
        check = check_metric(runs, Metric(name=label, kind="check", check=label))
        yield _Read(check, [run.check_scores.get(label) for run in runs])
    for metric in (COST, JUDGES):
        yield _Read(metric, [run.metrics[metric.name] for run in runs])
    yield _Read(P95, [run.metrics[LATENCY.name] for run in runs])


def _equal_metric(metrics: list[_Read], number: int, at: int) -> int | None:
    """An earlier metric with the same numbers in both runs, such as the score where each case has one check."""
    own = metrics[number]
    for earlier in range(number):
        other = metrics[earlier]
        if other.metric.lower_is_better == own.metric.lower_is_better and all(
            _is_equal(own.series[run], other.series[run]) for run in (0, at)
        ):
            return earlier
    return None


def _is_equal(one: Series | None, other: Series | None) -> bool:
    if one is None or other is None or len(one.rows) != len(other.rows) or one.unmeasured != other.unmeasured:
        return False
    return one.rows == other.rows and all(
        a == b or (isnan(a) and isnan(b)) for a, b in zip(one.values, other.values, strict=True)
    )


def _sample(
    paired: PairedRuns, at: int, one: _Read, first: CaseValues
) -> tuple[CaseSample, HasInterval] | None:
    """The cases by the metric, and what has their interval. None: no case of both runs has the metric."""
    metric, before, after = one.metric, one.series[0], one.series[at]
    if before is None or after is None or not one.is_in(0, at):
        return None
    values = first, CaseValues(paired.index, at, after)
    span = None if metric.kind == "output" else series_span(before, after)
    is_whole = metric.kind in ("passed", "score")
    sample = series_sample(paired, at, values, span, is_whole=is_whole)
    if not sample.measured:
        return None
    quantile: QuantileValues | None = None
    if metric.quantile is not None:
        is_paired = at not in paired.unpaired
        quantile = quantile_values(metric.quantile, values, paired.index, is_paired=is_paired)
    return sample, quantile or sample
