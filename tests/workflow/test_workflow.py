"""The workflow runner: its nodes, bounds, interrupts, child runs and samples (openwop-contract §11, §13), scenarios by their names in openwop-contract §10.8 and §13.12."""

import asyncio
import functools
import json
from datetime import timedelta
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from assay.errors import Conflict, Forbidden, InvalidRequest, NotFound
from assay.ports import Principal
from assay.protocol.agents import InvocationResult
from assay.seams.sample_workflows import SEAM_NODES, fixtures, samples
from assay.serve.openwop.asyncapi import EVENTS
from assay.workflow.fork import fork
from assay.workflow.library import Library
from assay.workflow.nodes import NODES
from assay.workflow.service import RESTING
from assay.workflow.state.decisions import read_decision
from assay.workflow.state.definition import document_of, problems, read
from assay.workflow.supported_phases import HostInfo, execution_model
from support.spec_files import SHARED
from support.waiting import PATIENCE
from support.workflows import ME, OTHER, ScriptedAgent, WorkflowHost, loop

pytestmark = pytest.mark.anyio

SCHEMAS = SHARED / "openwop" / "schemas"
shared = pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the published schemas are not here")


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def host(anyio_backend):
    async with WorkflowHost() as host:
        yield host


def schema(name):
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text())


# samples


@shared
@pytest.mark.parametrize("id", sorted(samples()))
def test_a_sample_is_a_workflow_by_the_published_schema(id):
    shown = document_of(samples()[id])
    text = json.loads((SCHEMAS / "workflow-definition.schema.json").read_text())
    text["properties"].pop("defaults")  # it leads to a schema that is not among those published here
    text["$defs"]["WorkflowNode"]["properties"]["agent"] = schema("agent-ref")
    jsonschema_rs.validator_for(text).validate(shown)
    for node in shown["nodes"]:
        if node["typeId"] == "core.dispatch":
            jsonschema_rs.validator_for(schema("dispatch-config")).validate(node["config"])
        if node["typeId"] == "core.conformance.mock-agent":
            jsonschema_rs.validator_for(schema("core-conformance-mock-agent-config")).validate(node["config"])


@shared
@pytest.mark.parametrize("id", sorted(samples()))
def test_a_sample_has_the_nodes_of_the_published_fixture(id):
    published = json.loads((SHARED / "openwop" / "fixtures" / f"{id}.json").read_text())
    ours = document_of(samples()[id])
    assert [(one["id"], one["typeId"]) for one in ours["nodes"]] == [
        (one["id"], one["typeId"]) for one in published["nodes"]
    ]
    assert {one["name"] for one in ours["variables"]} == {one["name"] for one in published["variables"]}


CHANNEL = "conformance-agent-channel-dispatch"  # needs a deployment: tests/serve/openwop/test_deployments.py
RUNNABLE = [id for id in fixtures(enabled=True) if id != CHANNEL]
INPUTS = {
    "conformance-identity": {"payload": {"a": [1]}},
    "conformance-delay": {"delayMs": 5},
    "conformance-cancellable": {"delayMs": 5},
    "conformance-run-duration-breach": {"delayMs": 5},
}
ENDS = {
    "conformance-failure": "failed",
    "conformance-approval": "waiting-approval",
    "conformance-multi-agent-confidence-escalation": "waiting-approval",
    "conformance-orchestrator-low-confidence": "waiting-approval",
    "conformance-agent-low-confidence": "waiting-approval",
}


@pytest.mark.parametrize("id", RUNNABLE)
async def test_every_sample_that_is_advertised_runs(host, id):
    run = await host.run(id, INPUTS.get(id))
    assert run.status == ENDS.get(id, "completed")


def test_nothing_is_advertised_that_is_not_seeded():
    assert fixtures(enabled=False) == []


@shared
@pytest.mark.parametrize("id", RUNNABLE)
async def test_the_events_of_a_sample_match_the_published_schemas(host, id):
    run = await host.run(id, INPUTS.get(id))
    for event in await host.events(run):
        run_event().validate(event)
        payload_validator(event["type"]).validate(event["payload"])


