"""Metrics, logs and traces of a real server: what is to be seen is there, and no content and no tenant's name is."""

import io
import json
import logging
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay.backends.otel import OtelTracer
from assay.ports.audit import AuditActor, acting
from assay.ports.telemetry import COUNTERS, GAUGES, TIMES, Metrics, telemetry
from assay.serve.web import logging as logs
from support.evals import AGENT, golden, suite_of
from support.models.provider_server import ProviderServer
from support.servers.grpc_client import Client, fep
from support.servers.otlp_collector import Collector, attributes
from support.servers.rest_client import Server, request_of, slow, sqlite
from support.waiting import PATIENCE

NAMES = ("transport", "route", "kind", "provider", "direction", "outcome", "status")
CANARY, TENANT = "canary", "tenantcanary"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHECK = """
from assay import Answer, Checker, Services, Text
import asyncio

class Boom(Checker):
    type = "boom"
    text: Text

    async def run(self, services: Services) -> Answer:
        await asyncio.sleep(0.001)
        raise RuntimeError(self.text)
"""


class Telemetry(NamedTuple):
    answers: dict[str, httpx.Response]
    trailing: dict[str, str]
    metrics: str
    logs: list[dict[str, Any]]
    raw_logs: str
    spans: list[Any]
    raw_spans: bytes
    run: str


def request(*checks):
    return {
        "test_cases": [{"id": f"{CANARY}-id", "input": f"{CANARY} input", "metadata": {CANARY: CANARY}}],
        "outputs": [{"value": f"{CANARY} output"}],
        "checks": list(checks),
        "experiment_metadata": {"name": f"{CANARY} experiment"},
    }


