"""core.conformance.mock-agent: emits the events that its config lists (openwop-contract §13.4)."""

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
from assay.workflow.state.definition import Node
from assay.workflow.state.effects import stable_id
from assay.workflow.state.execution_state import Execution, Steps
from assay.workflow.state.gating import is_below
from assay.workflow.state.interrupts import LowConfidence, approval, require_accepted

VERBOSITIES = ("summary", "full", "off")


def mock_agent(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    agent = node.agent_id or f"host:mock-agent:{node.id}"
    _reason(execution, node, agent)
    for call in node.config.get("mockToolCalls", ()):
        _call(execution, node, agent, call)
    if handoff := node.config.get("mockHandoff"):
        handed = AgentHandoff(from_agent_id=agent, to_agent_id=handoff["toAgentId"])
        execution.emit("agent.handoff", handed, node=node.id, reason=handoff.get("reason", UNSET))
    said: dict[str, Any] | None = node.config.get("mockDecision")
    if said is None and "mockConfidence" in node.config:
        said = {"decision": {}, "confidence": node.config["mockConfidence"]}
    if said is not None:
        yield from _decide(execution, node, agent, said)
    return {}


def _reason(execution: Execution, node: Node, agent: str) -> None:
    verbosity = execution.configurable.get("reasoningVerbosity", "summary")
    said = node.config.get("mockReasoning")
    if not said or verbosity == "off" or verbosity not in VERBOSITIES:
        return
    text = "" if said is True else "".join(said.get("streamChunks", ())) or said["summary"]
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
    told = {"error": call["error"]} if "error" in call else {"outcome": call["result"]}
    execution.emit("agent.toolReturned", returned, node=node.id, cause=cause, **told)


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
