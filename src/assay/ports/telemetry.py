"""
Metrics and trace spans of this process.

Labels are names that assay or the operator chose: routes, kinds, statuses, providers. They never hold content or a
tenant.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

Attributes = Mapping[str, str | int | float | bool]
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds


_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
tracing: ContextVar[str] = ContextVar("tracing", default="")  # the traceparent of the run this task works for


def traceparent_of(header: str | None) -> str:
    """Return a valid W3C traceparent, or ""."""
    return header if header is not None and _TRACEPARENT.fullmatch(header) else ""


@contextmanager
def trace_context(header: str | None) -> Generator[None]:
    """Work that starts inside belongs to that trace, on every host that continues it."""
    token = tracing.set(traceparent_of(header))
    try:
        yield
    finally:
        tracing.reset(token)


def propagation_headers() -> dict[str, str]:
    """Headers for a call to another host (openwop-contract §13.8)."""
    current = tracing.get()
    return {"traceparent": current} if current else {}


class SpanExport:
    """
    Where an agent sends the spans of one invocation, and their trace. `parents`: the spans that stand for our calls of
    the agent; its own root spans are their children.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint, self.trace_id = endpoint, secrets.token_hex(16)
        self.parents: list[str] = []

    def next_traceparent(self) -> str:
        self.parents.append(secrets.token_hex(8))
        return f"00-{self.trace_id}-{self.parents[-1]}-01"


span_export: ContextVar[SpanExport | None] = ContextVar("span_export", default=None)  # of this invocation


def agent_traceparent() -> str:
    """The traceparent for one call of an agent: that of the run, else of a trace of its own."""
    return tracing.get() or (span_export.get() or SpanExport("")).next_traceparent()


def agent_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is one call of an agent."""
    found = {**inherited, "TRACEPARENT": agent_traceparent()}
    export = span_export.get()
    if export is None:
        return found
    for name in _OTHER_ENDPOINTS:
        found.pop(name, None)
    return found | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": export.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }


_OTHER_ENDPOINTS = [
    f"OTEL_EXPORTER_OTLP_{signal}_{member}"
    for signal in ("TRACES", "LOGS")
    for member in ("ENDPOINT", "PROTOCOL")
]


class Metric(NamedTuple):
    about: str
    labels: tuple[str, ...] = ()


COUNTERS = {
    "assay_requests": Metric("responses, by transport, route and status", ("transport", "route", "status")),
    "assay_runs": Metric("runs that ended", ("kind", "status")),
    "assay_units": Metric("units that were completed", ("kind",)),
    "assay_events": Metric("events that were written"),
    "assay_trace_spans": Metric(
        "spans and log records that were received, by outcome", ("project", "outcome")
    ),
    "assay_task_deaths": Metric("background tasks that died and were restarted", ("task",)),
    "assay_model_calls": Metric("calls of providers, by outcome", ("provider", "outcome")),
    "assay_model_tokens": Metric("tokens, as reported by providers", ("provider", "direction")),
    "assay_model_cost_usd": Metric("cost in US dollars, if the price is known", ("provider",)),
}
TIMES = {
    "assay_request_seconds": Metric("time to the response", ("transport", "route")),
    "assay_commit_seconds": Metric("time to commit a batch, with its wait in the queue"),
    "assay_model_seconds": Metric("time to the answer of a provider, with all retries", ("provider",)),
}
GAUGES = {
    "assay_requests_in_flight": "requests in progress, without event streams",
    "assay_event_streams": "open event streams",
    "assay_request_body_bytes": "bytes of request bodies in memory",
    "assay_runs_in_flight": "runs that this server executes",
    "assay_server_processes": "server processes that are ready",
}


class Histogram:
    """Counts durations by bucket."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Tracer(Protocol):
    """Exports trace spans."""

    def span(
        self, name: str, attributes: Attributes, parent: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Any]:
        """A span around a block. `parent` are the incoming headers. The span object has `set_attribute`."""
        ...

    def current(self) -> str:
        """The traceparent of the span that is open here."""
        ...

    def within(self, traceparent: str) -> AbstractContextManager[Any]:
        """Spans in the block are children of a span of another process."""
        ...

    def close(self) -> None: ...


_NOTHING: AbstractContextManager[Any] = nullcontext()


class Metrics:
    """Counts nothing until a server sets `on`. Spans are made only with a tracer."""

    def __init__(self) -> None:
        self.on = False
        self.tracer: Tracer | None = None
        self.counts: dict[tuple[str, ...], float] = {}
        self.times: dict[tuple[str, ...], Histogram] = {}
        self.gauges: dict[str, Callable[[], float]] = {}

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        if self.on:
            key = name, *labels
            self.counts[key] = self.counts.get(key, 0) + amount

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        if self.on:
            key = name, *labels
            histogram = self.times.get(key)
            if histogram is None:
                histogram = self.times[key] = Histogram()
            histogram.add(seconds)

    def span(
        self, name: str, attributes: Attributes, parent: Mapping[str, str] | None = None
    ) -> AbstractContextManager[Any]:
        return _NOTHING if self.tracer is None else self.tracer.span(name, attributes, parent)

    def current_span(self) -> str:
        """The traceparent of the open span, for another process; "" without a tracer."""
        return "" if self.tracer is None else self.tracer.current()

    def within(self, traceparent: str) -> AbstractContextManager[Any]:
        return _NOTHING if self.tracer is None or not traceparent else self.tracer.within(traceparent)


telemetry = Metrics()
