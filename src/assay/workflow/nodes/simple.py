"""Simple nodes: noop, identity, delay, fail, and the approval gate (openwop-contract §11)."""

from typing import Any

from assay.workflow.definition import Node
from assay.workflow.effects import Delay
from assay.workflow.execution_state import Execution, RunStopped, Steps
from assay.workflow.inputs import inputs_of
from assay.workflow.interrupts import approval, require_accepted
from assay.workflow.turns import USABLE, invocation, invoke_agent

LONGEST = 60_000  # milliseconds


def noop(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    return {}


def identity(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    """
    The inputs of the node. If the node binds the channel of an agent, the agent is invoked with them (RFC 0082 §B).
    """
    inputs = inputs_of(execution, node)
    if node.channel is not None:
        turn = yield from invoke_agent(execution, node.id, node.agent_id or "", inputs, channel=node.channel)
        with invocation(execution, node.id, turn):
            pass
        if turn.outcome not in USABLE:
            raise RunStopped("agent_failed", f"the agent's turn ended as {turn.outcome}", node=node.id)
    return inputs


def delay(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    ms = inputs_of(execution, node).get("delayMs", node.config.get("delayMs", 0))
    if not isinstance(ms, int | float) or isinstance(ms, bool) or not 0 <= ms <= LONGEST:
        raise RunStopped("validation_error", f"delayMs: expected a number from 0 to {LONGEST}", node=node.id)
    yield from execution.perform(Delay(node=node.id, ms=ms))
    return {}


def fail(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    raise RunStopped("node_failed", "this node always fails", node=node.id)


def approval_gate(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    answer = yield from approval(
        execution,
        node.id,
        node.config.get("title", node.name),
        node.id,
        actions=tuple(node.config.get("actions", ("accept", "reject"))),
        seconds=node.config.get("expiresSeconds"),
    )
    require_accepted(execution, answer, "the gate", node.id)
    return {"action": answer.action}