VERIFIED = {"agentId": "local.tests.critic", "target": "ev-42", "verdict": "pass"}
SHAPES = [
    (VERIFIED, True),
    (VERIFIED | {"criteria": ["schema-valid", "grounded"], "confidence": 0.9}, True),
    (VERIFIED | {"causationHostId": "other.example/main"}, True),
    (VERIFIED | {"verdict": "ok"}, False),
    (VERIFIED | {"result": "the text"}, False),
    (VERIFIED | {"content": {}}, False),
    (VERIFIED | {"confidence": 1.1}, False),
    (VERIFIED | {"target": ""}, False),
    ({"target": "ev-42", "verdict": "pass"}, False),
]
ENDINGS = [
    ([{"key": "goal-answered", "met": True}], True),
    ([{"key": "goal-answered", "met": False}], True),
    ([{"key": "goal-answered"}], False),
    ([{"met": True}], False),
    ([{"key": "a", "met": True, "why": "x"}], False),
    ([{"key": "a", "met": "yes"}], False),
]


@shared
@pytest.mark.parametrize(("payload", "fits"), SHAPES)
def test_agent_verifier_shape(payload, fits):
    """And what we can say is what the published schema knows: nothing else can be written down."""
    assert payload_validator("agent.verified").is_valid(payload) is fits
    ours = {field.encode_name for field in msgspec.structs.fields(EVENTS["agent.verified"])}
    assert ours | {"causationHostId"} == published_payloads()["agentVerified"]["properties"].keys()


@shared
@pytest.mark.parametrize(("criteria", "fits"), ENDINGS)
def test_agent_verifier_shape_success_criteria(criteria, fits):
    decision = {"kind": "terminate", "reason": "goal-reached", "successCriteria": criteria}
    assert jsonschema_rs.validator_for(schema("orchestrator-decision")).is_valid(decision) is fits
    assert accepts(lambda: read_decision(decision)) is fits


@shared
@pytest.mark.parametrize(("version", "fits"), [(6, True), (7, False)])
def test_agent_verifier_shape_execution_model(version, fits):
    model = execution_model(HostInfo()) | {"version": version}
    family = schema("capabilities")["properties"]["multiAgent"]
    assert jsonschema_rs.validator_for(family).is_valid({"executionModel": model}) is fits


def accepts(reading):
    try:
        reading()
    except ValueError:
        return False
    return True


@shared
@pytest.mark.parametrize("verify", ["decision", "tools"])
async def test_the_events_of_a_verified_loop_match_the_published_schemas(verify):
    actor = ScriptedAgent(
        "test.actor",
        [InvocationResult(outcome="completed", result="R", confidence=0.1), ValueError("x"), "S"],
    )
    critic = ScriptedAgent("test.critic", [{"verdict": "revise", "confidence": 0.4}, "fail", "pass"])
    loops = {
        "loop": loop(verify=verify, criteria=["good"], approval_seconds=60),
        "outer": loop("workflow:loop", [], approve=True),
    }
    async with WorkflowHost(actor, critic, loops=loops) as host:
        run = await host.run("loop", {"task": "t"})
        for _ in range(3):
            if run.status == "waiting-approval":
                run = await host.answer(run, "actor", {"action": "accept"})
        assert run.status == "completed"
        outer = await host.run("outer", {"task": "t"})
        for event in [*await host.events(run), *await host.events(outer)]:
            run_event().validate(event)
            payload_validator(event["type"]).validate(event["payload"])


@functools.cache
def run_event():
    return jsonschema_rs.validator_for(schema("run-event"))


