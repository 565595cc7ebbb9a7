"""
An agent with OpenTelemetry, in a process of its own: `python instrumented.py` is a command for one task,
`python instrumented.py serve` an endpoint that prints its port. It calls a tool and a model of its own.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("agent")
MODEL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
}


def answer(task: str, traceparent: str) -> str:
    """The task says what is done: `weather`, `silent` without spans, `stranger` in a trace of its own."""
    if task == "silent":
        return "20 degrees"
    parent = None
    if task != "stranger":
        parent = TraceContextTextMapPropagator().extract({"traceparent": traceparent})
    with tracer.start_as_current_span("invoke_agent", parent) as root:
        root.set_attribute("gen_ai.operation.name", "invoke_agent")
        with tracer.start_as_current_span("execute_tool weather") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "weather")
            if task != "hidden":
                span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"city": "Paris"}))
                span.set_attribute("gen_ai.tool.call.result", json.dumps({"celsius": 20}))
        with tracer.start_as_current_span("chat") as span:
            tokens = {
                "gen_ai.usage.input_tokens": 31,
                "gen_ai.usage.output_tokens": 9,
                "gen_ai.response.id": "resp-1",
            }
            span.set_attributes(MODEL | tokens)
    return "20 degrees"


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        task = json.loads(self.rfile.read(int(self.headers["content-length"])))["task"]
        body = json.dumps({"result": answer(task, self.headers["traceparent"])}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()
    task = json.loads(sys.stdin.readline())["task"]
    sys.stdout.write(json.dumps({"type": "result", "result": answer(task, os.environ["TRACEPARENT"])}) + "\n")
    sys.stdout.flush()
    provider.shutdown()


if __name__ == "__main__":
    trace.set_tracer_provider(provider)
    main()
