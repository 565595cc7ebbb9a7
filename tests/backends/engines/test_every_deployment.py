"""
Every kind of run on every deployment: one server, two processes and workers, on SQLite and PostgreSQL, give the same results.

A row of `KINDS` starts a run over HTTP and returns what a client sees. One set of processes serves all rows of a deployment.
"""

import json
import re

import grpc
import pytest

from assay.conform.grpc.messages import message_of
from support.evals import golden, rubric
from support.servers.deployments import CANARY, DEPLOYMENTS, deployed
from support.servers.grpc_client import Client, refusal_of
from support.servers.openwop_client import log_of, start_run, suite, types_of, wait_for_run
from support.traces.received import agent_trace, new_trace
from support.waiting import wait_until

AGENT = "local.parts.answer"
EXACT = {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "Paris"}}
PATIENT = {"type": "patient", "arguments": {"text": "$.output.value"}}
HEAVY = [
    {"type": "regex", "arguments": {"text": "$.output.value", "pattern": "^(a|a|b|P|ar|aris)*$"}},
    {"type": "exact_match", "arguments": {"actual": "$..found[?@ == 'Paris']", "expected": "Paris"}},
    {"type": "json_schema", "arguments": {"value": "$.output.value", "schema": {"type": "string"}}},
    {"type": "apart", "arguments": {"text": "$.output.value"}},
    {"type": "tool_calls", "arguments": {"trajectory": [{"tool": "a"}], "expected": [{"tool": "a", "schema": {"maxProperties": 0}}]}},
]  # fmt: skip
JUDGE = {
    "type": "llm_judge",
    "arguments": {
        "prompt": "Is it right? {{$.output.value}}",
        "response_format": {"type": "object", "required": ["passed"], "properties": {"passed": {"type": "boolean"}}},
    },
}  # fmt: skip


def request(cases, *checks, text="", id="c"):
    """Of each two cases one is right."""
    return {
        "test_cases": [{"id": f"{id}{at}", "input": text, "found": ["Paris"]} for at in range(cases)],
        "outputs": [{"value": "Rome" if at % 2 else "Paris"} for at in range(cases)],
        "checks": list(checks),
    }


def counted(result):
    """Cases and checks by status, and how often each check passed. The summary counts the results beside it."""
    summary, results = result["summary"], result["results"]
    checks = [one for case in results for one in case["check_results"]]
    for total, name, found in (
        ("total_test_cases", "{}_test_cases", results),
        ("total_checks", "{}_checks", checks),
    ):
        assert summary[total] == len(found)
        for status, counted in (("completed", "completed"), ("error", "error"), ("skip", "skipped")):
            assert summary[name.format(counted)] == sum(one["status"] == status for one in found)
    passed = {}
    for one in checks:
        verdict = one["results"].get("passed", one["results"].get("response", {}).get("passed"))
        passed[one["check_type"]] = passed.get(one["check_type"], 0) + (verdict is True)
    return result["status"], len(results), passed


def evaluate(client, body):
    answer = client.post("/v1/evaluate", json=body)
    assert answer.status_code == 200, answer.text
    stored = client.get(answer.headers["content-location"])
    assert counted(stored.json()) == counted(answer.json())
    return counted(answer.json())


def evaluate_lines(client, body):
    """Started with NDJSON, followed as an operation, read in the end."""
    contexts = [
        {"test_case": case, "output": output}
        for case, output in zip(body["test_cases"], body["outputs"], strict=True)
    ]
    lines = "\n".join(map(json.dumps, [{"checks": body["checks"]}, *contexts]))
    started = client.post("/v1/evaluations", content=lines, headers={"content-type": "application/x-ndjson"})
    assert started.status_code == 202, started.text
    id = started.json()["operation_id"]
    wait_until(lambda: client.get(f"/v1/operations/{id}").json()["status"] in ("completed", "failed"))
    return counted(client.get(f"/v1/evaluations/{id}").json())


def evaluate_batch(client, _):
    answer = client.post("/v1/evaluate:batch", json={"evaluations": [request(2, EXACT), request(2, PATIENT)]})
    assert answer.status_code == 200, answer.text
    return [counted(one) for one in answer.json()["results"]]


