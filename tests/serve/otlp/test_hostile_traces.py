"""Hostile traces: a file and the receiver make the same case of them, within limits, and their content stays in it."""

import json

import msgspec
import pytest

import assay
from assay.fep.trace_windows import kind, trace_units
from assay.fep.trace_windows.trace_units import CaseDocuments
from assay.fep.trace_windows.window import WindowPlan
from assay.ports import Limits
from assay.traces import span_inbox, trace_files
from assay.traces.otlp import items_of_json
from assay.traces.span_inbox import entry_of, groups_of, inbox_documents, read_items, within_limits
from assay.traces.trace_case import PARTS, context_of_traces
from support.canaries import Canaries, record_telemetry
from support.servers.rest_client import Server
from support.traces.otlp import pairs
from support.traces.received import (
    CHECKS,
    MOMENT,
    agent_trace,
    log_request,
    model_call,
    new_trace,
    request,
    root,
    span,
    wait_for,
    windows,
)
from support.waiting import wait_until

PLAN = {
    "project": "p", "start": "2026-11-18T00:00:00Z", "end": "2026-11-19T00:00:00Z", "sample": 1.0, "filter": {},
    "case": "trace", "settle": 0, "quiet": 1, "retention": 0, "digest": "d",
}  # fmt: skip
FAST = {"checks": CHECKS, "settle": "0s", "quiet": "1s"}


@pytest.fixture(scope="module")
def host(database):
    projects = {"support": FAST, "patient": FAST | {"quiet": "1h"}, "talks": FAST | {"case": "conversation"}}
    with Server(database, traces=projects) as server:
        yield server


def post(client, document, project="support", path="/v1/traces"):
    answer = client.post(path, json=document, headers={"x-assay-project": project})
    assert (answer.status_code, answer.json()) == (200, {}), answer.text


def results(host, client, window):
    """The results of a window, which is ended first."""
    host.do(host.executor.cancel(window.run.id, window.run.tenant))
    wait_until(lambda: not windows(host, window.plan.project, window.run.tenant)[0].is_open)
    return client.get(f"/v1/evaluations/{window.run.id}").json()["results"]


def chat(id="02", parent="01", members=None, **attributes):
    made = span("", id, parent, gen_ai__operation__name="chat", **attributes)
    return made | (members or {})


def deep(depth, value="x"):
    return value if not depth else [deep(depth - 1, value)]


