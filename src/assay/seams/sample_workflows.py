"""core.conformance.mock-agent: emits the events that its config lists (openwop-contract §13.4)."""

from itertools import pairwise
from typing import Any

from msgspec import UNSET

from assay.protocol.events import (
    AgentDecided,
    AgentHandoff,
    AgentReasoned,
    AgentToolCalled,
    AgentToolReturned,
)
from assay.workflow.nodes import NodeType
from assay.workflow.state.definition import CONFORMANCE, DISPATCH, SUPERVISOR, Node, Workflow, read
from assay.workflow.state.effects import stable_id
from assay.workflow.state.execution_state import Execution, Steps
from assay.workflow.state.interrupts import LowConfidence, approval, require_accepted
from assay.workflow.state.verdict_gating import is_below

VERBOSITIES = ("summary", "full", "off")


def mock_agent(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    agent = node.agent_id or f"host:mock-agent:{node.id}"
    _reason(execution, node, agent)
    for call in node.config.get("mockToolCalls", ()):
        _call(execution, node, agent, call)
    if handoff := node.config.get("mockHandoff"):
        handed = AgentHandoff(from_agent_id=agent, to_agent_id=handoff["toAgentId"])
        execution.emit("agent.handoff", handed, node=node.id, reason=handoff.get("reason", UNSET))
    decision: dict[str, Any] | None = node.config.get("mockDecision")
    if decision is None and "mockConfidence" in node.config:
        decision = {"decision": {}, "confidence": node.config["mockConfidence"]}
    if decision is not None:
        yield from _decide(execution, node, agent, decision)
    return {}


def _reason(execution: Execution, node: Node, agent: str) -> None:
    verbosity = execution.configurable.get("reasoningVerbosity", "summary")
    reasoning = node.config.get("mockReasoning")
    if not reasoning or verbosity == "off" or verbosity not in VERBOSITIES:
        return
    text = "" if reasoning is True else "".join(reasoning.get("streamChunks", ())) or reasoning["summary"]
    reasoned = AgentReasoned(agent_id=agent, verbosity=verbosity)
    execution.emit("agent.reasoned", reasoned, node=node.id, reasoning=text)


def _call(execution: Execution, node: Node, agent: str, call: dict[str, Any]) -> None:
    id = stable_id("call", execution.origin, execution.event_count)
    called = AgentToolCalled(agent_id=agent, tool_name=call["toolId"], call_id=id)
    cause = execution.emit("agent.toolCalled", called, node=node.id, inputs=call.get("arguments", {}))
    returned = AgentToolReturned(
        agent_id=agent,
        tool_name=call["toolId"],
        call_id=id,
        status="error" if "error" in call else "ok",
        duration_ms=call.get("durationMs", UNSET),
    )
    result = {"error": call["error"]} if "error" in call else {"outcome": call["result"]}
    execution.emit("agent.toolReturned", returned, node=node.id, cause=cause, **result)


def _decide(execution: Execution, node: Node, agent: str, decision: dict[str, Any]) -> Steps[None]:
    """Emit the decision. If its confidence is too low, a person approves it and it is emitted again."""
    confidence = decision.get("confidence")
    decided = AgentDecided(agent_id=agent, confidence=UNSET if confidence is None else confidence)
    cause = execution.emit("agent.decided", decided, node=node.id, decision=decision["decision"])
    if confidence is not None and is_below(confidence, execution.threshold):
        unsure = LowConfidence(agent, execution.threshold, confidence)
        answer = yield from approval(
            execution, node.id, "A decision with low confidence", cause, unsure=unsure, cause=cause
        )
        require_accepted(execution, answer, "a decision below the threshold", node.id)
        execution.emit("agent.decided", decided, node=node.id, decision=decision["decision"])


SEAM_NODES: dict[str, NodeType] = {"core.conformance.mock-agent": mock_agent}


# The sample workflows a conformance suite starts by name (openwop-contract §11, §13.11), seeded with
# OPENWOP_CONFORMANCE_SEED=true.

D = {"askUserRouting": "auto", "workerDispatchModel": "child-run", "fanOutPolicy": "sequential"}
DONE = {"kind": "terminate", "reason": "goal-reached"}
ENVELOPE = {
    "provider": "mock",
    "model": "mock-mini",
    "outputSchema": {"type": "object", "required": ["valid"], "properties": {"valid": {"type": "boolean"}}},
}
MESSAGES = {"messages": {"type": "static", "value": [{"role": "user", "content": "Emit a valid envelope."}]}}


def _node(id: str, type: str, config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "typeId": type,
        "name": id.replace("-", " "),
        "position": {"x": 0, "y": 0},
        "config": config or {},
        "inputs": {},
        **more,
    }


def _next(*workers: str, **more: Any) -> dict[str, Any]:
    return {"kind": "next-worker", "nextWorkerIds": [CONFORMANCE + worker for worker in workers], **more}


def _loop(
    config: dict[str, Any], dispatch: dict[str, Any] = D, agent: str | None = None, first: str = "supervisor"
) -> dict[str, Any]:
    """A supervisor node, a dispatch node, and an edge back."""
    pin = {"agent": {"agentId": f"core.conformance.{agent}", "modelClass": "reasoning"}} if agent else {}
    return {
        "nodes": [_node(first, SUPERVISOR, config, **pin), _node("dispatch", DISPATCH, dispatch)],
        "edges": [
            {"id": "go", "sourceNodeId": first, "targetNodeId": "dispatch"},
            {"id": "back", "sourceNodeId": "dispatch", "targetNodeId": first},
        ],
    }


def _chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodes": list(nodes),
        "edges": [
            {"id": f"e{at}", "sourceNodeId": one["id"], "targetNodeId": two["id"]}
            for at, (one, two) in enumerate(pairwise(nodes), 1)
        ],
    }


