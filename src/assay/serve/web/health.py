"""Routes that need no key: health, probes and the OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from assay.errors import Unavailable
from assay.extras import missing_extra
from assay.ports.telemetry import BOUNDS, COUNTERS, GAUGES, TIMES, Histogram, Metrics, telemetry
from assay.protocol.operations import Health, ProbeStatus
from assay.serve.web.request import HttpRequest, ServerState
from assay.serve.web.responses import Headers, Response, answer
from assay.serve.web.worker_group import WorkerMember, merged_metrics
from assay.version import __version__

PROTOCOL = "0.0.1"
CACHE: Headers = ((b"cache-control", b"max-age=60"),)
FRESH: Headers = ((b"cache-control", b"no-store"),)


async def health(call: HttpRequest) -> Response:
    """The service is healthy if it accepts work and its database answers."""
    call.query()
    await check_ready(call.server)
    return answer(Health(status="healthy", version=PROTOCOL, assay_version=__version__), headers=FRESH)


async def ready(call: HttpRequest) -> Response:
    call.query()
    await check_ready(call.server)
    return answer(ProbeStatus(status="ready"), headers=FRESH)


async def live(call: HttpRequest) -> Response:
    """The event loop answers. It does not ask the database: a restart would not bring that back."""
    call.query()
    return answer(ProbeStatus(status="alive"), headers=FRESH)


async def check_ready(server: ServerState) -> None:
    """Raise Unavailable while the server stops, or if its database does not answer."""
    server.admission.check_open()
    await server.probe.check()


async def show_openapi(call: HttpRequest) -> Response:
    call.query()
    return Response(call.server.openapi, headers=CACHE)


# GET /metrics: the metrics of this server, of all its workers together, in Prometheus' text format.

MEDIA = b"text/plain; version=0.0.4; charset=utf-8"


async def show_metrics(call: HttpRequest) -> Response:
    call.query()
    return Response(exposition(telemetry, call.server.member), media=MEDIA)


def exposition(metrics: Metrics, member: WorkerMember | None = None) -> bytes:
    try:
        import prometheus_client as prometheus  # deferred import: the extra `telemetry`
    except ModuleNotFoundError as error:
        message = str(missing_extra("GET /metrics", "telemetry", error=error))
        raise Unavailable(message, retry_after=3600) from None

    registry = prometheus.CollectorRegistry()
    if member is None:
        prometheus.ProcessCollector(registry=registry)
        prometheus.GCCollector(registry=registry)
    else:
        metrics, pids = merged_metrics(member, metrics)
        registry.register(_ProcessCollector(pids))
    registry.register(_Collector(metrics))
    return prometheus.generate_latest(registry)


class _ProcessCollector:
    """The metrics of each process, with the label `process`."""

    def __init__(self, pids: dict[int, int]) -> None:
        self._pids = pids

    def collect(self) -> Iterator[Any]:
        from prometheus_client import Metric, ProcessCollector  # deferred import

        families: dict[str, Any] = {}
        for number, pid in self._pids.items():
            for found in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():
                family = families.setdefault(found.name, Metric(found.name, found.documentation, found.type))
                for sample in found.samples:
                    family.add_sample(sample.name, {**sample.labels, "process": str(number)}, sample.value)
        yield from families.values()


class _Collector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Any]:
        from prometheus_client import core  # deferred import

        for name, (help, labels) in COUNTERS.items():
            counter = core.CounterMetricFamily(name, help, labels=labels)
            for key, value in list(self._metrics.counts.items()):
                if key[0] == name:
                    counter.add_metric(key[1:], value)
            yield counter
        for name, (help, labels) in TIMES.items():
            times = core.HistogramMetricFamily(name, help, labels=labels)
            for key, histogram in list(self._metrics.times.items()):
                if key[0] == name:
                    times.add_metric(key[1:], _buckets(histogram), histogram.total)
            yield times
        for name, help in GAUGES.items():
            if name in self._metrics.gauges:
                yield core.GaugeMetricFamily(name, help, value=self._metrics.gauges[name]())


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    sums: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), histogram.counts, strict=True):
        total += count
        sums.append((bound, total))
    return sums