TASKS = (
    golden("a", "Paris", "Paris"),
    golden("b", "Paris", "Rome"),
    golden("c", "Paris", "look it up", fixtures={"toolResponses": [{"tool": "shop:capital", "response": "Paris"}]}),
    rubric("d", ("is short", 0.5), ("is long", 0.5), input="Paris"),
)  # fmt: skip
AT_ONCE = 2 * 16  # trials on two workers
SCORES = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.5}


def evaluate_agent(client, modes, tasks=TASKS, **options):
    name = "-".join(["kind", *modes])
    run = start_run(
        client, suite(*tasks, name=name, modes=modes), AGENT, evalModes=modes, trials=2, **options
    )
    snapshot = wait_for_run(client, run)
    assert snapshot["status"] == "completed", snapshot
    types = types_of(log_of(client, run))
    assert types[-2:] == ["eval.completed", "run.completed"]
    assert types.count("agent.invocation.completed") == 2 * len(snapshot["outputs"]["tasks"])
    assert client.get(f"/v1/runs/{run}/eval-summary").json() == snapshot["outputs"]
    return run, {one["taskId"]: one["score"] for one in snapshot["outputs"]["tasks"]}


def evaluate_mode(client, mode):
    return evaluate_agent(client, [mode])[1]


def evaluate_regression(client, mode):
    document = suite(*TASKS[:3], name=f"kind-golden-{mode}", modes=["golden", mode])
    baseline = start_run(client, document, AGENT, evalModes=["golden"])
    assert wait_for_run(client, baseline)["status"] == "completed"
    run, scores = evaluate_agent(client, ["golden", mode], TASKS[:3], baselineRunId=baseline)
    regression = client.get(f"/v1/runs/{run}/eval-summary").json()["regression"]
    assert (regression["baselineRunId"], regression["scoreDelta"]) == (baseline, 0)
    return scores


def evaluate_live(client, mode):
    """Without the task whose tool is a fixture."""
    return evaluate_agent(client, [mode], (*TASKS[:2], TASKS[3]))[1]


def fork_eval(client, _):
    run, scores = evaluate_agent(client, ["golden"])
    forked = client.post(f"/v1/runs/{run}:fork", json={"mode": "replay"})
    assert forked.status_code == 201, forked.text
    copy = wait_for_run(client, forked.json()["runId"])
    assert types_of(log_of(client, copy["runId"])) == types_of(log_of(client, run))
    return {one["taskId"]: one["score"] for one in copy["outputs"]["tasks"]}, scores


def run_out_of_time(client, many):
    """More trials wait than run at once. Those that have not begun at the limit do not begin after it."""
    tasks = [golden("quick", "Paris", "Paris"), *(golden(f"t{at}", "Paris", "wait") for at in range(many))]
    run = start_run(client, suite(*tasks, name="kind-late"), AGENT, runTimeoutMs=4_000)
    snapshot = wait_for_run(client, run)
    started = types_of(log_of(client, run)).count("agent.invocation.started")
    assert started <= 1 + AT_ONCE, started
    return snapshot["status"], snapshot["error"]["code"]


def start_workflow(client, workflow, **inputs):
    started = client.post("/v1/runs", json={"workflowId": workflow, "inputs": inputs})
    assert started.status_code == 201, started.text
    return started.json()["runId"]


def rest_of(client, run):
    """The run, once it has ended or waits for a person."""
    seen = wait_until(lambda: not_active(client.get(f"/v1/runs/{run}").json()))
    return seen["status"]


def not_active(snapshot):
    return None if snapshot["status"] in ("pending", "running") else snapshot


def run_workflow(client, workflow):
    run = start_workflow(client, workflow)
    return rest_of(client, run), types_of(log_of(client, run)).count("node.completed")


def approve_workflow(client, workflow):
    run = start_workflow(client, workflow)
    waits = rest_of(client, run)
    answer = client.post(f"/v1/runs/{run}/interrupts/gate", json={"resumeValue": {"action": "accept"}})
    assert answer.status_code == 200, answer.text
    return waits, wait_for_run(client, run)["status"]


