"""The receiver of OTLP: what is acknowledged is scored once, in a window of its project; the rest is refused clearly."""

import gzip
import json
from datetime import datetime
from functools import reduce

import msgspec
import pytest

from assay.checks import STANDARD
from assay.errors import UsageError
from assay.fep.trace_windows.projects import trace_projects
from assay.ports import Services
from assay.ports.config import TraceProjectConfig
from assay.serve.web.limit_settings import ServerLimits
from assay.traces import span_inbox
from assay.traces.span_inbox import is_sampled
from support.servers.rest_client import Server
from support.traces.otlp import to_protobuf
from support.traces.received import (
    CHECKS,
    agent_trace,
    log_request,
    model_call,
    new_trace,
    request,
    root,
    span,
    total,
    wait_for,
    windows,
)
from support.waiting import wait_until

PROTOBUF = "application/x-protobuf"
FAST = {"checks": CHECKS, "settle": "0s", "quiet": "1s"}
LIMITS = ServerLimits(max_body_bytes=1_000_000, max_trace_bytes=300_000)


@pytest.fixture(scope="module")
def host(database):
    projects = {
        "support": FAST,
        "patient": FAST | {"quiet": "1h"},
        "sampled": FAST | {"sample": 0.5},
        "gold": FAST | {"filter": {"customer": ["gold", "silver"], "service.name": "shop"}},
        "talks": FAST | {"case": "conversation"},
        "kept": FAST | {"retention": "1d"},
        "short": FAST | {"window": "3s"},
        "theirs": FAST | {"tenants": ["globex"]},
    }
    with Server(database, serving=LIMITS, traces=projects) as server:
        yield server


def send(client, document, project="support", path="/v1/traces"):
    answer = client.post(path, json=document, headers={"x-assay-project": project})
    assert answer.status_code == 200, answer.text
    return answer.json()


def results(host, client, window):
    """The results of a window that is over: every door reads them as of any other evaluation."""
    host.do(host.executor.cancel(window.run.id, window.run.tenant))
    wait_until(lambda: not windows(host, window.plan.project, window.run.tenant)[0].is_open)
    return client.get(f"/v1/evaluations/{window.run.id}").json()["results"]


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("form", ["json", "protobuf"])
def test_a_trace_in_each_encoding_is_scored_and_answered_in_its_own(host, form, zipped):
    tenant, document = f"{form}-{zipped}", agent_trace()
    body = to_protobuf(document) if form == "protobuf" else json.dumps(document).encode()
    media = PROTOBUF if form == "protobuf" else "application/json"
    headers = {"content-type": media, "x-assay-project": "support"}
    if zipped:
        body, headers["content-encoding"] = gzip.compress(body), "gzip"
    with host.client(tenant=tenant, scopes={"traces:write", "evaluations:read"}) as client:
        answer = client.post("/v1/traces", content=body, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, media)
        assert answer.content == (b"" if form == "protobuf" else b"{}")
        (window,) = wait_for(host, tenant=tenant, scored=1)
        assert (window.counts.seen, window.counts.sampled, window.not_measured) == (1, 1, 0)
        assert window.run.metadata["tags"] == [f"name=support {window.plan.start:%Y-%m-%d}"]
        (result,) = results(host, client, window)
        case = result["execution_context"]["test_case"]
        assert case["id"] == document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
        assert result["check_results"][0]["results"]["passed"]


