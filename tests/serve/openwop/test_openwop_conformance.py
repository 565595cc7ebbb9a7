"""
The published scenarios that concern eval runs, ported by their names (openwop-contract §10.8), against a server with the seams of a suite.

Those that need sample workflows are in test_openwop_workflows.py.
"""

import json
import re

import jsonschema_rs
import msgspec
import pytest

from assay.seams.routes import SEAMS
from assay.seams.sample_agents import SAMPLES
from assay.seams.workflow_routes import BASE
from assay.serve.application import ROUTES
from assay.serve.openwop.features import OpenWopFeatures
from support.evals import golden
from support.servers.openwop_client import (
    finish_run,
    log_of,
    run_request,
    start_run,
    store_suite,
    stream_events,
    suite,
    wait_for_run,
)
from support.servers.rest_client import Server, sqlite
from support.spec_files import fits, needs_shared, published

SAMPLE, AGAIN = "/v1/host/sample", "/conformance/seams/sample"
TERMINAL = {"run.completed", "run.failed", "run.cancelled"}
FORBIDDEN = {
    "taskOutput",
    "output",
    "rubric",
    "completion",
    "prompt",
    "body",
    "secret",
    "credentials",
    "token",
    "apiKey",
}
CANARY = "sk-canary-0123456789abcdef"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """With the seams, and the same under the prefix where a later major version has them (openwop-contract §0.1)."""
    address = sqlite(tmp_path_factory.mktemp("conformance"))
    again = [
        msgspec.structs.replace(route, path=AGAIN + route.path.removeprefix(BASE), id=f"{route.id}Again")
        for route in SEAMS
    ]
    with Server(address, agents=SAMPLES, routes=[*ROUTES, *SEAMS, *again]) as host:
        yield host


@pytest.fixture(scope="module")
def run(client):
    return finish_run(client, suite(golden("a", "x", "x"), golden("b", "y", "x"), name="plain"))


def events_of(client, run, prefix=SAMPLE, **query):
    answer = client.get(f"{prefix}/test/runs/{run}/events", params=query)
    assert answer.status_code == 200
    return answer.json()["events"]


def rejected(schema, document, part=""):
    with pytest.raises(jsonschema_rs.ValidationError):
        published(schema, part).validate(document)


def envelope(answer, *statuses):
    assert answer.status_code in statuses
    fits("error-envelope", answer.json())
    assert "correlationId" not in answer.json().keys() - {"details"}


# agent-eval-suite-shape


@needs_shared
def test_agent_eval_suite_shape(client):
    good = suite(golden("a", "x", "x"), thresholds={"passScore": 0.5})
    fits("agent-eval-suite", good)
    assert client.post("/v1/host/assay/suites", json=good).status_code in (200, 201)
    for bad in (good | {"suiteId": "local.tests.one"}, good | {"thresholds": {"passScore": 1.5}}):
        rejected("agent-eval-suite", bad)
        envelope(client.post("/v1/host/assay/suites", json=bad), 400)
    scored = {"taskId": "a", "score": 1, "passed": True}
    summary = {"suiteId": "a.evals.b", "suiteVersion": "1.0.0", "aggregateScore": 1, "passed": True,
               "taskCount": 1, "passedCount": 1, "tasks": [scored]}  # fmt: skip
    fits("eval-summary", summary)
    rejected("eval-summary", summary | {"aggregateScore": 1.4})
    rejected("eval-summary", summary | {"tasks": [scored | {"taskOutput": "x"}]})
    found = {"kind": "pii-leak", "severity": "low", "excerpt": "x"}
    rejected("eval-summary", summary | {"tasks": [scored | {"safetyFindings": [found]}]})
    fits("run-event-payloads", scored, "#/$defs/evalScored")
    rejected("run-event-payloads", scored | {"score": 2}, "#/$defs/evalScored")


# agent-eval-run


