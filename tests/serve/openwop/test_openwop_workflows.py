"""Workflows over HTTP: the rules of the verified loop, interrupts, ancestry, discovery and the seams, as a client meets them."""

import json
import re

import jsonschema_rs
import pytest

from assay.ports.config import ConfidenceFloors, VerifierLoopConfig
from assay.ports.telemetry import propagation_headers
from assay.protocol.agents import InvocationResult
from assay.seams.routes import SEAMS
from assay.seams.sample_workflows import fixtures
from assay.serve.application import ROUTES
from assay.workflow.state.children import attestation
from support.evals import FunctionAgent
from support.servers.rest_client import Server
from support.spec_files import SHARED
from support.workflows import ScriptedAgent

SCHEMA = SHARED / "openwop" / "schemas" / "capabilities.schema.json"
CANARY = "canary-do-not-tell"
CONTAINS = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["good"]}}


def works(task, scene):
    """The first word of the task in its first turn, the second in its second …"""
    words = (task["task"] if isinstance(task, dict) else task).split()
    return words[min(len(words), task["turn"] if isinstance(task, dict) else 1) - 1]


def judges(about, scene):
    return {"verdict": {"good": "pass", "bad": "fail"}.get(about["result"], "revise"), "notes": CANARY}


def sure(at):
    """Of a task `0.4/0.9`: the actor is that sure of what it says, and the critic of its verdict, which may be named behind."""

    def says(task, scene):
        result = task["result"] if at else task["task"] if isinstance(task, dict) else task
        parts = result.split("/")
        if at:
            return {"verdict": [*parts, "pass"][2], "confidence": float(parts[1])}
        return InvocationResult(outcome="completed", result=result, confidence=float(parts[0]))

    return says


def crashes(task, scene):
    raise RuntimeError(f"{CANARY} is full")


def decides(task, scene):
    """One who supervises: goes on until there is a verdict, then ends, or talks nonsense."""
    if task["task"] == "nonsense":
        return {"kind": CANARY}
    if task["task"] == "nobody":
        return {"kind": "next-worker", "nextWorkerIds": [CANARY]}
    if task["task"] == "ask" and task["answer"] is None:
        return {"kind": "ask-user", "prompt": "where?"}
    done = task["last"] is not None
    return {"kind": "terminate"} if done else {"kind": "next-worker", "nextWorkerIds": task["workers"]}


def reasons(task, scene):
    scene.reason("because")
    return task