def verify(client, task):
    run = start_workflow(client, "note", task=task)
    status = rest_of(client, run)
    events = client.get(f"/v1/runs/{run}/events/poll?lastSequence=-1&timeout=1").json()["events"]
    return status, [one["payload"]["verdict"] for one in events if one["type"] == "agent.verified"]


def promote(client, _):
    """To active, with an eval run of the whole suite as evidence and an approval."""
    path = f"/v1/agents/{AGENT}/deployments"
    document = suite(TASKS[0], name="kind-promoted")
    run = start_run(client, document, AGENT, agentVersion="1.0.0")
    assert wait_for_run(client, run)["status"] == "completed"
    states = []
    for state in ("test", "staged", "active"):
        body = {"version": "1.0.0", "transition": "promote", "toState": state}
        answer = client.post(path, json=body | ({"evalRunId": run} if state != "test" else {}))
        states.append(answer.status_code)
    management = answer.json()["runId"]
    granted = client.post(
        f"/v1/runs/{management}/interrupts/approval", json={"resumeValue": {"action": "accept"}}
    )
    assert granted.status_code == 200, granted.text
    assert wait_for_run(client, management)["status"] == "completed"
    return states, [one["state"] for one in client.get(path).json()]


KINDS = {
    "small evaluation": (evaluate, request(3, EXACT), ("completed", 3, {"exact_match": 2})),
    "200 cases": (evaluate, request(200, EXACT), ("completed", 200, {"exact_match": 100})),
    "two cases of 20 kB": (evaluate, request(2, EXACT, text="x" * 20_000), ("completed", 2, {"exact_match": 1})),
    "large evaluation": (evaluate, request(1_500, EXACT), ("completed", 1_500, {"exact_match": 750})),
    "heavy checks": (
        evaluate, request(4, *HEAVY, text="y" * 5_000),
        ("completed", 4, {"regex": 2, "exact_match": 4, "json_schema": 4, "apart": 2, "tool_calls": 4}),
    ),
    "checks that wait": (evaluate, request(4, PATIENT, JUDGE), ("completed", 4, {"patient": 2, "llm_judge": 4})),
    "lines": (evaluate_lines, request(1_200, EXACT), ("completed", 1_200, {"exact_match": 600})),
    "batch": (
        evaluate_batch, None, [("completed", 2, {"exact_match": 1}), ("completed", 2, {"patient": 1})],
    ),
    "golden": (evaluate_mode, "golden", {"a": 1.0, "b": 0.0, "c": 1.0}),
    "rubric": (evaluate_mode, "rubric", {"d": 0.5}),
    "adversarial": (evaluate_mode, "adversarial", SCORES),
    "regression": (evaluate_regression, "regression", {"a": 1.0, "b": 0.0, "c": 1.0}),
    "live-shadow": (evaluate_live, "live-shadow", {"a": 1.0, "b": 0.0, "d": 0.5}),
    "eval out of time": (run_out_of_time, 40, ("failed", "run_timeout")),
    "replay": (fork_eval, None, ({"a": 1.0, "b": 0.0, "c": 1.0},) * 2),
    "workflow": (run_workflow, "conformance-multi-node", ("completed", 3)),
    "workflow with a child": (run_workflow, "conformance-multi-agent-handoff", ("completed", 4)),
    "workflow with an approval": (approve_workflow, "conformance-approval", ("waiting-approval", "completed")),
    "verification": (verify, "release 2.1", ("completed", ["revise", "pass"])),
    "verification that fails": (verify, "impossible", ("waiting-approval", ["fail"])),
    "promotion": (promote, None, ([200, 200, 202], ["active"])),
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=pytest.mark.together(f"kinds on {one}")) for one in DEPLOYMENTS],
)
def deployment(request, zygote, tmp_path_factory):
    with deployed(zygote, tmp_path_factory.mktemp("deployment"), request.param) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_has_the_same_result_on_every_deployment(deployment, kind):
    run, asked, expected = KINDS[kind]
    before = deployment.mark()
    assert run(deployment.client, asked) == expected
    assert "a bug in assay" not in deployment.log_text(before)


def planted(cases=3):
    """The last case meets a bug of assay; the first ones have their results by then, or not."""
    body = request(cases, PATIENT, JUDGE)
    body["test_cases"][-1]["input"] = CANARY
    return body