@pytest.mark.parametrize("prefix", [SAMPLE, AGAIN])
def test_agent_eval_run(client, prefix):
    assert events_of(client, "__probe__", prefix) == []
    answer = client.post(f"{prefix}/agents/eval-run", json={"modes": ["golden"]})
    body = answer.json()
    assert answer.status_code == 200, answer.text
    assert body | {"runId": ""} == {
        "runId": "", "suiteId": "local.assay.evals.sample", "suiteVersion": "1.0.0", "taskCount": 2, "passed": True,
        "aggregateScore": 1,
    }  # fmt: skip
    started, scored, completed = (
        events_of(client, body["runId"], prefix, type=type)
        for type in ("eval.started", "eval.scored", "eval.completed")
    )
    assert (len(started), len(completed)) == (1, 1)
    order = [event["sequence"] for event in (*started, *scored, *completed)]
    assert order == sorted(order)
    assert len(scored) == completed[0]["payload"]["taskCount"] == 2
    for event in (*started, *scored, *completed):
        assert not FORBIDDEN & event["payload"].keys()
        fits("run-event", event)
    for event in scored:
        assert 0 <= event["payload"]["score"] <= 1
        assert isinstance(event["payload"]["passed"], bool)
    summary = client.get(f"/v1/runs/{body['runId']}/eval-summary")
    assert summary.status_code == 200
    fits("eval-summary", summary.json())
    assert summary.json()["passedCount"] <= summary.json()["taskCount"]
    assert not any(FORBIDDEN & task.keys() for task in summary.json()["tasks"])
    assert client.post(f"{prefix}/test/reset", json={}).status_code == 200
    assert client.get(f"/v1/runs/{body['runId']}").status_code == 200  # real runs stay


def test_agent_eval_run_refuses_as_a_create_does(client):
    envelope(client.post(f"{SAMPLE}/agents/eval-run", json={"modes": ["adversarial"]}), 400)
    envelope(client.post(f"{SAMPLE}/agents/eval-run", json={"agentId": "local.tests.nobody"}), 400)
    assert client.post(f"{SAMPLE}/agents/eval-run", json={"taskCount": 5}).json()["taskCount"] == 5


# agent-live-runtime: -invocation-bracket, -structured-output, -allowlist-enforced


def test_agent_live_runtime_shape(client, tmp_path):
    agents = client.get("/.well-known/openwop").json()["agents"]
    assert agents["manifestRuntime"]["supported"] is True
    assert agents["liveRuntime"] == {
        "supported": True,
        "structuredOutput": True,
        "confidenceEscalation": True,
        "sources": ["run-api", "workflow-node"],
    }
    for off, sources in (
        ({"offer_evals": False}, ["workflow-node"]),
        ({"offer_workflows": False}, ["run-api"]),
        ({"offer_agents": False}, None),  # it stands on the inventory
    ):
        with Server(sqlite(tmp_path), offer=OpenWopFeatures(**off)) as host, host.client(key="") as nobody:
            there = nobody.get("/.well-known/openwop").json()
            fits("capabilities", there)
            live = there["agents"].get("liveRuntime")
            assert (live and live["sources"]) == sources
            assert live is None or live["confidenceEscalation"] is ("workflow-node" in live["sources"])


@pytest.mark.parametrize("source", ["run-api", "workflow-node"])
def test_agent_live_invocation_bracket(client, source):
    invoked = client.post(f"{SAMPLE}/agents/live-invoke", json={"source": source}).json()
    agent = [event for event in events_of(client, invoked["runId"]) if event["type"].startswith("agent.")]
    assert agent[0]["type"] == "agent.invocation.started"
    assert agent[-1]["type"] == "agent.invocation.completed"
    ids = {one["payload"]["invocationId"] for one in (agent[0], agent[-1])}
    assert ids == {invoked["invocationId"]}
    assert agent[0]["payload"]["source"] == source
    assert agent[-1]["payload"]["outcome"] == invoked["outcome"] == "completed"
    for event in (agent[0], agent[-1]):
        assert not {"prompt", "result", "body", "input", "output"} & event["payload"].keys()


@pytest.mark.parametrize("source", ["run-api", "workflow-node"])
def test_agent_live_structured_output(client, source):
    body = {"returnSchemaRef": "conformance-strict-handoff", "forceInvalidResult": True, "source": source}
    invoked = client.post(f"{SAMPLE}/agents/live-invoke", json=body).json()
    (last,) = events_of(client, invoked["runId"], type="agent.invocation.completed")
    assert last["payload"]["outcome"] == "failed"
    assert last["payload"].get("schemaValidated") is not True
    invoked = client.post(f"{SAMPLE}/agents/live-invoke", json=body | {"forceInvalidResult": False}).json()
    (last,) = events_of(client, invoked["runId"], type="agent.invocation.completed")
    assert last["payload"]["schemaValidated"] is True


@pytest.mark.parametrize("source", ["run-api", "workflow-node"])
def test_agent_live_allowlist_enforced(client, source):
    body = {"attemptTool": "conformance-disallowed-tool", "source": source}
    invoked = client.post(f"{SAMPLE}/agents/live-invoke", json=body).json()
    assert events_of(client, invoked["runId"], type="agent.toolCalled") == []
    assert "conformance-disallowed-tool" not in json.dumps(
        events_of(client, invoked["runId"], type="agent.reasoned")
    )