@functools.cache
def payload_validator(type):
    """The published schema of one type's payload, with what it leads to."""
    defs = published_payloads()
    name = defs["_typeIndex"]["properties"][type]["$ref"].rsplit("/", 1)[-1]
    used: dict = {}

    def inlined(value):
        if isinstance(value, list):
            return [inlined(one) for one in value]
        if not isinstance(value, dict):
            return value
        ref = value.get("$ref", "")
        if ref.endswith(".schema.json"):
            return (
                inlined(schema("orchestrator-decision")) if "decision" in ref else schema("suspend-request")
            )
        if ref.startswith("#/$defs/") and (inner := ref.rsplit("/", 1)[-1]) in defs and inner not in used:
            used[inner] = None
            used[inner] = inlined(defs[inner])
        return {key: inlined(one) for key, one in value.items()}

    whole: Any = schema("suspend-request") if name == "interruptRequested" else inlined(defs[name])
    return jsonschema_rs.validator_for({"$defs": used} | whole)


@functools.cache
def published_payloads():
    return schema("run-event-payloads")["$defs"]


# registration


def test_an_invalid_workflow_is_refused_with_all_its_problems():
    bad = read(
        document_of(samples()["conformance-dispatch-loop"])
        | {
            "nodes": [
                document_of(samples()["conformance-dispatch-loop"])["nodes"][1]
                | {
                    "config": {
                        "askUserRouting": "conversation",
                        "fanOutPolicy": "all",
                        "x": 1,
                        "iterationCap": 0,
                    }
                },
                document_of(samples()["conformance-noop"])["nodes"][0] | {"typeId": "acme.nothing"},
                document_of(samples()["conformance-noop"])["nodes"][0],
            ],
        }
    )
    found = {str(problem) for problem in problems(bad, NODES)}
    assert len(found) == 9, found
    with pytest.raises(InvalidRequest):
        Library([bad])


def test_mocked_outputs_are_for_sample_workflows_only():
    shown = document_of(samples()["conformance-agent-reasoning"])
    mocks = {"mockReasoning", "mockToolCalls", "mockHandoff", "mockDecision"}
    places = {problem.place for problem in problems(read(shown | {"id": "ours"}), NODES | SEAM_NODES)}
    assert places == {"nodes[0].typeId", *(f"nodes[0].config.{name}" for name in mocks)}
    planned = document_of(samples()["conformance-orchestrator-terminate"])
    assert [one.place for one in problems(read(planned | {"id": "ours"}), NODES)] == [
        "nodes[0].config.mockDecisions"
    ]
    for call in ({"toolId": "a:b"}, {"toolId": "a:b", "result": 1, "error": {}}):
        shown["nodes"][0]["config"]["mockToolCalls"] = [call]
        assert [one.place for one in problems(read(shown), NODES | SEAM_NODES)] == [
            "nodes[0].config.mockToolCalls[0]"
        ]


@pytest.mark.parametrize(
    ("workflow", "inputs", "configurable", "place"),
    [
        ("nothing", {}, {}, "workflowId"),
        ("conformance-identity", {}, {}, "inputs.payload"),
        ("conformance-noop", [], {}, "inputs"),
        ("conformance-noop", {}, [], "configurable"),
        ("conformance-noop", {}, {"recursionLimit": 0}, "configurable.recursionLimit"),
        ("conformance-noop", {}, {"runTimeoutMs": "1"}, "configurable.runTimeoutMs"),
        ("conformance-noop", {}, {"maxLoopIterations": True}, "configurable.maxLoopIterations"),
        ("conformance-noop", {}, {"escalationThreshold": 2}, "configurable.escalationThreshold"),
        ("conformance-noop", {}, {"reasoningVerbosity": "loud"}, "configurable.reasoningVerbosity"),
    ],
)
async def test_an_invalid_run_is_refused_and_starts_nothing(host, workflow, inputs, configurable, place):
    before = len(host.store._runs)
    with pytest.raises(InvalidRequest) as refused:
        await host.workflows.start(ME, workflow, inputs, configurable)
    assert place in [problem.place for problem in refused.value.problems]
    assert len(host.store._runs) == before


# scenarios


async def test_failure_path(host):
    run = await host.run("conformance-failure")
    assert run.metadata["error"].keys() == {"code", "message"}
    failed = {event["type"]: event["payload"] for event in await host.events(run)}
    assert failed["node.failed"]["error"] == failed["run.failed"]["error"] == run.metadata["error"]