AGENTS = (
    ScriptedAgent("test.actor", works),
    ScriptedAgent("test.critic", judges),
    ScriptedAgent("test.both", lambda task, scene: "pass"),
    ScriptedAgent("test.sure", sure(0)),
    ScriptedAgent("test.sure-critic", sure(1)),
    ScriptedAgent("test.reasons", reasons),
    ScriptedAgent(
        "test.traced",
        lambda task, scene: propagation_headers().get("traceparent", "") if task != "good" else "bad",
    ),
    ScriptedAgent("test.crashing", crashes),
    ScriptedAgent("test.boss", decides),
    ScriptedAgent(
        "test.helpless",
        lambda task, scene: InvocationResult(outcome="escalated", result=task, error="a person should look"),
    ),
)
LOOPS = {
    "free": VerifierLoopConfig(actor="test.actor"),
    "moody": VerifierLoopConfig(actor="test.actor", critics=["test.crashing"], criteria=["good"]),
    "sure": VerifierLoopConfig(
        actor="test.sure", critics=["test.sure-critic"], floors=ConfidenceFloors(actor=0.5, critic=0.5)
    ),
    "hurried": VerifierLoopConfig(actor="test.actor", critics=["test.critic"], approval_seconds=0.000_001),
    "outer": VerifierLoopConfig(actor="workflow:free", critics=["test.critic"], approve=True),
    "around": VerifierLoopConfig(actor="workflow:judged", max_turns=1),
    "traced": VerifierLoopConfig(actor="test.traced"),
    "tracing": VerifierLoopConfig(actor="workflow:traced"),
    "retraced": VerifierLoopConfig(actor="test.traced", critics=["test.critic"], max_turns=2),
    "loose": VerifierLoopConfig(
        actor="workflow:free", critics=["test.critic"], approve=True, gating=False, max_turns=1
    ),
    "noted": VerifierLoopConfig(actor="workflow:free", critics=["test.critic"]),
    "hopeful": VerifierLoopConfig(actor="workflow:checked", max_turns=2),
    "crashing": VerifierLoopConfig(actor="test.crashing", critics=["test.critic"], max_turns=2),
    "bossy": VerifierLoopConfig(
        actor="test.actor", supervisor="test.boss", critics=["test.critic"], gating=False
    ),
    "helpless": VerifierLoopConfig(actor="test.helpless"),
    "judged": VerifierLoopConfig(actor="test.actor", critics=["test.critic"], criteria=["good"], max_turns=3),
    "watched": VerifierLoopConfig(actor="test.actor", critics=["test.critic"], gating=False),
    "checked": VerifierLoopConfig(
        actor="test.actor", criteria={"says-good": CONTAINS}, on_fail="give-up", failing="fail"
    ),
    "itself": VerifierLoopConfig(actor="test.both", critics=["test.both"]),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    address = f"sqlite:///{tmp_path_factory.mktemp('workflows')}/runs.db"
    with Server(address, agents=AGENTS, loops=LOOPS, seeded=True, routes=[*ROUTES, *SEAMS]) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with server.client(tenant="acme") as client:
        yield client


def start(client, workflow, inputs=None, **more):
    body = {"workflowId": workflow, "inputs": inputs or {}, **more}
    created = client.post("/v1/runs", json=body)
    assert created.status_code == 201, created.text
    return created.json()["runId"]


def rested(client, run):
    """Its snapshot, once it has ended or waits."""
    after = -1
    while True:
        shown = client.get(f"/v1/runs/{run}").json()
        if shown["status"] not in ("pending", "running", "cancelling"):
            return shown
        page = client.get(f"/v1/runs/{run}/events/poll", params={"lastSequence": after, "timeout": 1}).json()
        after = page["lastEventSeq"]


def ran(client, workflow, inputs=None, **more):
    return rested(client, start(client, workflow, inputs, **more))


def events(client, run, type=None):
    found = client.get(f"/v1/runs/{run}/events", headers={"Accept": "application/json"}).json()["events"]
    return [event for event in found if type in (None, event["type"])]


def report(client, run):
    return client.get(f"/v1/host/assay/runs/{run}/verification").json()


def respond(client, run, node, value):
    return client.post(f"/v1/runs/{run}/interrupts/{node}", json={"resumeValue": value})


@pytest.mark.parametrize(
    ("workflow", "task", "status", "committed", "satisfied", "verdicts"),
    [
        ("judged", "good", "completed", True, True, ["pass"]),
        ("judged", "so good", "completed", True, True, ["revise", "pass"]),
        ("judged", "so so so", "failed", False, False, ["revise", "revise", "revise"]),
        ("judged", "bad", "waiting-approval", False, False, ["fail"]),
        ("watched", "bad", "completed", True, False, ["fail"]),
        ("checked", "bad", "completed", False, False, ["fail"]),  # it gave up
    ],
)
def test_the_outcome_of_each_verdict(client, workflow, task, status, committed, satisfied, verdicts):
    shown = ran(client, workflow, {"task": task})
    assert shown["status"] == status
    document = report(client, shown["runId"])
    assert (document["committed"], document["goalSatisfied"]) == (committed, satisfied)
    assert [one["verdict"] for one in document["verdicts"]] == verdicts
    assert [one["iteration"] for one in document["verdicts"]] == list(range(1, len(verdicts) + 1))
    if status == "failed":
        assert shown["error"]["code"] == "loop_limit_exceeded"
        assert events(client, shown["runId"], "cap.breached")[0]["payload"]["kind"] == "loop-iterations"
    listed = client.get("/v1/host/assay/runs", params={"mode": "workflow"}).json()["runs"]
    mine = next(one for one in listed if one["runId"] == shown["runId"])
    assert mine.get("goalSatisfied", False) is satisfied


def test_an_approval_is_answered_once_by_a_key_with_the_scope(server, client):
    run = ran(client, "judged", {"task": "bad good"})["runId"]
    with server.client(tenant="acme", scopes={"runs:read"}) as reader:
        refused = respond(reader, run, "actor", {"action": "accept"})
        assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")
        assert refused.json()["details"] == {"scopeRequired": "approvals:respond"}
    with server.client(tenant="other") as other:
        assert respond(other, run, "actor", {"action": "accept"}).status_code == 404
    assert respond(client, run, "nowhere", {"action": "accept"}).status_code == 404
    assert respond(client, run, "actor", {"action": "perhaps"}).status_code == 400
    assert client.post(f"/v1/runs/{run}/interrupts/actor", json={}).status_code == 400
    assert rested(client, run)["status"] == "waiting-approval"  # none of that changed anything
    assert respond(client, run, "actor", {"action": "accept"}).status_code == 200
    assert rested(client, run)["status"] == "completed"
    again = respond(client, run, "actor", {"action": "reject"})
    assert (again.status_code, again.json()["error"]) == (409, "conflict")


def test_an_unsure_critic_that_asks_for_another_turn_escalates_too(client):
    shown = ran(client, "sure", {"task": "0.9/0.4/revise"})
    run = shown["runId"]
    assert shown["status"] == "waiting-approval"
    assert respond(client, run, "actor", {"action": "accept"}).status_code == 200
    assert (
        rested(client, run)["status"] == "waiting-approval"
    )  # for the next turn's verdict, which is no surer
    assert [one["iteration"] for one in report(client, run)["verdicts"]] == [1, 2]
    assert not report(client, run)["committed"]


@pytest.mark.parametrize(
    ("task", "outcome", "threshold", "status"),
    [
        ("0.6/1", "completed", {}, "completed"),
        ("0.4/1", "escalated", {}, "waiting-approval"),
        ("0.6/1", "escalated", {"escalationThreshold": 0.8}, "waiting-approval"),
        ("0.4/1", "completed", {"escalationThreshold": 0.1}, "completed"),
    ],
)
def test_an_escalation_is_in_the_bracket_of_its_agent(client, task, outcome, threshold, status):
    shown = ran(client, "sure", {"task": task}, configurable=threshold)
    ends = events(client, shown["runId"], "agent.invocation.completed")
    assert (shown["status"], ends[0]["payload"]["outcome"]) == (status, outcome)


def test_a_request_for_a_person_suspends_the_run(client):
    run = ran(client, "helpless", {"task": "x"})["runId"]
    assert rested(client, run)["status"] == "waiting-approval"
    assert not report(client, run)["committed"]
    (asked,) = events(client, run, "interrupt.requested")
    assert asked["payload"]["data"]["artifactData"] == {"result": "x"}  # what is to be approved
    assert respond(client, run, "actor", {"action": "accept"}).status_code == 200
    assert rested(client, run)["variables"]["result"] == "x"


@pytest.mark.parametrize("finds_out", ["an answer", "the host"])
def test_an_approval_expires_into_a_refusal(server, client, finds_out):
    run = ran(client, "hurried", {"task": "bad good"})["runId"]
    if finds_out == "an answer":
        late = respond(client, run, "actor", {"action": "accept"})
        assert (late.status_code, late.json()["error"]) == (409, "conflict")
    else:
        assert server.do(server.workflows.expire_waits()) == 1
    shown = rested(client, run)
    assert (shown["status"], shown["error"]["code"]) == ("failed", "decision_rejected")
    (received,) = events(client, run, "approval.received")
    assert received["payload"]["action"] == "timeout"
    assert not report(client, run)["committed"]


def test_an_interrupt_survives_a_restart(tmp_path):
    address = f"sqlite:///{tmp_path}/runs.db"
    with Server(address, agents=AGENTS, loops=LOOPS) as server:
        key = server.key()
        with server.client(key) as client:
            run = ran(client, "judged", {"task": "bad good"})["runId"]
            before = events(client, run)
            body = {"workflowId": "retraced", "inputs": {"task": "good"}}
            traced = client.post("/v1/runs", json=body, headers={"traceparent": PARENT}).json()["runId"]
            assert rested(client, traced)["status"] == "waiting-approval"
    with Server(address, agents=AGENTS, loops=LOOPS) as server, server.client(key) as client:
        assert rested(client, run)["status"] == "waiting-approval"
        assert events(client, run) == before
        assert respond(client, run, "actor", {"action": "accept"}).status_code == 200
        assert rested(client, run)["status"] == "completed"
        assert [one["verdict"] for one in report(client, run)["verdicts"]] == ["fail", "pass"]
        decided = events(client, run, "runOrchestrator.decided")
        assert [one["payload"]["iteration"] for one in decided] == [1, 2, 3]
        assert respond(client, run, "actor", {"action": "reject"}).status_code == 409
        assert respond(client, traced, "actor", {"action": "accept"}).status_code == 200
        rested(client, traced)
        decided = events(client, traced, "agent.decided")
        assert [one["payload"]["decision"] for one in decided] == ["bad", PARENT]  # the trace goes on


def test_a_child_run_is_attested_verified_approved_and_then_merged(client):
    shown = ran(client, "outer", {"task": "good"})
    run = shown["runId"]
    assert (shown["status"], "candidate" in shown["variables"]) == ("waiting-approval", False)
    assert respond(client, run, "actor", {"action": "accept"}).status_code == 200
    shown = rested(client, run)
    assert shown["variables"]["result"] == "good"
    log = events(client, run)
    (harvested,) = [one for one in log if one["payload"].get("phase") == "output.harvested"]
    proof = attestation({"result": "good"})
    assert harvested["payload"]["attestation"] == {"checksum": proof.checksum, "algorithm": "sha256"}
    (verified,) = [one for one in log if one["type"] == "agent.verified"]
    assert verified["payload"]["target"] == harvested["payload"]["childRunId"]
    assert verified["causationId"] == harvested["eventId"]
    order = ["agent.verified", "interrupt.requested", "approval.received", "variable.changed"]
    after = [one["type"] for one in log if one["sequence"] > harvested["sequence"]]
    assert [type for type in dict.fromkeys(after) if type in order] == order


def test_a_child_run_that_fails_its_critic_is_not_merged(client):
    shown = ran(client, "outer", {"task": "bad"})
    assert (shown["status"], "candidate" in shown["variables"]) == ("waiting-approval", False)
    assert [one["verdict"] for one in report(client, shown["runId"])["verdicts"]] == ["fail"]
    (asked,) = events(client, shown["runId"], "interrupt.requested")
    assert asked["payload"]["data"]["artifactData"] == {"result": "bad"}


@pytest.mark.parametrize("task", ["good", "bad"])
def test_a_child_run_that_is_not_approved_is_not_merged_whatever_a_verdict_says(client, task):
    run = ran(client, "loose", {"task": task})["runId"]
    assert respond(client, run, "actor", {"action": "reject"}).status_code == 200
    shown = rested(client, run)
    assert (shown["status"], shown["error"]["code"]) == ("failed", "loop_limit_exceeded")
    assert (report(client, run)["committed"], "candidate" in shown["variables"]) == (False, False)


@pytest.mark.parametrize(
    ("task", "phase"), [("bad", "child.cancelled"), ("so so so", "child.failed")], ids=["cancelled", "failed"]
)
def test_a_failed_child_run_is_not_merged(client, task, phase):
    run = start(client, "around", {"task": task})
    if phase == "child.cancelled":
        while not (dispatched := events(client, run, "node.dispatched")):
            pass
        child = dispatched[0]["payload"]["childRunId"]
        assert rested(client, child)["status"] == "waiting-approval"
        assert client.post(f"/v1/runs/{child}/cancel", json={}).status_code == 200
    shown = rested(client, run)
    assert (shown["status"], shown["error"]["code"]) == ("failed", "loop_limit_exceeded")
    phases = [one["payload"]["phase"] for one in events(client, run, "core.workflowChain.event")]
    assert phases == ["dispatch.began", "dispatch.succeeded", phase]
    assert not report(client, run)["committed"]


def test_a_child_run_has_another_turn_with_the_critics_notes(client):
    shown = ran(client, "noted", {"task": "so good"})
    run = shown["runId"]
    assert (shown["status"], shown["variables"]["result"]) == ("completed", "good")
    children = [one["payload"]["childRunId"] for one in events(client, run, "node.dispatched")]
    second = client.get(f"/v1/runs/{children[1]}").json()
    assert second["inputs"]["task"] == {"task": "so good", "notes": [CANARY], "turn": 2}


def test_a_child_run_that_gave_up_is_not_merged(client):
    """It is completed, and its goal is not reached: whoever waits for it takes nothing from it."""
    shown = ran(client, "hopeful", {"task": "bad"})
    run = shown["runId"]
    assert (shown["status"], shown["error"]["code"]) == ("failed", "loop_limit_exceeded")
    phases = [one["payload"]["phase"] for one in events(client, run, "core.workflowChain.event")]
    assert phases == ["dispatch.began", "dispatch.succeeded", "child.completed"] * 2
    assert (report(client, run)["committed"], report(client, run)["goalSatisfied"]) == (False, False)
    assert ran(client, "hopeful", {"task": "good"})["variables"]["result"] == "good"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"action": "edit-accept"}, "resumeValue.outputs"),
        ({"action": "edit-accept", "outputs": ["x"]}, "resumeValue.outputs"),
        ({"action": "edit-accept", "outputs": {"other": 1}}, "resumeValue.outputs"),
    ],
)
def test_an_edited_output_must_match_the_schema_or_changes_nothing(client, value, place):
    run = ran(client, "outer", {"task": "good"})["runId"]
    refused = respond(client, run, "actor", value)
    assert (refused.status_code, refused.json()["error"]) == (400, "validation_error")
    assert [problem["place"] for problem in refused.json()["details"]["problems"]] == [place]
    assert rested(client, run)["status"] == "waiting-approval"
    mended = {"action": "edit-accept", "outputs": {"result": "mended"}}
    assert respond(client, run, "actor", mended).status_code == 200
    assert rested(client, run)["variables"]["result"] == "mended"


