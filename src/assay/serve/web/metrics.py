"""GET /metrics: what this process counted, for Prometheus."""

from collections.abc import Iterator
from typing import Any

from assay.errors import Unavailable
from assay.ports.telemetry import BOUNDS, COUNTERS, GAUGES, TIMES, Histogram, Metrics, telemetry
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response

MEDIA = b"text/plain; version=0.0.4; charset=utf-8"


async def show_metrics(call: HttpRequest) -> Response:
    call.query()
    return Response(exposition(telemetry), media=MEDIA)


def exposition(watch: Metrics) -> bytes:
    try:
        import prometheus_client as prometheus  # a lazy door: the extra `telemetry`
    except ModuleNotFoundError as error:
        raise Unavailable(
            f"metrics need {error.name}: pip install 'assay[telemetry]'", retry_after=3600
        ) from None

    registry = prometheus.CollectorRegistry()
    prometheus.ProcessCollector(registry=registry)
    prometheus.GCCollector(registry=registry)
    registry.register(_Collector(watch))
    return prometheus.generate_latest(registry)


class _Collector:
    def __init__(self, watch: Metrics) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Any]:
        from prometheus_client import core  # a lazy door

        for name, (about, labels) in COUNTERS.items():
            counter = core.CounterMetricFamily(name, about, labels=labels)
            for key, value in list(self._watch.counts.items()):
                if key[0] == name:
                    counter.add_metric(key[1:], value)
            yield counter
        for name, (about, labels) in TIMES.items():
            times = core.HistogramMetricFamily(name, about, labels=labels)
            for key, spread in list(self._watch.times.items()):
                if key[0] == name:
                    times.add_metric(key[1:], _buckets(spread), spread.total)
            yield times
        for name, about in GAUGES.items():
            if name in self._watch.gauges:
                yield core.GaugeMetricFamily(name, about, value=self._watch.gauges[name]())


def _buckets(spread: Histogram) -> list[tuple[str, float]]:
    sums: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), spread.counts, strict=True):
        total += count
        sums.append((bound, total))
    return sums