async def test_multi_node_ordering(host):
    run = await host.run("conformance-multi-node")
    assert [event["payload"]["nodeId"] for event in await host.events(run, "node.completed")] == [
        "a",
        "b",
        "c",
    ]


async def test_identity_returns_its_input(host):
    payload = {"deep": [1, {"a": None}]}
    run = await host.run("conformance-identity", {"payload": payload})
    assert (await host.workflows.snapshot(run))["variables"]["payload"] == payload


async def test_event_ordering(host):
    run = await host.run("conformance-noop")
    events = await host.events(run)
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events if event["type"].startswith("run.")] == [
        "run.started",
        "run.completed",
    ]
    assert events[-1]["type"] == "run.completed"


@pytest.mark.parametrize("limit", [1, 5])
async def test_cap_breach(host, limit):
    run = await host.run("conformance-cap-breach", configurable={"recursionLimit": limit})
    assert run.metadata["error"]["code"] == "recursion_limit_exceeded"
    (breach,) = await host.events(run, "cap.breached")
    assert breach["payload"]["kind"] == "node-executions"
    assert (breach["payload"]["limit"], breach["payload"]["observed"]) == (limit, limit + 1)


async def test_run_execution_bounds_shape(host):
    run = await host.run("conformance-run-duration-breach", configurable={"runTimeoutMs": 20})
    assert (run.status, run.metadata["error"]["code"]) == ("failed", "run_timeout")
    (breach,) = await host.events(run, "cap.breached")
    assert breach["payload"]["kind"] == "run-duration"
    assert breach["payload"]["observed"] > breach["payload"]["limit"] == 20


async def test_cancellation(host):
    run = await host.workflows.start(ME, "conformance-cancellable", {"delayMs": 60_000})
    await host.store.wait_for_events(run.id, after=0, timeout=PATIENCE)
    assert (await host.executor.cancel(run.id, "t")).status == "cancelled"
    assert (await host.types(run))[-1] == "run.cancelled"


# interrupts


async def test_interrupt_approval(host):
    run = await host.run("conformance-approval")
    assert (await host.workflows.snapshot(run))["currentNodeId"] == "gate"
    for bad in ({"action": "maybe"}, {}, "accept", None):
        with pytest.raises(InvalidRequest):
            await host.workflows.respond(ME, run.id, "gate", bad)
    with pytest.raises(NotFound):
        await host.workflows.respond(ME, run.id, "nowhere", {"action": "accept"})
    with pytest.raises(NotFound):
        await host.workflows.respond(OTHER, run.id, "gate", {"action": "accept"})
    with pytest.raises(Forbidden):
        await host.workflows.respond(Principal(tenant="t", id="x"), run.id, "gate", {"action": "accept"})
    assert (await host.store.run(run.id)).status == "waiting-approval"  # nothing of that changed anything
    assert (await host.answer(run, "gate", {"action": "accept"})).status == "completed"
    with pytest.raises(Conflict):
        await host.workflows.respond(ME, run.id, "gate", {"action": "reject"})


async def test_a_run_is_visible_to_its_tenant_only(host):
    run = await host.run("conformance-noop")
    assert (await host.workflows.report(run.id, "t")).run_id == run.id
    for asking in (
        host.workflows.get(run.id, OTHER.tenant),
        host.workflows.report(run.id, OTHER.tenant),
        host.workflows.ancestry(run.id, OTHER.tenant, "host"),
        fork(host.workflows, OTHER, run.id, "replay"),
    ):
        with pytest.raises(NotFound):
            await asking


async def test_a_rejected_approval_gate_fails_the_run(host):
    run = await host.answer(await host.run("conformance-approval"), "gate", {"action": "reject"})
    assert (run.status, run.metadata["error"]["code"]) == ("failed", "decision_rejected")
    (received,) = await host.events(run, "approval.received")
    assert received["payload"]["decidedBy"] == "key-me"