def test_only_the_owner_reads_why_an_agent_failed(server, client):
    shown = ran(client, "crashing", {"task": "x"})
    run = shown["runId"]
    assert (shown["status"], shown["error"]["code"]) == ("failed", "loop_limit_exceeded")
    ends = [
        one["payload"]["outputs"]
        for one in events(client, run, "node.completed")
        if "outputs" in one["payload"]
    ]
    failures = [failure for one in ends if one.get("outcome") == "failed" for failure in one["failures"]]
    assert [(one["iteration"], one["agentId"], one["role"]) for one in failures] == [
        (turn, "test.crashing", "actor") for turn in (1, 2)
    ]
    assert {one["why"].partition(" (")[0] for one in failures} == {f"RuntimeError: {CANARY} is full"}
    assert all(
        re.search(r"\(\S*test_openwop_workflows\.py:\d+ in crashes\)$", one["why"]) for one in failures
    )
    moody = ran(client, "moody", {"task": "crash"})["runId"]
    raw = [event.data for one in (run, moody) for event in server.do(server.store.events(one))]
    assert not [data for data in raw if CANARY.encode() in data]
    assert CANARY not in json.dumps([report(client, run), report(client, moody), shown["error"]])
    assert CANARY not in client.get("/v1/host/assay/runs").text