def fail_evaluation(deployment):
    answer = deployment.client.post("/v1/evaluate", json=planted())
    error = answer.json()
    assert (answer.status_code, error["error"]) == (500, "internal_error"), answer.text
    assert error["details"]["correlationId"] == answer.headers["x-request-id"]
    return error["details"]["evaluation_id"]


def fail_evaluation_over_grpc(deployment):
    with grpc.insecure_channel(deployment.grpc) as channel:
        client = Client(channel, deployment.key)
        code, error = refusal_of(client.RunEvaluation, message_of(planted()))
        assert (code, error["error"]) == (grpc.StatusCode.INTERNAL, "internal_error")
        code, streamed = refusal_of(client.StreamEvaluation, message_of(planted()))
        assert (code, streamed["error"]) == (grpc.StatusCode.INTERNAL, "internal_error")
        assert streamed["details"]["evaluation_id"] != error["details"]["evaluation_id"]
    return error["details"]["evaluation_id"]


def fail_in_a_batch(deployment):
    answer = deployment.client.post(
        "/v1/evaluate:batch", json={"evaluations": [request(1, EXACT), planted(3)]}
    )
    assert answer.status_code == 200, answer.text
    (error,) = answer.json()["errors"]
    assert (error["error"], error["details"]["index"]) == ("internal_error", 1)
    return error["details"]["evaluation_id"]


@pytest.mark.parametrize("fail", [fail_evaluation, fail_evaluation_over_grpc, fail_in_a_batch])
def test_an_evaluation_that_fails_is_an_error_and_its_counts_are_those_of_its_results(deployment, fail):
    before = deployment.mark()
    id = fail(deployment)
    result = deployment.client.get(f"/v1/evaluations/{id}").json()
    status, cases, _ = counted(result)
    assert (status, cases, result["results"][-1]["status"]) == ("error", 3, "skip")
    operation = deployment.client.get(f"/v1/operations/{id}").json()
    assert operation["status"] == "failed"
    assert operation["error"]["error"] == "internal_error"
    assert_logged(deployment, before)


@pytest.mark.parametrize("kind", ["eval", "workflow"])
def test_an_internal_error_fails_a_run_and_is_logged(deployment, kind):
    before = deployment.mark()
    if kind == "eval":
        run = start_run(deployment.client, suite(golden(CANARY, "x", "x"), name="planted"), AGENT)
    else:
        run = start_workflow(deployment.client, "note", task=CANARY)
    snapshot = wait_for_run(deployment.client, run)
    assert (snapshot["status"], snapshot["error"]["code"]) == ("failed", "internal_error")
    assert_logged(deployment, before)


def assert_logged(deployment, before):
    """The traceback at error level, and nothing of the content."""

    def lines():
        new = deployment.log_text(before).splitlines()
        found = [line for line in new if "a bug in assay: RuntimeError at " in line]
        return found if any("parts.py:" in line for line in found) else []

    logged = wait_until(lines)  # the logs of several processes are read one after the other
    assert all(re.search(r" error +assay\.(runs|workers): ", line) for line in logged)
    assert CANARY not in deployment.log_text()


def test_each_received_trace_is_scored_once_on_every_deployment(deployment):
    before, client = deployment.mark(), deployment.client
    traces = [new_trace() for _ in range(40)]
    for at, trace in enumerate(traces):
        answer = "20 degrees" if at % 4 else "no idea"
        sent = client.post("/v1/traces", json=agent_trace(trace, answer))
        assert (sent.status_code, sent.json()) == (200, {}), sent.text

    def scored():
        found = client.get("/v1/host/assay/traces/support/windows").json()["windows"]
        return found if sum(one["scored"] for one in found) >= len(traces) else None

    found = wait_until(scored)
    assert sum(one["scored"] for one in found) == 40
    rows = [
        one
        for window in found
        for one in client.post(
            f"/v1/host/assay/runs/{window['runId']}/cases:query", json={"limit": 100}
        ).json()["cases"]
    ]
    assert len(rows) == 40
    statuses = {one["caseId"]: one["status"] for one in rows}
    assert [statuses[trace] for trace in traces] == ["passed" if at % 4 else "failed" for at in range(40)]
    assert "a bug in assay" not in deployment.log_text(before)
