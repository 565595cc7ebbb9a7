"""The standard node types, one line each."""

from collections.abc import Callable
from typing import Any

from assay.workflow.nodes.agent import agent
from assay.workflow.nodes.child_runs import dispatch, sub_workflow
from assay.workflow.nodes.simple import approval_gate, delay, fail, identity, noop, structured_output
from assay.workflow.nodes.supervisor import supervisor
from assay.workflow.nodes.turn import turn
from assay.workflow.state.definition import DISPATCH, SUPERVISOR, TURN, Node
from assay.workflow.state.execution_state import Execution, Steps

NodeType = Callable[[Execution, Node], Steps[dict[str, Any]]]
NODES: dict[str, NodeType] = {
    "core.noop": noop,
    "core.identity": identity,
    "core.delay": delay,
    "core.fail": fail,
    "core.approvalGate": approval_gate,
    "core.ai.structuredOutput": structured_output,
    "core.subWorkflow": sub_workflow,
    SUPERVISOR: supervisor,
    DISPATCH: dispatch,
    "assay.agent": agent,
    TURN: turn,
}