@pytest.mark.parametrize(
    ("task", "code"), [("nonsense", "validation_error"), ("nobody", "unknown_child_workflow")]
)
def test_the_error_of_a_run_does_not_quote_its_supervisor(server, client, task, code):
    shown = ran(client, "bossy", {"task": task})
    assert (shown["status"], shown["error"]["code"]) == ("failed", code)
    raw = server.do(server.store.events(shown["runId"]))
    assert not [event for event in raw if CANARY.encode() in event.data]


def test_a_list_has_verdicts_and_pending_interrupts(client):
    own = ran(client, "itself", {"task": "x"})["runId"]
    waits = ran(client, "hurried", {"task": "bad"})["runId"]
    listed = client.get("/v1/host/assay/runs", params={"mode": "workflow"}).json()["runs"]
    found = {one["runId"]: one for one in listed}
    assert (found[own]["verdict"], found[own]["selfVerified"], "waiting" in found[own]) == (
        "pass",
        True,
        False,
    )
    assert (found[waits]["verdict"], "selfVerified" in found[waits]) == ("fail", False)
    waiting = found[waits]["waiting"]
    assert (waiting["nodeId"], waiting["kind"], waiting["about"]) == ("actor", "approval", "retry")
    assert waiting.keys() == {"nodeId", "kind", "about", "interruptId", "deadline"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"workflowId": "nothing"}, "workflowId"),
        ({"workflowId": "judged"}, "inputs.task"),
        ({"workflowId": "judged", "inputs": {"task": "x"}, "configurable": {"maxLoopIterations": 0}}, "configurable.maxLoopIterations"),
        ({"workflowId": "judged", "inputs": {"task": "x"}, "configurable": {"model": ""}}, "configurable.model"),
        ({"workflowId": "judged", "inputs": {"task": "x"}, "configurable": {"temperature": 3}}, "configurable.temperature"),
    ],
)  # fmt: skip
def test_an_invalid_run_is_400(client, body, field):
    refused = client.post("/v1/runs", json=body)
    assert (refused.status_code, refused.json()["error"]) == (400, "validation_error")
    assert field in [problem["place"] for problem in refused.json()["details"]["problems"]]


