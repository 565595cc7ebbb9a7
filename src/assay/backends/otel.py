"""Exports spans over OTLP/HTTP. OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_…) configure the collector."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from assay.ports.telemetry import Attributes, traceparent_of


class OtelTracer:
    """A tracer of its own. A failed span has only the exception's class, because a message may be content."""

    def __init__(self) -> None:
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "assay"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("assay")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self, name: str, attributes: Attributes, parent: Mapping[str, str] | None = None
    ) -> Generator[Any]:
        there = self._parent(parent)
        kind = SpanKind.INTERNAL if parent is None else SpanKind.SERVER
        with self._tracer.start_as_current_span(
            name, there, kind, dict(attributes), record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as surprise:
                span.set_attribute("error.type", type(surprise).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def current(self) -> str:
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        return headers.get("traceparent", "")

    @contextmanager
    def within(self, traceparent: str) -> Generator[None]:
        token = context.attach(self._propagator.extract({"traceparent": traceparent_of(traceparent)}))
        try:
            yield
        finally:
            context.detach(token)

    def close(self) -> None:
        """Send the remaining spans, for at most three seconds."""
        self._provider.force_flush(3_000)
        self._provider.shutdown()

    def _parent(self, headers: Mapping[str, str] | None) -> context.Context | None:
        if headers is None:
            return None
        header = traceparent_of(headers.get("traceparent"))
        root = trace.set_span_in_context(trace.INVALID_SPAN)
        return self._propagator.extract({"traceparent": header}, root) if header else root
