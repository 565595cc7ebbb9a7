"""assay.agent: calls one agent once. Its answer is the node's output."""

from typing import Any

from assay.protocol.agents import ReasoningStep
from assay.protocol.events import AgentReasoned
from assay.workflow.nodes.simple import inputs_of
from assay.workflow.state.definition import Node
from assay.workflow.state.execution_state import Execution, RunStopped, Steps
from assay.workflow.state.interrupts import LowConfidence, approval, require_accepted
from assay.workflow.state.turns import (
    USABLE,
    AgentTurn,
    emit_decision,
    escalate_if_unsure,
    invocation,
    invoke_agent,
)
from assay.workflow.state.verdict_gating import is_below


def agent(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    inputs = inputs_of(execution, node)
    task = inputs.get("task", execution.variables.get("task"))
    done = yield from invoke_agent(
        execution,
        node.id,
        node.agent_id or "",
        task,
        memory=node.config.get("memoryRef"),
        channel=node.channel,
    )
    own = done.threshold if done.threshold is not None else execution.threshold
    threshold = execution.configurable.get("escalationThreshold", own)
    done = escalate_if_unsure(done, threshold)
    cause = ""
    with invocation(execution, node.id, done):
        if done.outcome in USABLE:
            if node.config.get("summary"):
                _emit_summary(execution, node, done)
            cause = emit_decision(execution, node.id, done)
    if not cause:
        raise RunStopped("agent_failed", f"the agent's turn ended as {done.outcome}", node=node.id)
    if done.outcome == "escalated":
        sure = done.confidence
        unsure = (
            LowConfidence(done.agent, threshold, sure)
            if sure is not None and is_below(sure, threshold)
            else None
        )
        answer = yield from approval(
            execution, node.id, "A result with low confidence", cause, about="result", unsure=unsure, cause=cause,
            result=done.result,
        )  # fmt: skip
        require_accepted(execution, answer, "a result below the threshold", node.id)
    variable = node.config.get("outputVariable", "result")
    execution.set(variable, done.result, node=node.id)
    return {"result": done.result}


def _emit_summary(execution: Execution, node: Node, turn: AgentTurn) -> None:
    """Emit a host-written summary if the agent gave no reasoning."""
    if any(isinstance(step, ReasoningStep) for step in turn.steps):
        return
    summary = f"called once with {turn.tools} tools; it gave no reasoning"
    execution.emit(
        "agent.reasoned",
        AgentReasoned(agent_id=turn.agent, verbosity="summary"),
        node=node.id,
        reasoning=summary,
    )