def test_6_5_the_options_of_a_run_are_kept_and_shown_without_their_secrets(server, client):
    secret = "sk-0123456789abcdefgh1234"
    shown = ran(
        client, "conformance-noop", configurable={"mine": f"see {secret}", "api_key": "hunter2", "limit": 3}
    )
    kept = {"mine": "see [REDACTED:openai-key]", "api_key": "[REDACTED:api_key]", "limit": 3}
    assert shown["configurable"] == kept
    (request,) = server.do(server.store.chunks(shown["runId"], "workflow-request"))
    assert not {part for part in (secret, "hunter2") if part.encode() in request.data}


def test_6_5_no_event_and_no_comparison_of_a_workflow_has_a_secret(server, client):
    """One rule for all that is shown and kept: the snapshot, its frames, the log, what lies beside it, and the steps."""
    one, two = "sk-0123456789abcdefgh1234", "sk-abcdefgh01234567891234"
    runs = [
        ran(client, "conformance-identity", {"payload": {"text": f"see {secret}"}}) for secret in (one, two)
    ]
    hidden = {"payload": {"text": "see [REDACTED:openai-key]"}}
    assert [runs[0][name] for name in ("inputs", "variables", "outputs")] == [hidden] * 3
    frames = client.get(
        f"/v1/runs/{runs[0]['runId']}/events",
        params={"streamMode": "values"},
        headers={"accept": "text/event-stream"},
    ).text
    assert "REDACTED" in frames
    kinds = ("workflow-request", "step")
    kept = b"".join(
        one.data for kind in kinds for one in server.do(server.store.chunks(runs[0]["runId"], kind))
    )
    assert b"REDACTED" in kept
    compared = client.get(f"/v1/runs/{runs[0]['runId']}:diff", params={"against": runs[1]["runId"]}).json()
    logs = [events(client, run["runId"]) for run in runs]
    assert [event["payload"]["inputs"] for event in logs[0] if event["type"] == "run.started"] == [
        {"payload": {"text": "see [REDACTED:openai-key]"}}
    ]
    ids = [event["eventId"] for event in logs[0]]
    beside = b"".join(server.do(server.store.contents(runs[0]["runId"], "content", ids)).values())
    text = json.dumps([compared, logs, runs, frames]).encode() + beside + kept
    assert b"REDACTED" in beside
    assert not [secret for secret in (one, two) if secret.encode() in text]