def test_the_exporters_of_opentelemetry_send_spans_that_are_scored(host):
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    headers = {"authorization": f"Bearer {host.key(tenant='otel')}"}
    exporter = OTLPSpanExporter(f"{host.url}/v1/traces", headers=headers, compression=Compression.Gzip)
    provider = TracerProvider(resource=Resource({"service.name": "support"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    for _ in range(20):
        with tracer.start_as_current_span("invoke_agent"), tracer.start_as_current_span("chat") as inner:
            message = {"role": "assistant", "parts": [{"type": "text", "content": "20 degrees"}]}
            inner.set_attributes(
                {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([message])}
            )
    provider.shutdown()  # sends what is left
    found = wait_for(host, tenant="otel", scored=20)
    assert (total(found, "scored"), total(found, "late_spans")) == (20, 0)


def test_spans_of_a_trace_may_come_in_any_request_until_its_root(host):
    trace = new_trace()
    with host.client(tenant="parts") as client:
        send(client, request(model_call(trace)), "patient")
        send(client, agent_trace(), "patient")
        (window,) = wait_for(host, "patient", "parts", scored=1)
        assert window.counts.scored == 1  # the other one waits for its root
        send(client, request(root(trace)), "patient")
        (window,) = wait_for(host, "patient", "parts", scored=2)
        assert {one["output"]["value"] for one in contexts(results(host, client, window))} == {"20 degrees"}


def test_the_history_of_a_project_has_the_span_and_the_score_of_each_window(host):
    with host.client(tenant="history") as client:
        send(client, agent_trace())
        (window,) = wait_for(host, tenant="history", scored=1)
        results(host, client, window)
        query = {"name": "support", "kind": "evaluation"}
        (row,) = client.post("/v1/host/assay/runs:history", json=query).json()["rows"]
        assert row["runId"] == window.run.id
        ends = [datetime.fromisoformat(row[name]) for name in ("windowStart", "windowEnd")]
        assert ends == [window.plan.start, window.plan.end]
        assert (row["text"], row["tasks"]) == ("100.0%", 1)


def contexts(found):
    return [result["execution_context"] for result in found]


def test_a_trace_without_a_root_is_scored_after_the_quiet_time(host):
    with host.client(tenant="rootless") as client:
        send(client, request(model_call(new_trace())))
        assert total(wait_for(host, tenant="rootless", scored=1), "scored") == 1


def test_late_spans_are_counted_and_the_trace_is_scored_once(host):
    trace = new_trace()
    with host.client(tenant="late") as client:
        send(client, agent_trace(trace))
        wait_for(host, tenant="late", scored=1)
        send(client, agent_trace(trace))  # a request that was sent again
        found = wait_for(host, tenant="late", late_spans=2)
        assert (total(found, "scored"), total(found, "late_spans")) == (1, 2)
        assert host.do(host.store.measure_documents("late", span_inbox.KIND)) == (0, 0)


def test_the_log_records_of_a_span_are_its_events(host):
    trace = new_trace()
    chat = span(trace, "02", gen_ai__operation__name="chat", gen_ai__system="openai")
    choice = log_request(trace, "02", "gen_ai.choice", {"message": {"content": "20 degrees"}})
    with host.client(tenant="logs") as client:
        assert send(client, choice, path="/v1/logs") == {}
        assert send(client, request(chat)) == {}
        (window,) = wait_for(host, tenant="logs", scored=1)
        (context,) = contexts(results(host, client, window))
        assert context["output"]["value"] == "20 degrees"


def test_log_records_without_a_span_are_counted(host):
    with host.client(tenant="lonely") as client:
        send(client, log_request(new_trace(), "02", "gen_ai.choice", {}), path="/v1/logs")
        assert total(wait_for(host, tenant="lonely", without_spans=1), "scored") == 0


def test_sampling_depends_on_the_trace_alone_and_both_parts_are_counted(host):
    traces = [new_trace() for _ in range(40)]
    chosen = sum(is_sampled(trace, 0.5) for trace in traces)
    with host.client(tenant="half") as client:
        for trace in traces:
            send(client, agent_trace(trace), "sampled")
        found = wait_for(host, "sampled", "half", seen=40)
        assert (total(found, "seen"), total(found, "sampled"), total(found, "scored")) == (40, chosen, chosen)


def test_the_filter_reads_attributes_of_the_root_and_its_resource(host):
    with host.client(tenant="picky") as client:
        for customer, service in (("gold", "shop"), ("silver", "shop"), ("none", "shop"), ("gold", "x")):
            trace = new_trace()
            send(client, request(model_call(trace), root(trace, customer=customer), service=service), "gold")
        found = wait_for(host, "gold", "picky", scored=2, filtered=2)
        assert (total(found, "sampled"), total(found, "scored")) == (4, 2)


def test_the_traces_of_a_conversation_are_one_case(host):
    with host.client(tenant="talk") as client:
        for answer in ("hello", "20 degrees"):
            send(client, agent_trace(answer=answer, gen_ai__conversation__id="c-7"), "talks")
        (window,) = wait_for(host, "talks", "talk", scored=1)
        (context,) = contexts(results(host, client, window))
        assert (context["test_case"]["id"], len(context["output"]["metadata"]["trace"]["trace_ids"])) == (
            "c-7",
            2,
        )


def test_a_short_window_ends_and_the_next_one_begins(host):
    with host.client(tenant="hasty") as client:
        send(client, agent_trace(), "short")
        first = wait_until(lambda: [one for one in windows(host, "short", "hasty") if not one.is_open])[0]
        assert (first.run.status, first.counts.scored) == ("completed", 1)
        assert first.run.facts.score == 1.0
        send(client, agent_trace(answer="no idea"), "short")
        found = wait_for(host, "short", "hasty", scored=2)
        assert len({window.plan.start for window in found}) == 2
        wait_until(lambda: not windows(host, "short", "hasty")[0].is_open)
        for window, passed in zip(reversed(found), (True, False), strict=True):
            whole = client.get(f"/v1/evaluations/{window.run.id}").json()
            assert [one["check_results"][0]["results"]["passed"] for one in whole["results"]] == [passed]
            assert client.get(f"/v1/host/assay/runs/{window.run.id}/overview").status_code == 200


def test_a_cancelled_window_is_not_opened_again_before_its_end(host):
    with host.client(tenant="stopped") as client:
        send(client, agent_trace())
        (window,) = wait_for(host, tenant="stopped", scored=1)
        results(host, client, window)  # cancels it
        send(client, agent_trace())
        host.do(host.intake.look())
        assert [one.run.status for one in windows(host, tenant="stopped")] == ["cancelled"]
        assert host.do(host.store.measure_documents("stopped", span_inbox.KIND))[0] == 1


def test_other_settings_end_the_open_window_after_a_restart(tmp_path):
    address = f"sqlite:///{tmp_path}/a.db"
    with Server(address, traces={"support": FAST}) as server, server.client() as client:
        send(client, agent_trace())
        wait_for(server, scored=1)
    with Server(address, traces={"support": FAST}) as server, server.client() as client:
        send(client, agent_trace())
        (window,) = wait_for(server, scored=2)  # the same window goes on
    stricter = FAST | {"checks": [{"contains": "Celsius"}]}
    with Server(address, traces={"support": stricter}) as server, server.client() as client:
        wait_until(lambda: not windows(server)[-1].is_open)
        send(client, agent_trace())
        newer, older = wait_for(server, scored=3)
        assert (older.run.id, older.run.status, older.counts.scored) == (window.run.id, "completed", 2)
        (result,) = results(server, client, newer)
        assert not result["check_results"][0]["results"]["passed"]


def test_spans_are_deleted_when_they_are_scored_unless_retention_keeps_them(host):
    with host.client(tenant="keeper") as client:
        for project in ("support", "kept"):
            send(client, agent_trace(), project)
            wait_for(host, project, "keeper", scored=1)
        assert host.do(host.store.measure_documents("keeper", span_inbox.KIND)) == (0, 0)
        assert host.do(host.store.measure_documents("keeper", "trace-kept/kept"))[0] == 1
        assert host.do(host.store.measure_documents("keeper", "trace-kept/support"))[0] == 0


# Hostile traces


def test_hostile_traces_are_scored_and_harm_no_other(host):
    cycle, double, two, huge = (new_trace() for _ in range(4))
    with host.client(tenant="evil") as client:
        send(client, request(model_call(cycle, parent="03"), span(cycle, "03", "02")))
        send(client, request(model_call(double), model_call(double, "other"), root(double)))
        send(client, request(model_call(two), root(two), span(two, "05")))
        many = [span(huge, f"{at:02x}", "01") for at in range(2, 200)]
        send(client, request(*many, root(huge)))
        good = new_trace()
        send(client, agent_trace(good))
        (window,) = wait_for(host, tenant="evil", scored=5)
        by_id = {one["execution_context"]["test_case"]["id"]: one for one in results(host, client, window)}
        assert by_id.keys() == {cycle, double, two, huge, good}
        assert by_id[good]["check_results"][0]["results"]["passed"]
        assert by_id[huge]["status"] == "error"  # it has no model call: not measured
        assert window.not_measured >= 1


WRONG = span("00" * 16, "02")
DEEP = reduce(lambda value, _: {"arrayValue": {"values": [value]}}, range(80), {"stringValue": "x"})


@pytest.mark.parametrize("form", ["json", "protobuf"])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (WRONG, "traceId: expected 32 hexadecimal digits"),
        (span(new_trace(), "02") | {"attributes": [{"key": "a", "value": DEEP}]}, "nested more than 64 deep"),
        (span(new_trace(), "02") | {"startTimeUnixNano": str(2**64 - 1)}, "expected a number from 0 on"),
    ],
)
def test_a_wrong_span_is_rejected_alone(host, bad, reason, form):
    if form == "protobuf" and "deep" in reason:
        pytest.skip("the messages of OpenTelemetry cannot write it")
    trace = new_trace()
    document = request(bad, model_call(trace), root(trace))
    media = PROTOBUF if form == "protobuf" else "application/json"
    body = to_protobuf(document) if form == "protobuf" else json.dumps(document).encode()
    with host.client(tenant="wrong") as client:
        answer = client.post(
            "/v1/traces", content=body, headers={"content-type": media, "x-assay-project": "support"}
        )
    assert answer.status_code == 200
    if form == "json":
        partial = answer.json()["partialSuccess"]
        assert partial["rejectedSpans"] == "1"
        assert reason in partial["errorMessage"]
    else:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert partial.rejected_spans == 1
        assert reason in partial.error_message


BOMB = gzip.compress(b" " * 50_000_000)
REFUSED = [
    ({"content-type": "text/plain"}, b"{}", 415, "expected a body of"),
    ({"content-type": PROTOBUF}, b"\xff\xff\xff", 400, "expected an OTLP export request in protobuf"),
    ({}, b"[", 400, "not JSON"),
    ({}, b'{"spans": []}', 400, "resourceSpans or resourceLogs"),
    ({}, b'{"resourceSpans": [7]}', 400, "resourceSpans[0]: expected an object"),
    ({"x-assay-project": "nothing"}, b"{}", 400, "there is no project 'nothing'; there are support"),
    ({"x-assay-project": "theirs"}, b"{}", 400, "there is no project 'theirs'"),
    ({}, json.dumps(agent_trace(answer="x" * 1_000_000)).encode(), 413, "ASSAY_MAX_BODY_BYTES"),
    ({"content-encoding": "gzip"}, BOMB, 413, "ASSAY_MAX_BODY_BYTES"),
    ({"content-encoding": "br"}, b"{}", 415, "gzip or identity"),
    ({"content-encoding": "gzip"}, b"{}", 400, "not valid gzip"),
]


@pytest.mark.parametrize(("headers", "body", "status", "reason"), REFUSED)
def test_a_request_that_is_not_one_gets_a_status_of_otlp(host, headers, body, status, reason):
    usual = {"content-type": "application/json", "x-assay-project": "support"}
    with host.client(tenant="refused") as client:
        answer = client.post("/v1/traces", content=body, headers=usual | headers)
    assert answer.status_code == status
    if headers.get("content-type") == PROTOBUF:
        assert answer.headers["content-type"] == PROTOBUF
        assert reason in answer.content.decode("latin-1")
    else:
        assert reason in answer.json()["message"]
        assert answer.json()["code"] in (3, 8)


def test_each_resource_names_its_project_by_its_service(host):
    with host.client(tenant="services") as client:
        mine, other = agent_trace(), request(model_call(new_trace()), service="unknown")
        mine["resourceSpans"][0]["resource"]["attributes"] = [
            {"key": "service.name", "value": {"stringValue": "support"}}
        ]
        document = {"resourceSpans": [*mine["resourceSpans"], *other["resourceSpans"]]}
        answer = client.post("/v1/traces", json=document).json()["partialSuccess"]
        assert answer["rejectedSpans"] == "1"
        assert "service.name 'unknown': expected a service.name that is a project" in answer["errorMessage"]
        assert total(wait_for(host, tenant="services", scored=1), "scored") == 1


def test_tenants_have_their_own_windows_and_a_flood_costs_the_sender_429(host):
    big = agent_trace(answer="x" * 90_000)
    unfinished = {"resourceSpans": [dict(one) for one in big["resourceSpans"]]}
    unfinished["resourceSpans"][0]["scopeSpans"] = [
        {"spans": big["resourceSpans"][0]["scopeSpans"][0]["spans"][:1]}
    ]
    with host.client(tenant="flood") as flood, host.client(tenant="calm") as calm:
        answer = None
        for at in range(500):
            unfinished["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = new_trace()
            text = json.dumps(unfinished).replace("x" * 64, f"{at:064}", 1_000)
            headers = {"x-assay-project": "patient", "content-type": "application/json"}
            answer = flood.post("/v1/traces", content=noise(text), headers=headers)
            if answer.status_code != 200:
                break
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert "ASSAY_MAX_TRACE_BYTES" in answer.json()["message"]
        send(calm, agent_trace(), "patient")
        assert total(wait_for(host, "patient", "calm", scored=1), "scored") == 1
        assert total(windows(host, "patient", "flood"), "scored") == 0


def noise(text):
    """Text that does not become small in the store."""
    import secrets

    return text.replace("x" * 64, secrets.token_hex(32)) if "x" * 64 in text else text


def test_without_a_project_the_routes_answer_404(database):
    with Server(database) as server, server.client() as client:
        for path in ("/v1/traces", "/v1/logs"):
            answer = client.post(path, json={"resourceSpans": []})
            assert (answer.status_code, answer.json()["code"]) == (404, 5)
            assert "[traces.NAME] in assay.toml" in answer.json()["message"]


@pytest.mark.parametrize(
    ("project", "reason"),
    [
        ({"a b": FAST}, "traces.a b: expected a name of up to 64 letters"),
        ({"a": FAST | {"window": "0s"}}, "traces.a.window: expected a span above 0"),
        ({"a": FAST | {"checks": []}}, "traces.a.checks: expected one check at least"),
        ({"a": FAST | {"checks": [{"vibes": 1}]}}, "traces.a.checks:"),
        ({"a": FAST | {"checks": "none.yaml"}}, "none.yaml"),
    ],
)
def test_settings_of_a_project_that_are_wrong_are_refused_at_the_start(project, reason):
    configs = msgspec.convert(project, dict[str, TraceProjectConfig])
    with pytest.raises(UsageError) as caught:
        trace_projects(configs, STANDARD, Services())
    assert reason in str(caught.value)
