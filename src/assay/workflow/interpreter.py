"""Interprets a workflow: executes its nodes along the edges, to the end (openwop-contract §11, §13.2)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from assay.ports import RunStatus
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import RunCompleted, RunFailed
from assay.protocol.orchestration import NodeCompleted, NodeFailed, NodeStarted
from assay.workflow.nodes import NODES, NodeType
from assay.workflow.state.definition import AFTER_A_DECISION, Node, starts_and_backs
from assay.workflow.state.effects import Begin
from assay.workflow.state.execution_state import Execution, ExecutionLimits, RunStopped, Steps


class ExecutionEnvironment(NamedTuple):
    """What this host interprets runs with: how far a run may go, and the node types by their id."""

    limits: ExecutionLimits = ExecutionLimits()
    nodes: Mapping[str, NodeType] = NODES


class RunEnd(NamedTuple):
    """How a run ended, and its last event."""

    status: RunStatus
    last: PendingEvent
    error: dict[str, Any] | None = None


def interpret(execution: Execution, nodes: Mapping[str, NodeType]) -> Steps[RunEnd]:
    """The whole run, as a generator of effects. It is deterministic: the same results give the same events."""
    try:
        yield from execution.perform(Begin())
        yield from _visit_nodes(execution, nodes)
    except RunStopped as stop:
        return failed(execution, stop)
    execution.current = None
    # the outputs of a workflow are its variables
    execution.emit(
        "run.completed",
        RunCompleted(duration_ms=took(execution)),
        cause=execution.decided_id or None,
        outputs=dict(execution.variables),
    )
    return RunEnd("completed", execution.pending_events.pop())


def failed(execution: Execution, stop: RunStopped) -> RunEnd:
    node = stop.node or execution.current
    if node is not None:
        execution.emit("node.failed", NodeFailed(node_id=node, error=stop.error), node=node)
    why = RunFailed(error=stop.error, failed_node_id=node or UNSET, duration_ms=took(execution))
    execution.emit("run.failed", why, cause=execution.decided_id or None)
    error: dict[str, Any] = {"code": stop.error.code, "message": stop.error.message}
    if stop.error.details is not UNSET:
        error["details"] = stop.error.details
    return RunEnd("failed", execution.pending_events.pop(), error)


def took(execution: Execution) -> int:
    return round((execution.now - execution.started_at - execution.waited).total_seconds() * 1000)


def _visit_nodes(execution: Execution, nodes: Mapping[str, NodeType]) -> Steps[None]:
    workflow = execution.workflow
    first, backs = starts_and_backs(workflow)
    forward = [edge for edge in workflow.edges if edge.id not in backs]
    targets = {edge.targetNodeId for edge in forward}
    ready = [node for node in workflow.nodes if node.id == first or node.id not in targets]
    fired: set[str] = set()
    while ready and not execution.terminated:
        node = ready.pop(0)
        fired -= {edge.id for edge in forward if edge.targetNodeId == node.id}
        yield from _execute(execution, node, nodes[node.typeId])
        for edge in workflow.edges:
            if edge.sourceNodeId != node.id:
                continue
            fired.add(edge.id)
            wanted = {one.id for one in forward if one.targetNodeId == edge.targetNodeId}
            target = workflow.node(edge.targetNodeId)
            if target is not None and (edge.id in backs or wanted <= fired):
                ready.append(target)


def _execute(execution: Execution, node: Node, execute: NodeType) -> Steps[None]:
    execution.current = node.id
    execution.enter(node)
    if node.agent is not UNSET:
        execution.agent = node.agent
    execution.emit("node.started", NodeStarted(node_id=node.id, type_id=node.typeId), node=node.id)
    outputs = yield from execute(execution, node)
    execution.outputs[node.id] = outputs
    cause = execution.decided_id if node.typeId in AFTER_A_DECISION else None
    shown = {"outputs": outputs} if outputs else {}
    execution.emit("node.completed", NodeCompleted(node_id=node.id), node=node.id, cause=cause, **shown)
    execution.current = None