async def test_of_concurrent_answers_one_counts(host):
    run = await host.run("conformance-approval")
    answers = [host.workflows.respond(ME, run.id, "gate", {"action": "accept"}) for _ in range(8)]
    came = await asyncio.gather(*answers, return_exceptions=True)
    assert sum(isinstance(one, Conflict) for one in came) == 7
    assert (await host.executor.wait(run.id)).status == "completed"


async def test_an_interrupt_survives_its_process_and_expires_into_a_rejection():
    gate = document_of(samples()["conformance-approval"])
    gate["nodes"][0]["config"]["expiresSeconds"] = 60
    gate = read(gate | {"id": "gate-with-an-end"})
    async with WorkflowHost(workflows=[gate]) as host:
        run = await host.run("gate-with-an-end")
        other = await host.run("gate-with-an-end")
        assert await host.workflows.expire_waits() == 0
    async with WorkflowHost(workflows=[gate], store=host.store) as later:
        assert (await later.answer(run, "gate", {"action": "accept"})).status == "completed"
        now = later.workflows._clock.now()
        later.workflows._clock = Later(now + timedelta(seconds=61))
        with pytest.raises(Conflict):
            await later.workflows.respond(ME, other.id, "gate", {"action": "accept"})
        ended = await later.executor.wait(other.id)
        assert (ended.status, ended.metadata["error"]["code"]) == ("failed", "decision_rejected")
        third = await later.run("gate-with-an-end")
        later.workflows._clock = Later(now + timedelta(seconds=200))
        assert await later.workflows.expire_waits() == 1
        assert (await later.executor.wait(third.id)).status == "failed"
        (received,) = await later.events(third, "approval.received")
        assert received["payload"]["action"] == "timeout"


class Later:
    def __init__(self, now):
        self._now = now

    def now(self):
        return self._now


async def test_a_run_that_waits_can_be_cancelled(host):
    run = await host.run("conformance-approval")
    assert (await host.executor.cancel(run.id, "t")).status == "cancelled"
    with pytest.raises(Conflict):
        await host.workflows.respond(ME, run.id, "gate", {"action": "accept"})


def test_waiting_statuses_are_those_of_the_schema():
    assert {"waiting-approval", "waiting-input", "waiting-external"} == RESTING


# agents


async def test_agent_reasoning_events(host):
    run = await host.run("conformance-agent-reasoning")
    events = await host.events(run)
    assert [event["type"] for event in events if event["type"].startswith("agent.")] == [
        "agent.reasoned", "agent.toolCalled", "agent.toolReturned", "agent.handoff", "agent.decided",
    ]  # fmt: skip
    called, returned = (
        next(e for e in events if e["type"] == f"agent.tool{what}") for what in ("Called", "Returned")
    )
    assert called["payload"]["callId"] == returned["payload"]["callId"]
    assert returned["causationId"] == called["eventId"]
    assert called["payload"]["toolName"] == "openwop.echo:echo"
    assert (called["payload"]["inputs"], returned["payload"]["outcome"]) == ({"x": 1}, {"x": 1})


async def test_reasoning_verbosity_off_records_no_reasoning(host):
    run = await host.run("conformance-agent-reasoning", configurable={"reasoningVerbosity": "off"})
    assert "agent.reasoned" not in await host.types(run)


async def test_agent_metadata(host):
    run = await host.run("conformance-agent-identity")
    assert (await host.workflows.snapshot(run))["agent"]["agentId"] == "core.conformance.identity-agent"


async def test_agent_confidence_escalation(host):
    run = await host.run("conformance-agent-low-confidence")
    (suspended,) = await host.events(run, "node.suspended")
    payload = suspended["payload"]
    assert (payload["reason"], payload["kind"]) == ("low-confidence", "low-confidence")
    assert payload["observed"] < payload["threshold"]
    assert isinstance(payload["agentId"], str)
    run = await host.answer(run, "low-conf-decider", {"action": "accept"})
    assert run.status == "completed"
    assert len(await host.events(run, "agent.decided")) == 2
    lower = await host.run("conformance-agent-low-confidence", configurable={"escalationThreshold": 0.4})
    assert lower.status == "completed"
