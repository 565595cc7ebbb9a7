"""core.orchestrator.supervisor: makes one decision per execution (openwop-contract §13.2)."""

from typing import Any

from assay.workflow.state.decisions import GAVE_UP, REACHED, decide, read_decision
from assay.workflow.state.definition import Node
from assay.workflow.state.execution_state import Execution, RunStopped, Steps, TurnOutcome
from assay.workflow.state.interrupts import LowConfidence, approval, require_accepted
from assay.workflow.state.turns import USABLE, invocation, invoke_agent
from assay.workflow.state.verdict_gating import VERDICT, VERIFIED, is_below

HELD = 0.0  # the confidence of a mock plan at the turn that must wait for a person
RULE = "local.assay.supervisor"  # the agent id in events where a rule decides


def supervisor(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    if "actor" not in node.config and execution.iteration >= execution.iterations[0]:
        execution.breach_loop(node.id)
    agent = node.agent_id or (RULE if "actor" in node.config else f"supervisor-{node.id}")
    if node.config.get("supervisor"):
        agent = node.config["supervisor"]
        decision, confidence, declared = yield from _agent_decision(execution, node, agent)
    else:
        decision, confidence = _planned_decision(execution, node)
        declared = tuple(one["key"] for one in decision.get("successCriteria", ()))
    if is_below(confidence, execution.threshold):
        decision = yield from _approve(execution, node, agent, decision, confidence or 0.0)
    if "actor" in node.config:
        _check_worker(execution, node, decision)
    decide(execution, node.id, agent, decision, declared)
    return {"kind": decision["kind"]}


def _planned_decision(execution: Execution, node: Node) -> tuple[dict[str, Any], float | None]:
    """By the number of decisions so far, so that a replay gives the same."""
    config, turn = node.config, execution.iteration
    if "actor" in config:
        return _rule_decision(execution.last_turn, config), None
    if "mockPendingDecision" in config and turn == 0:
        return _read(config["mockPendingDecision"], node), config.get("mockConfidence")
    plan = config.get("mockDispatchPlan", config.get("mockDecisions"))
    if plan is None and "mockPendingDecision" not in config:
        plan = [
            {"kind": "next-worker", "nextWorkerIds": ["conformance-noop"]},
            {"kind": "terminate", "reason": REACHED},
        ]
    if plan is not None and turn < len(plan):
        return _read(plan[turn], node), HELD if config.get("mockHoldAtTurn") == turn + 1 else None
    return {"kind": "terminate", "reason": "plan-exhausted"}, None


def _rule_decision(last: TurnOutcome | None, config: dict[str, Any]) -> dict[str, Any]:
    """The rule of a verifier loop without a supervisor: go on until a result is committed or the loop gives up."""
    if last is None or not (last.committed or last.gave_up):
        return {"kind": "next-worker", "nextWorkerIds": [config["actor"]]}
    decision: dict[str, Any] = {"kind": "terminate", "reason": REACHED if last.committed else GAVE_UP}
    if last.verdict is not None:
        keys = config.get("criteria") or [VERIFIED]
        passed = last.verdict == "pass"
        decision["successCriteria"] = [{"key": key, "met": last.met.get(key, passed)} for key in keys]
        if not passed and all(one["met"] for one in decision["successCriteria"]):
            decision["successCriteria"].append({"key": VERDICT, "met": False})
    return decision


def _check_worker(execution: Execution, node: Node, decision: dict[str, Any]) -> None:
    """In a verifier loop: which worker may be next, and how often. Ending the run is always possible."""
    if decision["kind"] == "next-worker" and decision["nextWorkerIds"] != [node.config["actor"]]:
        what = f"the only worker here is {node.config['actor']}"
        execution.record_failure(
            "supervisor", node.config["supervisor"], f"{what}; it named {decision['nextWorkerIds']}"
        )
        raise RunStopped("unknown_child_workflow", what, node=node.id)
    if decision["kind"] != "terminate" and execution.iteration >= execution.iterations[0]:
        execution.breach_loop(node.id)


def _agent_decision(
    execution: Execution, node: Node, agent: str
) -> Steps[tuple[dict[str, Any], float | None, tuple[str, ...]]]:
    """An agent decides. Its confidence is not part of the decision (CP-1)."""
    last = execution.last_turn
    task = {
        "task": execution.variables.get("task"),
        "turn": execution.iteration + 1,
        "maxTurns": execution.iterations[0],
        "workers": [node.config["actor"]] if "actor" in node.config else [],
        "criteria": node.config.get("criteria", []),
        "last": None
        if last is None
        else {"verdict": last.verdict, "committed": last.committed, "notes": list(last.notes)},
        "answer": execution.answer,
    }
    turn = yield from invoke_agent(execution, node.id, agent, task, "supervisor")
    with invocation(execution, node.id, turn):
        pass
    if turn.outcome not in USABLE:
        raise RunStopped("supervisor_failed", f"the supervisor ended as {turn.outcome}", node=node.id)
    try:
        return read_decision(turn.result), turn.confidence, turn.criteria
    except ValueError as wrong:
        execution.record_failure("supervisor", agent, f"its answer is not a valid decision: {wrong}")
        raise RunStopped(
            "validation_error", "the supervisor's answer is not a valid decision", node=node.id
        ) from None


def _approve(
    execution: Execution, node: Node, agent: str, decision: dict[str, Any], confidence: float
) -> Steps[dict[str, Any]]:
    """CP-1: a person approves the decision before it is recorded."""
    answer = yield from approval(
        execution,
        node.id,
        "A decision with low confidence",
        node.id,
        about="decision",
        actions=("accept", "edit-accept", "reject"),
        seconds=node.config.get("expiresSeconds"),
        unsure=LowConfidence(agent, execution.threshold, confidence),
        decision=decision,
    )
    require_accepted(execution, answer, "a decision with low confidence", node.id)
    return read_decision(answer.value["decision"]) if answer.action == "edit-accept" else decision


def _read(value: Any, node: Node) -> dict[str, Any]:
    try:
        return read_decision(value)
    except ValueError as wrong:
        raise RunStopped(
            "validation_error", f"the plan has an invalid decision: {wrong}", node=node.id
        ) from None
