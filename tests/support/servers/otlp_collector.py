"""A collector of OpenTelemetry on loopback: it keeps the spans that come in."""

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.servers.thread_server import Handler, HandlerServer


class Collector(HandlerServer):
    """OTLP over HTTP: what comes in is kept."""

    def __init__(self):
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Traces(Handler):
            def do_POST(self):
                bodies.append(self.body())
                self.send(200)

        super().__init__(Traces)

    def spans(self) -> list[Any]:
        return [
            span
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
