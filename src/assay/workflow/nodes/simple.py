"""Nodes that need nobody: noop, identity, delay, fail; and the gate that needs a person (contract §11)."""

from typing import Any

from assay.workflow.definition import Node
from assay.workflow.effects import Delay
from assay.workflow.execution import Execution, RunStopped, Steps
from assay.workflow.inputs import inputs_of
from assay.workflow.interrupts import accepted, approval

LONGEST = 60_000  # milliseconds


def noop(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    return {}


def identity(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    return inputs_of(flow, node)


def delay(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    ms = inputs_of(flow, node).get("delayMs", node.config.get("delayMs", 0))
    if not isinstance(ms, int | float) or isinstance(ms, bool) or not 0 <= ms <= LONGEST:
        raise RunStopped("validation_error", f"delayMs: expected a number from 0 to {LONGEST}", node=node.id)
    yield from flow.do(Delay(node=node.id, ms=ms))
    return {}


def fail(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    yield from ()
    raise RunStopped("node_failed", "this node fails, which is all it is for", node=node.id)


def approval_gate(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    answer = yield from approval(
        flow,
        node.id,
        node.config.get("title", node.name),
        node.id,
        actions=tuple(node.config.get("actions", ("accept", "reject"))),
        seconds=node.config.get("expiresSeconds"),
    )
    accepted(flow, answer, "the gate", node.id)
    return {"action": answer.action}