# provider-usage


@needs_shared
def test_provider_usage(client):
    fits("capabilities", client.get("/.well-known/openwop").json())
    assert client.get("/.well-known/openwop").json()["providerUsage"]["supported"] is True
    good = {"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 4}
    fits("run-event-payloads", good, "#/$defs/providerUsage")
    for bad in (good | {"inputTokens": -1}, good | {"prompt": "x"}, {"provider": "p"}):
        rejected("run-event-payloads", bad, "#/$defs/providerUsage")
    emit = {"runId": "run-invented", "payload": good, "correlationId": "c-1", "nodeId": "n-1"}
    assert client.post(f"{SAMPLE}/test/emit-provider-usage", json=emit).status_code == 200
    (event,) = events_of(client, "run-invented", type="provider.usage", correlationId="c-1")
    fits("run-event", event)
    assert (event["payload"], event["causationId"], event["nodeId"]) == (good, "c-1", "n-1")
    leak = client.post(
        f"{SAMPLE}/test/emit-provider-usage", json=emit | {"payload": good | {"model": "secret:x"}}
    )
    assert (leak.status_code, leak.json()["error"]) == (400, "provider_usage_credential_leak")
    assert events_of(client, "run-invented", nodeId="n-2") == []
    client.post(f"{SAMPLE}/test/reset", json={})
    assert events_of(client, "run-invented") == []


# feedback


def test_feedback_capability_shape(client):
    feedback = client.get("/.well-known/openwop").json()["feedback"]
    assert feedback.keys() <= {"supported", "targets", "signals"}
    assert set(feedback["targets"]) <= {"run", "event", "node"}
    assert set(feedback["signals"]) <= {"rating", "correction", "label", "flag"}


def test_feedback_record_and_list_and_on_terminal_run(client, run):
    annotation = {"signal": {"kind": "rating", "rating": 5}, "target": {"nodeId": "task:a"}, "note": "good"}
    made = client.post(f"/v1/runs/{run}/annotations", json=annotation)
    assert made.status_code == 201
    fits("annotation", made.json())
    other = finish_run(client, suite(golden("a", "x", "x"), name="another"))
    assert made.json() in client.get(f"/v1/runs/{run}/annotations").json()["annotations"]
    assert client.get(f"/v1/runs/{other}/annotations").json() == {"annotations": []}


def test_feedback_cross_tenant_isolation(host, client, run):
    with host.client(tenant="other") as other:
        envelope(other.get(f"/v1/runs/{run}/annotations"), 404)
        envelope(other.post(f"/v1/runs/{run}/annotations", json={"signal": {"kind": "flag"}}), 404)


def test_feedback_correction_redaction(client, run):
    annotation = {
        "signal": {"kind": "correction", "correction": f"use {CANARY}"},
        "note": f"it said {CANARY}",
    }
    made = client.post(f"/v1/runs/{run}/annotations", json=annotation)
    assert made.status_code == 201
    assert CANARY not in made.text
    assert CANARY not in client.get(f"/v1/runs/{run}/annotations").text


def test_feedback_fork_not_copied(client, run):
    client.post(f"/v1/runs/{run}/annotations", json={"signal": {"kind": "flag"}})
    last = log_of(client, run)[-1]["sequence"]
    for body in ({"mode": "replay"}, {"mode": "branch", "fromSeq": last}):
        fork = client.post(f"/v1/runs/{run}:fork", json=body).json()["runId"]
        assert client.get(f"/v1/runs/{fork}/annotations").json() == {"annotations": []}
    assert client.get(f"/v1/runs/{run}/annotations").json()["annotations"]


# run-diff


def test_run_diff(client, run):
    envelope(client.get(f"/v1/runs/{run}:diff"), 400)
    envelope(client.get(f"/v1/runs/{run}:diff?against=run-unknown"), 404)
    same = client.get(f"/v1/runs/{run}:diff?against={run}").json()
    assert (same["divergedAtSeq"], same["eventDiffs"]) == (None, [])
    other = finish_run(client, suite(golden("a", "z", "x"), golden("b", "y", "x"), name="different"))
    found = client.get(f"/v1/runs/{run}:diff?against={other}").json()
    fits("run-diff-response", found)
    assert found["eventDiffs"][0]["seq"] == found["divergedAtSeq"]
    assert not re.search(r"sk-|api[_-]?key|secret|bearer\s", json.dumps(found["stateDiff"]), re.IGNORECASE)


# discovery, auth, errors


def test_discovery(host):
    with host.client(key="") as nobody:
        answer = nobody.get("/.well-known/openwop")
        body = answer.json()
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"]
        assert body["protocolVersion"].startswith("1.")
        fits("capabilities", body)
        tag = answer.headers["etag"]
        again = nobody.get("/.well-known/openwop", headers={"if-none-match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert (
            answer.headers["capabilities-etag"]
            == nobody.get("/.well-known/openwop").headers["capabilities-etag"]
        )
        assert re.match(r"^3\.[1-9]", nobody.get("/v1/openapi.json").json()["openapi"])
        assert {name: body[name] for name in body["capabilities"]} == body["capabilities"]
        assert "multiAgent" not in body["capabilities"]


@pytest.mark.parametrize("key", ["", "hk_test_invented"])
def test_auth(host, key):
    with host.client(key=key) as nobody:
        envelope(nobody.post("/v1/runs", json={"workflowId": "x"}), 401)
        envelope(nobody.get("/v1/runs/run-unknown"), 401)  # before it is looked for


def test_errors(client):
    envelope(client.get("/v1/runs/run-unknown"), 404)
    envelope(client.post("/v1/runs", json={}), 400)


# idempotency, eventOrdering, streams


def test_idempotency_and_idempotency_retry(client):
    body = run_request(store_suite(client, suite(golden("a", "x", "x"), name="once")))
    headers = {"Idempotency-Key": "conformance"}
    first, second = (client.post("/v1/runs", json=body, headers=headers) for _ in range(2))
    assert first.json()["runId"] == second.json()["runId"]
    assert "openwop-idempotent-replay" not in first.headers
    assert second.headers["openwop-idempotent-replay"] == "true"
    envelope(client.post("/v1/runs", json=body | {"metadata": {"x": 1}}, headers=headers), 409)


def test_event_ordering(client, run):
    first, second = (
        client.get(f"/v1/runs/{run}/events/poll?lastSequence=-1").json()["events"] for _ in range(2)
    )
    assert first == second
    sequences = [event["sequence"] for event in first]
    assert sequences == sorted(sequences)
    assert [event["type"] in TERMINAL for event in first].count(True) == 1
    assert first[-1]["type"] in TERMINAL


def test_stream_modes_buffer_mixed_and_reconnect(client, run):
    debug, updates = stream_events(client, run, streamMode="debug"), stream_events(client, run)
    assert len(debug) >= len(updates)
    assert {"run.started", "run.completed"} <= {frame.name for frame in updates}
    assert stream_events(client, run, streamMode="values")
    assert stream_events(client, run, streamMode="updates,messages")
    envelope(client.get(f"/v1/runs/{run}/events?streamMode=values,updates"), 400)
    envelope(client.get(f"/v1/runs/{run}/events?bufferMs=99999"), 400)
    assert {frame.name for frame in stream_events(client, run, bufferMs=500)} == {"batch"}
    assert stream_events(client, run, after=debug[-1].id) == []  # 200, and nothing new


def test_cancellation(client):
    run = start_run(client, suite(golden("a", "x", {"wait": 30}), name="cancellable"))
    assert client.post(f"/v1/runs/{run}/cancel").json()["status"] in ("cancelled", "cancelling")
    assert wait_for_run(client, run)["status"] == "cancelled"
    envelope(client.post("/v1/runs/run-unknown/cancel"), 404)


# the seams themselves


def test_seams_are_404_unless_they_are_mounted(tmp_path):
    with Server(sqlite(tmp_path)) as host, host.client() as client:
        for seam in SEAMS:
            answer = client.request(seam.method, seam.path.replace("{run_id}", "__probe__"), json={})
            envelope(answer, 404)
        assert SAMPLE not in client.get("/v1/openapi.json").text


def test_seams_have_scopes_and_tenants(host, client, run):
    with (
        host.client(scopes=set()) as nothing,
        host.client(tenant="other") as other,
        host.client(key="") as nobody,
    ):
        for seam in (one for one in SEAMS if one.scope):
            path = seam.path.replace("{run_id}", run)
            assert nothing.request(seam.method, path, json={}).status_code == 403
            assert nobody.request(seam.method, path, json={}).status_code == 401
        assert events_of(other, run) == []
    assert f"{SAMPLE}/agents/eval-run" in client.get("/v1/openapi.json").json()["paths"]