def _variable(name: str, type: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def _wait(default: int) -> dict[str, Any]:
    inputs = {"delayMs": {"type": "variable", "variableName": "delayMs"}}
    return _chain(_node("wait", "core.delay", inputs=inputs)) | {
        "variables": [_variable("delayMs", "number", defaultValue=default)]
    }


ECHO = {"payload": {"type": "variable", "variableName": "payload"}}
REASONER = {
    "mockReasoning": {"summary": "Took the question apart, asked a tool, handed it on.", "tokenCount": 24},
    "mockToolCalls": [
        {"toolId": "openwop.echo:echo", "arguments": {"x": 1}, "result": {"x": 1}, "durationMs": 1}
    ],
    "mockHandoff": {"toAgentId": "core.conformance.handoff-target", "reason": "demo-handoff"},
    "mockDecision": {"decision": {"next": "done"}, "confidence": 1},
}


def _pinned_agent(agent: str, **more: Any) -> dict[str, Any]:
    return {"agent": {"agentId": f"core.conformance.{agent}", **more}}


CHILD = "dispatch-cross-worker-handoff-child-"
SAMPLES: dict[str, dict[str, Any]] = {
    "noop": _chain(_node("noop", "core.noop")),
    "identity": _chain(_node("echo", "core.identity", inputs=ECHO))
    | {"variables": [_variable("payload", "object", required=True)]},
    "delay": _wait(1000),
    "failure": _chain(_node("fail", "core.fail")),
    "idempotent": _chain(_node("noop", "core.noop")) | {"variables": [_variable("nonce")]},
    "cancellable": _wait(30_000),
    "multi-node": _chain(_node("a", "core.noop"), _node("b", "core.noop"), _node("c", "core.noop")),
    "approval": _chain(
        _node(
            "gate", "core.approvalGate", {"title": "Conformance approval", "actions": ["accept", "reject"]}
        )
    ),
    "cap-breach": _chain(*(_node(f"n{at}", "core.noop") for at in range(1, 7))),
    "run-duration-breach": _wait(30_000),
    "subworkflow-child": _chain(_node("child-n1", "core.noop"), _node("child-n2", "core.noop"))
    | {"variables": [_variable("childResult", defaultValue="child-completed")]},
    "subworkflow-parent": _chain(
        _node("parent-start", "core.noop"),
        _node(
            "subwf-call",
            "core.subWorkflow",
            {
                "workflowId": CONFORMANCE + "subworkflow-child",
                "waitForCompletion": True,
                "onChildFailure": "fail-parent",
                "outputMapping": {"childOutcome": "childResult"},
            },
        ),
        _node("parent-end", "core.noop"),
    ),
    "dispatch-loop": _loop({}, first="orchestrator"),
    "multi-agent-handoff": _loop(
        {"mockDispatchPlan": [_next("multi-agent-handoff-child"), DONE]},
        D | {"outputMapping": {"parentResult": "childOutcome"}},
    )
    | {"variables": [_variable("parentResult", defaultValue="")]},
    "multi-agent-handoff-child": _chain(_node("noop", "core.identity"))
    | {"variables": [_variable("childOutcome", defaultValue="handoff-complete")]},
    "multi-agent-confidence-escalation": _loop(
        {"mockDispatchPlan": [_next("multi-agent-handoff-child", confidence=0.3)]}
    ),
    "dispatch-input-mapping-child": _chain(_node("noop", "core.identity")),
    "dispatch-input-mapping": _loop(
        {"mockDispatchPlan": [_next("dispatch-input-mapping-child"), DONE]},
        D | {"inputMapping": {"childGreeting": "parentName"}},
    )
    | {"variables": [_variable("parentName", defaultValue="Alice")]},
    "dispatch-input-mapping-no-default": _loop(
        {"mockDispatchPlan": [_next("dispatch-input-mapping-child"), DONE]},
        D | {"inputMapping": {"childGreeting": "parentName"}},
    )
    | {"variables": [_variable("parentName")]},
    "dispatch-output-mapping-child": _chain(_node("noop", "core.identity"))
    | {"variables": [_variable("childOutcome", defaultValue="done")]},
    "dispatch-output-mapping": _loop(
        {"mockDispatchPlan": [_next("dispatch-output-mapping-child"), DONE]},
        D | {"outputMapping": {"parentResult": "childOutcome"}},
    )
    | {"variables": [_variable("parentResult", defaultValue="")]},
    CHILD + "a": _chain(_node("noop", "core.identity"))
    | {"variables": [_variable("output", defaultValue="hello")]},
    CHILD + "b": _chain(_node("noop", "core.identity")),
    "dispatch-cross-worker-handoff": _loop(
        {"mockDispatchPlan": [_next(CHILD + "a", CHILD + "b"), DONE]},
        D
        | {
            "perWorkerOutputMappings": {CONFORMANCE + CHILD + "a": {"sharedVar": "output"}},
            "perWorkerInputMappings": {CONFORMANCE + CHILD + "b": {"input": "sharedVar"}},
        },
    )
    | {"variables": [_variable("sharedVar", defaultValue="")]},
    "orchestrator-dispatch": _loop({"mockDecisions": [_next("noop"), DONE]}, agent="supervisor"),
    "orchestrator-terminate": _loop(
        {"mockDecisions": [DONE]}, {"fanOutPolicy": "sequential"}, agent="terminate-supervisor"
    ),
    "orchestrator-low-confidence": _loop(
        {"mockConfidence": 0.5, "mockPendingDecision": _next("noop")}, {}, agent="low-conf-supervisor"
    ),
    "agent-reasoning": _chain(
        _node(
            "reasoner", "core.conformance.mock-agent", REASONER, **_pinned_agent("reasoning-agent", modelClass="reasoning")
        )
    ),
    "agent-low-confidence": _chain(
        _node(
            "low-conf-decider",
            "core.conformance.mock-agent",
            {"mockDecision": {"decision": {"kind": "stub-low-conf"}, "confidence": 0.5}},
            **_pinned_agent("low-conf-decider", modelClass="reasoning"),
        )
    ),
    "agent-identity": _chain(_node("echo", "core.identity", **_pinned_agent("identity-agent", modelClass="chat"))),
    "agent-channel-dispatch": _chain(_node("resolve", "core.identity", **_pinned_agent("channel-agent", channel="stable"))),
    "phase4-replay-divergence": _chain(
        _node("structured-call", "core.ai.structuredOutput", ENVELOPE, inputs=MESSAGES)
    ),
    "phase4-nondet-tool": _chain(
        _node("nondet-tool", "core.noop", {"nondeterministic": True, "phase4Probe": True}),
        _node("structured-call", "core.ai.structuredOutput", ENVELOPE, inputs=MESSAGES),
    ),
}  # fmt: skip


def samples() -> dict[str, Workflow]:
    """All sample workflows, by id."""
    return {workflow.id: workflow for workflow in map(_build_workflow, SAMPLES.items())}


def fixtures(*, enabled: bool) -> list[str]:
    """The ids that discovery lists (openwop-contract §1.1): those that can be started."""
    return sorted(samples()) if enabled else []


def _build_workflow(row: tuple[str, dict[str, Any]]) -> Workflow:
    name, special = row
    return read(
        {
            "id": CONFORMANCE + name,
            "name": f"Conformance: {name.replace('-', ' ')}",
            "version": "1.0",
            "edges": [],
            "triggers": [{"id": "manual", "type": "manual", "enabled": True}],
            "variables": [],
            "metadata": {"tags": ["conformance"]},
            "settings": {"timeout": 60_000},
            **special,
        }
    )