MESSAGES = '[{"role": "assistant", "parts": [{"type": "text", "content": "20 degrees"}]}]'
LATER = {"startTimeUnixNano": str(MOMENT - 10**10), "endTimeUnixNano": str(MOMENT - 10**10 + 5)}
HOSTILE = {
    "a cycle": [model_call("", parent="03"), span("", "03", "02")],
    "a span that is its own parent": [model_call("", parent="02")],
    "two roots": [model_call(""), root(""), span("", "05")],
    "no root": [model_call("", parent="09")],
    "an id twice": [model_call(""), model_call("", "other"), root("")],
    "a span twice": [model_call(""), model_call(""), root("")],
    "a clock that is behind": [root(""), model_call("") | LATER],
    "an end before the start": [model_call("") | {"endTimeUnixNano": "1"}],
    "no times": [model_call("") | {"startTimeUnixNano": "0", "endTimeUnixNano": 0}],
    "the last times": [
        model_call("") | {"startTimeUnixNano": str(2**63 - 1), "endTimeUnixNano": str(2**63 - 1)}
    ],
    "texts for numbers": [
        chat(gen_ai__usage__input_tokens="7", gen_ai__usage__output_tokens=True, gen_ai__output__messages=MESSAGES)
    ],
    "numbers that are too large": [
        chat(gen_ai__usage__input_tokens=2**63 - 1, gen_ai__usage__output_tokens=-1, gen_ai__usage__cost=1e308)
    ],
    "numbers for texts": [
        chat(gen_ai__provider__name=7, gen_ai__request__model=[1], gen_ai__conversation__id=1.5, gen_ai__tool__name={})
    ],
    "messages of other types": [
        chat(gen_ai__input__messages=[1, "x", {"role": 3, "parts": 4}], gen_ai__output__messages='{"role": "user"}')
    ],
    "a text for messages": [chat(gen_ai__input__messages="hello", gen_ai__output__messages=7)],
    "messages that were cut": [chat(gen_ai__output__messages=MESSAGES[:-9])],
    "a deep attribute": [chat(x=deep(60), gen_ai__output__messages=MESSAGES)],
    "deep messages": [chat(gen_ai__output__messages=json.dumps(deep(450)))],
    "deeper messages": [chat(gen_ai__output__messages="[" * 100_000)],
    "a large attribute": [chat(x="y" * 300_000, gen_ai__output__messages=MESSAGES)],
    "many spans": [span("", f"{at:02x}", "01") for at in range(2, 250)] + [root("")],
    "zeros in texts": [
        chat(members={"name": "a\0b"}, gen_ai__output__messages=MESSAGES, customer="a\0b", gen_ai__response__id="\0")
    ],
    "halves of characters": [chat(gen_ai__output__messages=MESSAGES.replace("20", "\\ud800"), customer="x")],
    "names of our own": [chat(gen_ai__output__messages=MESSAGES, missing="x", trace_ids=[7])],
    "numbers as names of members": [
        chat(openinference__span__kind="LLM") | {"attributes": pairs({
            "openinference.span.kind": "LLM", "llm.output_messages.99999999999.message.content": "20 degrees",
            "llm.output_messages.x.message": "y", "llm.input_messages": "z", "llm.output_messages.0": 7,
        })}
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def received(host, tmp_path_factory):
    """What the receiver and a file make of each of them: the contexts by name, and the results of the receiver."""
    requests = {name: request(*spans) for name, spans in HOSTILE.items()}
    traces = {name: new_trace() for name in HOSTILE}
    for name, document in requests.items():
        for one in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            one["traceId"] = traces[name]
    good = new_trace()
    with host.client(tenant="evil") as client:
        for document in requests.values():
            post(client, document)
        post(client, agent_trace(good))
        (window,) = wait_for(host, tenant="evil", scored=len(HOSTILE) + 1)
        found = {one["execution_context"]["test_case"]["id"]: one for one in results(host, client, window)}
    assert found[good]["check_results"][0]["results"]["passed"]  # they harm no other trace
    path = tmp_path_factory.mktemp("hostile") / "traces.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in requests.values()))
    contexts = {one["test_case"]["id"]: one for one in assay.read_traces(path)}
    return {name: (contexts[trace], found[trace]) for name, trace in traces.items()}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_receiver_makes_the_case_that_a_file_makes(received, name):
    context, result = received[name]
    assert result["execution_context"] == context


@pytest.mark.parametrize("name", HOSTILE)
def test_a_check_of_what_is_missing_is_not_measured(received, name):
    context, result = received[name]
    (check,) = result["check_results"]
    missing = context["output"]["metadata"].get("missing", {})
    assert (check["status"] == "error") == ("output.value" in missing), (missing, check)


def over_limit(monkeypatch, spans):
    for module in (kind, trace_units, trace_files):
        monkeypatch.setattr(module, "MAX_SPANS", spans)


def test_spans_of_a_trace_over_the_limit_are_not_read_and_not_kept_waiting(host, monkeypatch):
    """Documents beyond the limit are counted and deleted by their keys: a trace of any size needs little memory."""
    over_limit(monkeypatch, 4)
    trace, tenant = new_trace(), "large"
    with host.client(tenant=tenant) as client:
        for at in range(0x10, 0x40, 4):
            post(client, request(*(span(trace, f"{at + more:02x}", "01") for more in range(4))), "patient")
        post(client, request(model_call(trace), root(trace)), "patient")
        (window,) = wait_for(host, "patient", tenant, scored=1)
        (result,) = results(host, client, window)
        assert host.do(host.store.measure_documents(tenant, span_inbox.KIND)) == (0, 0)
    metadata = result["execution_context"]["output"]["metadata"]
    assert metadata["missing"]["output.metadata.trajectory"] == "46 spans are over the limit and left out"
    assert (metadata["trace"]["spans"], metadata["trace"]["name"]) == (4, "span")
    assert result["execution_context"]["output"]["value"] == "20 degrees"


def stored(*requests):
    """The documents of some requests, each a microsecond after the one before."""
    return [
        one
        for at, document in enumerate(requests)
        for one in inbox_documents("t", "p", list(items_of_json(document)), 1.0, MOMENT // 1_000 + at)
    ]


def test_documents_are_read_up_to_the_limits_and_roots_first():
    trace = new_trace()
    parts = [
        request(*(span(trace, f"{at + more:02x}", "01") for more in range(3))) for at in range(16, 80, 4)
    ]
    documents = stored(*parts, request(root(trace)))
    keys, sizes = [one.key for one in documents], [len(one.data) for one in documents]
    assert [entry_of(key).size for key in keys] == sizes
    read, left_out = within_limits(keys, 7, 10**9)
    assert read == [keys[-1], *keys[:2]]
    assert sum(entry_of(key).items for key in left_out) == 3 * (len(parts) - 2)
    read, left_out = within_limits(keys, 10**9, sizes[-1] + sizes[0])
    assert (read, left_out) == ([keys[-1], keys[0]], keys[1:-1])
    assert within_limits(keys, 10**9, 0) == ([keys[-1]], keys[:-1])  # one is read, whatever its size


def test_a_conversation_over_the_limit_is_not_measured(tmp_path, monkeypatch):
    """Its last answer may be in a trace that was left out."""
    turns = [
        agent_trace(new_trace(), answer=f"{at} degrees", gen_ai__conversation__id="c-1") for at in range(3)
    ]
    documents = stored(*turns)
    read, left_out = within_limits([one.key for one in documents], 10**9, 2 * len(documents[0].data))
    items = read_items([one.data for one in documents if one.key in read])
    case = context_of_traces("c-1", groups_of(items, 10, left_out))
    monkeypatch.setattr(trace_files, "MAX_TRACES", 2)
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in turns))
    for found in (case, *assay.read_traces(path)):
        missing = found["output"]["metadata"]["missing"]
        assert missing.keys() == set(PARTS)
        assert missing["output.value"] == "2 spans of other traces are over the limit and left out"


def test_a_case_that_is_too_large_is_not_measured_and_names_its_span():
    trace = new_trace()
    (document,) = stored(agent_trace(trace, answer="x" * 5_000))
    plan = msgspec.convert(PLAN, WindowPlan)
    line = trace_units._line(
        CaseDocuments(trace, [document.key]), [document.data], plan, Limits(max_line_bytes=4_000), None
    )
    case = msgspec.json.decode(line)
    missing = case["output"]["metadata"]["missing"]
    assert missing.keys() == set(PARTS)
    assert "4000 are the limit" in missing["output.value"]
    assert case["output"]["metadata"]["trace"] == {"trace_ids": [trace], "span_id": "02" * 8}


def test_what_spans_hold_is_in_their_case_alone(host):
    """Not in logs, metrics, our own spans, events, the list of runs, or anything that another tenant can read."""
    canary = Canaries()
    trace, refused = new_trace(), new_trace()
    call = model_call(trace, canary("an answer")) | {"traceState": f"x={canary('a tracestate')}"}
    call["attributes"] += pairs({canary("a name of an attribute"): canary("an attribute")})
    call["events"] = [
        {"name": canary("an event"), "attributes": pairs({"x": canary("an attribute of an event")})}
    ]
    failed = {"code": 2, "message": canary("the message of a status")}
    top = root(trace, gen_ai__conversation__id=canary("a conversation")) | {
        "name": canary("a span"),
        "status": failed,
    }
    wrong = span(refused, "02", x=canary("a wrong span")) | {"startTimeUnixNano": canary("a wrong time")}
    log = log_request(trace, "02", canary("a log record"), canary("the body of a log record"))
    with (
        host.client(tenant="sender") as client,
        host.client(tenant="other") as other,
        record_telemetry() as seen,
    ):
        post(client, log, path="/v1/logs")
        answer = client.post("/v1/traces", json=request(wrong, call, top, service=canary("a service")))
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "3"  # the service is no project
        headers = {"x-assay-project": "support"}
        client.post(
            "/v1/traces", json=request(wrong, call, top, service=canary("a service")), headers=headers
        )
        client.post("/v1/traces", content=f'{{"resourceSpans": {canary("a broken body")}', headers=headers)
        client.post("/v1/traces", json={}, headers={"x-assay-project": canary("a project")})
        (window,) = wait_for(host, tenant="sender", scored=1)
        stream = client.get(f"/v1/host/assay/runs/{window.run.id}/overview").text
        foreign = [
            other.get(path)
            for path in (
                f"/v1/evaluations/{window.run.id}",
                f"/v1/host/assay/runs/{window.run.id}/overview",
                "/v1/host/assay/traces/support/windows",
                "/v1/host/assay/runs",
            )
        ]
        metrics = client.get("/metrics")
        assert "assay_trace_spans" in metrics.text
        whole = json.dumps(results(host, client, window))
    assert {"an answer", "a span", "a conversation", "the message of a status"} <= canary.found_in(whole)
    run = host.do(host.store.run(window.run.id))
    events = [repr(one) for one in host.do(host.store.events(window.run.id))]
    places = {
        "logs, metrics and spans": "".join(seen),
        "/metrics": metrics.text,
        "events": "".join(events),
        "the run": repr(run),
        "the overview": stream,
        "another tenant": "".join(one.text for one in foreign),
    }
    assert {place: canary.found_in(text) for place, text in places.items()} == {
        place: set() for place in places
    }
    assert trace not in places["another tenant"]