def test_1_1_no_fork_has_test_doubles(client):
    source = ran(client, "conformance-noop")["runId"]
    for overlay in ({"mockProvider": {"id": "x"}}, {"configurable": {"mockProvider": {"id": "x"}}}):
        body = {"mode": "branch", "fromSeq": 0, "runOptionsOverlay": overlay}
        answer = client.post(f"/v1/runs/{source}:fork", json=body)
        assert (answer.status_code, answer.json()["error"]) == (403, "mock_provider_forbidden")


def test_runs_lifecycle_and_failure_path(client):
    assert ran(client, "conformance-noop")["status"] == "completed"
    failed = ran(client, "conformance-failure")
    assert failed["error"].keys() >= {"code", "message"}
    payload = {"a": [1, None]}
    shown = ran(client, "conformance-identity", {"payload": payload})
    assert shown["variables"]["payload"] == payload
    (started,) = events(client, shown["runId"], "run.started")
    assert started["payload"]["inputs"] == {"payload": payload}
    (noop,) = events(client, ran(client, "conformance-noop")["runId"], "run.started")
    assert "inputs" not in noop["payload"]


PARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.mark.parametrize(
    ("traceparent", "kept"),
    [(PARENT, PARENT), ("", ""), ("00-1-2-3", ""), (f"ff{PARENT[2:]}", ""), (f"00-{'0' * 32}-{'cd' * 8}-01", "")],
    ids=["one", "none", "short", "another version", "zeros"],
)  # fmt: skip
def test_a_child_run_has_the_traceparent_of_its_parent(client, traceparent, kept):
    """And what is done for it carries that on (openwop-contract §13.8)."""
    body = {"workflowId": "tracing", "inputs": {"task": "x"}}
    run = client.post("/v1/runs", json=body, headers={"traceparent": traceparent}).json()["runId"]
    shown = rested(client, run)
    child = events(client, run, "node.dispatched")[0]["payload"]["childRunId"]
    assert shown["variables"]["result"] == kept  # what the agent of the child saw
    below = client.get(f"/v1/runs/{child}").json()
    assert [one.get("traceparent", "") for one in (shown, below)] == [kept, kept]
    again = ran(client, "traced", {"task": "x"})  # and no other run has it
    assert again["variables"]["result"] == ""


def test_a_list_names_the_parent_of_children_and_the_source_of_forks(client):
    run = ran(client, "conformance-multi-agent-handoff")["runId"]
    (child,) = [one["payload"]["childRunId"] for one in events(client, run, "node.dispatched")]
    fork = client.post(f"/v1/runs/{run}:fork", json={"mode": "replay"}).json()["runId"]
    rested(client, fork)
    listed = {one["runId"]: one for one in client.get("/v1/host/assay/runs?page_size=20").json()["runs"]}
    assert listed[child]["parentRunId"] == run
    assert (listed[fork]["sourceRunId"], listed[fork]["forkMode"]) == (run, "replay")
    assert not {"parentRunId", "sourceRunId"} & listed[run].keys()


@pytest.mark.parametrize(
    ("workflow", "node"),
    [("conformance-dispatch-loop", "dispatch"), ("conformance-subworkflow-parent", "subwf-call")],
)
def test_3_3_a_childs_snapshot_names_its_parent_and_the_node(client, workflow, node):
    run = ran(client, workflow)["runId"]
    child = events(client, run, "node.dispatched")[0]["payload"]["childRunId"]
    shown = client.get(f"/v1/runs/{child}").json()
    assert (shown["parentRunId"], shown["parentNodeId"]) == (run, node)
    assert not {"parentRunId", "parentNodeId"} & client.get(f"/v1/runs/{run}").json().keys()