BOOM = {"type": "boom", "arguments": {"text": "$.output.value"}}
CONTAINS = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [f"{CANARY} rubric"]}}
JUDGE = {
    "type": "llm_judge",
    "arguments": {
        "prompt": f"{CANARY} prompt: {{{{$.output.value}}}}",
        "response_format": {"type": "object", "required": ["passed"], "properties": {"passed": {"type": "boolean"}}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def telemetry_of(zygote, command, tmp_path_factory):
    """One server, from its start to its end, asked for all kinds of things."""
    folder = tmp_path_factory.mktemp("seeing")
    (folder / "boomcheck.py").write_text(CHECK)
    with Collector() as collector, ProviderServer(answer=lambda _: {"passed": True}) as provider:
        (folder / "assay.toml").write_text(
            f'check_modules = ["boomcheck:Boom"]\n[models]\njudge = "home:ok"\n'
            f'[providers.home]\nbase_url = "{provider.base_url}"\nprices = {{input = 1, output = 1}}\n'
        )
        yield _observe(zygote, command, folder, collector)


def _observe(zygote, command, folder, collector) -> Telemetry:
    scopes = ("--scope", "everything", "--scope", "metrics:read")
    made = command("admin", "key", "create", "--tenant", TENANT, *scopes, "--json", folder=folder)
    key = json.loads(made.out)["key"]
    environ = os.environ | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "PYTHONPATH": str(folder),
        "PYTHONUNBUFFERED": "1",
    }
    options = ("--port", "0", "--log-format", "json", "--log-level", "debug")
    server = zygote.start("serve", *options, folder=folder, pipe=True, environ=environ)
    begin = []
    while "grpc://" not in "".join(begin):
        begin.append(server.stdout.readline())
    address = re.search(r"assay serves (http://\S+)", "".join(begin))[1]
    calls = re.search(r"grpc://(\S+)", begin[-1])[1]
    answers, trailing = {}, {}
    with httpx.Client(base_url=address, headers={"X-API-Key": key}, timeout=PATIENCE) as client:

        def ask(name, method, path, **more):
            headers = {"X-Request-Id": f"asked-{name}", **more.pop("headers", {})}
            answers[name] = client.request(method, path, headers=headers, **more)
            return answers[name]

        ask("quick", "POST", "/v1/evaluate", json=request(CONTAINS), headers={"traceparent": PARENT})
        run = ask("waiting", "POST", "/v1/evaluate", json=request(BOOM, JUDGE)).json()["evaluation_id"]
        ask("read", "GET", f"/v1/evaluations/{run}")
        assert CANARY in ask("followed", "GET", f"/v1/evaluations/{run}/events").text.lower()
        ask("bad", "POST", "/v1/evaluate", json={"checks": CANARY, "test_cases": [CANARY]})
        form = {"content-type": "application/json"}
        ask("broken", "POST", "/v1/evaluate", content=f'{{"{CANARY}'.encode(), headers=form)
        ask("unknown", "GET", f"/v1/evaluations/{CANARY}")
        ask("nowhere", "GET", f"/{CANARY}?{CANARY}={CANARY}")
        ask("method", "PROPFIND", "/v1/evaluate")
        ask("no method", CANARY.upper(), "/v1/evaluate")
        ask("strange", "GET", "/v1/checks", headers={"X-Request-Id": f"{CANARY} {CANARY}!"})
        ask("nobody", "GET", "/v1/evaluations", headers={"X-API-Key": CANARY})
        with grpc.insecure_channel(calls) as channel:
            caller = Client(channel, key)
            caller.call("HealthCheck", metadata=(("x-request-id", "asked-grpc"),))
            trailing = dict(caller.last)
            with pytest.raises(grpc.RpcError):
                caller.call("GetEvaluation", fep.GetEvaluationRequest(evaluation_id=CANARY))
        until = time.monotonic() + PATIENCE  # a hang guard: who called is answered before the call is counted
        metrics = ""
        while "NOT_FOUND" not in metrics:
            assert time.monotonic() < until
            metrics = ask(f"metrics-{len(answers)}", "GET", "/metrics").text
    server.send_signal(signal.SIGTERM)
    rest, errors = server.communicate()
    assert errors == ""
    logs = "".join(begin) + rest
    lines = logs.splitlines()
    return Telemetry(
        answers, trailing, metrics, [json.loads(line) for line in lines], logs,
        collector.spans(), b"".join(collector.bodies), run,
    )  # fmt: skip


def samples(text):
    return {
        (sample.name, *(sample.labels[name] for name in NAMES if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_have_every_family(telemetry_of):
    found = samples(telemetry_of.metrics)
    assert found["assay_requests_total", "rest", "POST /v1/evaluate", "200"] == 2
    assert found["assay_requests_total", "rest", "POST /v1/evaluate", "400"] == 2
    assert found["assay_requests_total", "rest", "OTHER /v1/evaluate", "405"] == 1
    assert found["assay_requests_total", "rest", "GET ", "404"] == 1
    assert found["assay_requests_total", "grpc", "/fep.v1.EvaluationService/HealthCheck", "OK"] == 1
    assert found["assay_requests_total", "grpc", "/fep.v1.EvaluationService/GetEvaluation", "NOT_FOUND"] == 1
    assert found["assay_request_seconds_count", "rest", "POST /v1/evaluate"] == 4
    assert found["assay_runs_total", "evaluation", "completed"] == 2
    assert found["assay_units_total", "evaluation"] == 1
    assert found["assay_events_total",] == 6
    assert found["assay_commit_seconds_count",] >= 3
    assert found["assay_model_calls_total", "home", "ok"] == 1
    assert found["assay_model_tokens_total", "home", "input"] > 0
    assert found["assay_model_cost_usd_total", "home"] > 0
    assert found["assay_requests_in_flight",] == 1  # this one
    assert found["process_cpu_seconds_total",] > 0
    names = {family.name for family in text_string_to_metric_families(telemetry_of.metrics)}
    assert {*COUNTERS, *TIMES, *GAUGES} <= names


def test_a_response_and_its_log_lines_have_one_request_id(telemetry_of):
    for name, answer in telemetry_of.answers.items():
        number = answer.headers["x-request-id"]
        assert number.startswith("req_" if name in ("strange", "no method") else f"asked-{name}")
        if name == "no method":
            continue  # it was no request yet: the server refused the connection
        answered = [
            line
            for line in telemetry_of.logs
            if line.get("request") == number and line["message"] == "answered"
        ]
        assert [int(line["status"]) for line in answered] == [answer.status_code], name
    assert telemetry_of.trailing["x-request-id"] == "asked-grpc"
    assert [line["route"] for line in telemetry_of.logs if line.get("request") == "asked-grpc"] == [
        "/fep.v1.EvaluationService/HealthCheck"
    ]


def test_requests_runs_and_units_have_spans(telemetry_of):
    spans = {span.name: span for span in telemetry_of.spans}
    by_id = {span.span_id: span for span in telemetry_of.spans}
    quick = next(
        span for span in telemetry_of.spans if span.parent_span_id == bytes.fromhex("b7ad6b7169203331")
    )
    assert quick.trace_id == bytes.fromhex("0af7651916cd43dd8448eb211c80319c")  # the caller's
    assert attributes(quick) == {
        "http.request.method": "POST", "http.route": "/v1/evaluate", "http.response.status_code": 200,
    }  # fmt: skip
    unit = spans["unit"]
    run = by_id[unit.parent_span_id]
    assert (unit.name, run.name, by_id[run.parent_span_id].name) == (
        "unit",
        "run evaluation",
        "POST /v1/evaluate",
    )
    assert attributes(run)["assay.run.id"] == telemetry_of.run
    assert "fep.v1.EvaluationService/HealthCheck" in spans
    assert not [name for name in spans if name.startswith("gen_ai.")]  # verdicts are events: docs/traces.md


@pytest.fixture
def collector(monkeypatch):
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


def test_units_of_every_kind_of_run_have_spans(tmp_path, monkeypatch, collector):
    tracer = OtelTracer()
    monkeypatch.setattr(telemetry, "tracer", tracer)
    suite = suite_of(golden("t", "x", "x"))
    try:
        with Server(sqlite(tmp_path), seeded=True) as host, host.client() as client:
            client.post("/v1/evaluate", json=request_of(1, [slow(0.001)]))
            assert client.post("/v1/host/assay/suites", json=suite).status_code == 201
            for body in (
                {"mode": "eval", "evalSuiteRef": suite["suiteId"], "agentId": AGENT},
                {"workflowId": "conformance-noop"},
            ):
                run = client.post("/v1/runs", json=body).json()["runId"]
                events = f"/v1/runs/{run}/events/poll?lastSequence=100&timeout=1"
                while not client.get(events).json()["isComplete"]:
                    pass
    finally:
        tracer.close()
    spans = {span.span_id: span for span in collector.spans()}
    units = [span for span in spans.values() if span.name == "unit"]
    assert {spans[unit.parent_span_id].name: set(attributes(unit)) for unit in units} == {
        "run evaluation": {"assay.run.id", "assay.unit", "assay.cases"},
        "run agent-eval": {"assay.run.id", "assay.trial"},
        "run workflow": {"assay.run.id", "assay.step"},
    }
    runs = {attributes(span)["assay.run.id"] for span in spans.values() if span.name.startswith("run ")}
    assert {attributes(unit)["assay.run.id"] for unit in units} == runs


@pytest.mark.parametrize("where", ["metrics", "logs", "spans"])
def test_telemetry_has_no_content_and_no_tenant(telemetry_of, where):
    text = {
        "metrics": telemetry_of.metrics.encode(),
        "logs": telemetry_of.raw_logs.encode(),
        "spans": telemetry_of.raw_spans,
    }[where]
    assert len(text) > 1000
    assert CANARY.encode() not in text.lower()
    assert TENANT.encode() not in text.lower()


def test_libraries_log_nothing_below_a_warning(telemetry_of):
    assert {line["level"] for line in telemetry_of.logs if line["logger"].startswith("assay")} >= {"info"}
    assert [line for line in telemetry_of.logs if not line["logger"].startswith("assay")] == []


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
@pytest.mark.parametrize(
    "name", ["assay.rest", "assaying", "sse_starlette.sse", "uvicorn.error", "root", "shop"]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_of_another_logger_has_its_place_and_no_text(form, name, level):
    written = io.StringIO()
    record = logging.LogRecord(
        name, getattr(logging, level.upper()), "/x/sse.py", 7, f"chunk: %s {CANARY}", (CANARY,), None
    )
    logs.handler(form, written).handle(record)
    line = written.getvalue()
    if name == "assay.rest":
        assert CANARY in line
    elif level in ("debug", "info"):
        assert line == ""
    else:
        assert "logged at sse.py:7" in line
        assert CANARY not in line


def test_a_span_of_a_failure_has_its_type_and_no_message(collector):
    tracer = OtelTracer()
    try:
        with pytest.raises(RuntimeError), tracer.span("unit", {}):
            raise RuntimeError(CANARY)
    finally:
        tracer.close()
    (span,) = collector.spans()
    assert attributes(span) == {"error.type": "RuntimeError"}
    assert CANARY.encode() not in b"".join(collector.bodies)


def test_disabled_telemetry_counts_nothing():
    watch = Metrics()
    watch.add("assay_events")
    watch.observe("assay_commit_seconds", 1.0)
    with watch.span("run", {}) as span:
        assert span is None
    assert not watch.counts
    assert not watch.times


def test_the_document_has_every_metric():
    text = (Path(__file__).parents[3] / "docs" / "observability.md").read_text("utf-8")
    rows = re.findall(r"^\| `(assay_\w+)` \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    known = [(name, ", ".join(one.labels) or "–", one.about) for name, one in (COUNTERS | TIMES).items()]
    assert rows == [*known, *((name, "–", about) for name, about in GAUGES.items())]


@pytest.mark.parametrize("form", [logs.TextFormatter(), logs.JsonFormatter()], ids=["text", "json"])
def test_a_log_line_of_a_failure_has_type_and_place_and_no_message(form):
    def fails():
        raise RuntimeError(CANARY)

    trouble: Any = (None, None, None)
    try:
        fails()
    except RuntimeError:
        trouble = sys.exc_info()
    record = logging.LogRecord("assay", logging.ERROR, "", 0, "it\nfailed", None, trouble)
    acting.set(AuditActor("k1", "asked-1"))
    line = form.format(record)
    assert CANARY not in line
    assert "\n" not in line
    for part in ("it failed", "RuntimeError", "test_observability.py:", "asked-1", "k1"):
        assert part in line