def test_cross_host_ancestry_endpoint(server, client):
    run = ran(client, "conformance-dispatch-loop")["runId"]
    host = client.get("/.well-known/openwop").json()["multiAgent"]["executionModel"]["crossHostCausation"][
        "hostId"
    ]
    assert client.get(f"/v1/runs/{run}/ancestry").json() == {"runId": run, "hostId": host, "parent": None}
    child = events(client, run, "node.dispatched")[0]["payload"]["childRunId"]
    assert client.get(f"/v1/runs/{child}/ancestry").json()["parent"] == {
        "runId": run, "hostId": host, "cause": "core.dispatch",
    }  # fmt: skip
    with server.client(tenant="other") as other:
        assert other.get(f"/v1/runs/{run}/ancestry").status_code == 404


@pytest.fixture(scope="module")
def model(client):
    return client.get("/.well-known/openwop").json()["multiAgent"]["executionModel"]


def test_the_execution_model_of_discovery(client, model):
    """The scenarios agent-loop-version5-shape, cross-host-causation-shape and multi-agent-memory-lifecycle."""
    assert model["version"] >= 5
    assert isinstance(model["statefulResume"], bool)
    assert "transcriptWindow" not in model  # a turn is given no part of the log
    causation = model["crossHostCausation"]
    assert (causation["supported"], bool(causation["hostId"])) == (True, True)
    assert client.get("/.well-known/openwop").json()["memory"]["supported"] is True
    assert model["crossChildMemoryConcurrency"] in ("strict", "advisory")
    assert 0.5 <= model["confidenceEscalationFloor"] <= 1


def test_node_failed_payload_shape(client):
    run = ran(client, "conformance-failure")["runId"]
    for type in ("node.failed", "run.failed"):
        (failed,) = events(client, run, type)
        assert all(isinstance(failed["payload"]["error"][name], str) for name in ("code", "message"))


def test_a_supervisor_asks_a_person_and_goes_on_with_the_answer(client):
    shown = ran(client, "bossy", {"task": "ask"})
    run = shown["runId"]
    assert (shown["status"], shown["currentNodeId"]) == ("waiting-input", "actor")
    (asked,) = events(client, run, "clarification.requested")
    assert asked["payload"]["questions"] == [{"id": "answer", "question": "where?"}]
    assert [one["payload"]["kind"] for one in events(client, run, "interrupt.requested")] == ["clarification"]
    assert respond(client, run, "actor", "here").status_code == 200
    shown = rested(client, run)
    assert (shown["status"], shown["variables"]["result"]) == ("completed", "ask")
    (resolved,) = events(client, run, "clarification.resolved")
    assert resolved["payload"]["answers"] == {"answer": "here"}


def test_discovery_has_fixtures_execution_model_and_limits(client):
    discovery = client.get("/.well-known/openwop").json()
    assert discovery["fixtures"] == fixtures(enabled=True)
    assert discovery["multiAgent"]["executionModel"]["version"] == 6
    # this host has workflows whose verdicts are only recorded
    assert discovery["multiAgent"]["executionModel"]["verifier"] == {"supported": True, "gating": False}
    assert "multiAgent" not in discovery["capabilities"]
    assert discovery["limits"]["maxLoopIterations"] == 25
    if SCHEMA.is_file():
        families = json.loads(SCHEMA.read_text("utf-8"))["properties"]
        for family in ("limits", "multiAgent", "fixtures"):
            jsonschema_rs.validator_for(families[family]).validate(discovery[family])


@pytest.mark.parametrize("gating", [True, False])
def test_a_host_advertises_gating_if_it_holds_for_every_workflow(gating):
    actor, critic = (
        FunctionAgent(lambda _: "done", agent_id="test.doer"),
        FunctionAgent(lambda _: "fail", agent_id="test.judge"),
    )
    loops = {
        "strict": VerifierLoopConfig(actor="test.doer", critics=["test.judge"]),
        "other": VerifierLoopConfig(actor="test.doer", critics=["test.judge"], gating=gating),
    }
    with Server("memory:", agents=[actor, critic], loops=loops, seeded=True) as host, host.client() as client:
        model = client.get("/.well-known/openwop").json()["multiAgent"]["executionModel"]
        assert (model["version"], model["verifier"]["gating"]) == (6, gating)
        merged = {}
        for id in loops:
            run = client.post("/v1/runs", json={"workflowId": id, "inputs": {"task": "x"}}).json()["runId"]
            merged[id] = rested(client, run)["status"] == "completed"
        assert merged == {"strict": False, "other": not gating}


def test_a_workflow_is_returned_as_its_definition(client):
    shown = client.get("/v1/workflows/judged").json()
    assert {
        "id",
        "name",
        "version",
        "nodes",
        "edges",
        "triggers",
        "variables",
        "metadata",
        "settings",
    } <= shown.keys()
    assert client.get("/v1/workflows/nothing").status_code == 404


@pytest.mark.parametrize("verdict", ["pass", "fail", "revise"])
def test_verifier_gating(client, verdict):
    answered = client.post(
        "/v1/host/sample/agents/verify-run", json={"simulateVerdict": verdict, "task": CANARY}
    )
    body = answered.json()
    success = body["status"] == "completed" or body["outcome"] == "completed" or body["committed"]
    assert (answered.status_code, success) == (200, verdict == "pass")
    assert {event["verdict"] for event in body["events"]} == {verdict}
    assert CANARY not in answered.text


def test_the_seams_of_the_suite_run_a_sample_loop(client):
    sample = "/v1/host/sample"
    loop = client.post(
        f"{sample}/agentloop/run", json={"turns": 4, "suspendAtTurn": 2, "resume": True}
    ).json()
    assert (loop["resumedIteration"], [one["iteration"] for one in loop["decisions"]]) == (2, [1, 2, 3, 4])
    body = {"childOutputs": {"x": 1}, "outputAttestation": {"checksum": True}}
    assert client.post(f"{sample}/subrun/attest", json=body).json()["mergedValues"] == {"x": 1}
    flat = {"provider": "anthropic", "model": "claude-x", "messages": [{"role": "user", "content": "hello"}]}
    key = client.post(f"{sample}/test/llm-cache-key", json=flat).json()["cacheKey"]
    assert key == "c92498949e9cc0e38bb2887e88e55b6936932e219b8344f0a7059b1de960073d"
    assert client.post(f"{sample}/test/llm-cache-key", json={}).status_code == 400
    entry = {"stopReason": "safety", "refusalText": "no"}
    response = client.post(
        f"{sample}/test/mock-ai/program", json={"nodeId": "structured-call", "program": [entry]}
    )
    assert response.json() == {"ok": True, "count": 1}
    shown = ran(client, "conformance-phase4-replay-divergence")
    assert shown["error"]["code"] == "envelope_refusal"


def test_agent_manifest_runtime(client):
    assert client.get("/.well-known/openwop").json()["agents"]["manifestRuntime"]["supported"] is True
    for entry in client.get("/v1/agents").json()["agents"]:
        if entry["agentId"] not in ("local.tests.agent", "test.both", "test.reasons"):
            continue
        where = f"/v1/host/sample/agents/{entry['agentId']}/dispatch"
        body = {"task": "hello", "validateHandoff": True, "availableTools": []}
        answer = client.post(where, json=body).json()
        assert answer["status"] == "completed"
        assert {one["agentId"] for one in answer["events"]} == {entry["agentId"]}
        types = [one["type"] for one in answer["events"]]
        assert (types.count("agent.reasoned"), types.count("agent.decided")) == (1, 1)
        assert client.post(where, json={}).status_code == 400
    escalated = client.post("/v1/host/sample/agents/test.sure/dispatch", json={"task": "0.1/1"}).json()
    assert escalated["status"] == "escalated"
    assert client.post("/v1/host/sample/agents/nobody/dispatch", json={"task": 1}).status_code == 404


def test_without_workflows_their_routes_are_not_served(tmp_path):
    from assay.serve.openwop.features import OpenWopFeatures

    offer = OpenWopFeatures(offer_workflows=False)
    with (
        Server(f"sqlite:///{tmp_path}/runs.db", offer=offer, seeded=True) as server,
        server.client() as client,
    ):
        assert client.post("/v1/runs", json={"workflowId": "conformance-noop"}).status_code == 400
        assert client.get("/v1/runs/run-x/ancestry").status_code == 404
        assert client.post("/v1/host/sample/agents/verify-run", json={}).status_code == 404
        assert "multiAgent" not in client.get("/.well-known/openwop").json()


def test_a_run_with_erased_content_cannot_be_forked(server, client):
    run = ran(client, "conformance-noop")["runId"]
    server.do(server.store.erase(run))
    refused = client.post(f"/v1/runs/{run}:fork", json={"mode": "replay", "fromSeq": 0})
    assert (refused.status_code, refused.json()["error"]) == (422, "replay_memory_snapshot_unavailable")
    details = refused.json()["details"]
    assert (details["reason"], details["sourceRunId"], details["fromSeq"]) == ("retention_expired", run, 0)
    far = client.post(f"/v1/runs/{run}:fork", json={"mode": "replay", "fromSeq": 999})
    assert far.json()["error"] == "invalid_from_seq"  # bounds come first
