"""core.dispatch: carries out the newest decision with child runs (openwop-contract §13.3)."""

from typing import Any

from assay.workflow.state.children import ChildResult, ChildSpec, child_run
from assay.workflow.state.decisions import pending
from assay.workflow.state.definition import Node
from assay.workflow.state.execution_state import Execution, RunStopped, Steps, TurnOutcome
from assay.workflow.state.interrupts import approval, require_accepted
from assay.workflow.state.verdict_gating import combine, next_step


def dispatch(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    settings = node.settings if isinstance(node.settings, dict) else {}
    gating = settings.get("gating", True)
    decision = yield from pending(execution, node.id, gating=gating, seconds=settings.get("expiresSeconds"))
    if decision["kind"] == "ask-user":
        return {"answer": execution.answer}
    if decision["kind"] == "terminate":
        return {}
    workers: list[str] = decision["nextWorkerIds"]
    if len(workers) > 1 and node.config.get("fanOutPolicy") == "reject":
        raise RunStopped(
            "fan_out_unsupported",
            f"fanOutPolicy is reject: expected one worker, got {len(workers)}",
            node=node.id,
        )
    child = ChildResult(run="", status="")
    children: list[ChildResult] = []
    for index, worker in enumerate(workers):
        spec = ChildSpec(
            node=node.id,
            worker=worker,
            key=(execution.iteration, index),
            cause=execution.decided_id,
            inputs=_mapping(node, worker, "perWorkerInputMappings", "inputMapping"),
            outputs=_mapping(node, worker, "perWorkerOutputMappings", "outputMapping"),
            critics=tuple(settings.get("critics", ())),
            criteria=tuple(settings.get("criteria", ())),
            gating=gating,
            attest=settings.get("attest", False),
            approve=settings.get("requireApproval", False),
            expires=settings.get("expiresSeconds"),
        )
        child = yield from child_run(execution, spec)
        if child.verdict is not None:
            children.append(child)
            execution.last_turn = _outcome(children)
    return {"childRunId": child.run, "childStatus": child.status}


def _outcome(children: list[ChildResult]) -> TurnOutcome:
    """The outcome of a turn with several workers: the strictest verdict counts."""
    return TurnOutcome(
        verdict=combine(child.verdict for child in children if child.verdict is not None),
        committed=all(child.merged for child in children),
        notes=tuple(one.notes for child in children for one in child.verdicts if one.notes),
    )


def _mapping(node: Node, worker: str, per_worker: str, default: str) -> dict[str, str]:
    return node.config.get(per_worker, {}).get(worker, node.config.get(default, {}))


# core.subWorkflow: one child run. Its outputs are merged once they are verified and approved (openwop-contract
# §8.3; RFC 0063 `outputAttestation`).


def sub_workflow(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    config = node.config
    attest: dict[str, Any] = config.get("outputAttestation", {})
    started = execution.pending_events[-1].id
    gating = config.get("gating", True)
    limit, _ = execution.iterations
    turn, notes = 0, []
    while True:
        turn += 1
        spec = ChildSpec(
            node=node.id,
            worker=config["workflowId"],
            key=(node.id, execution.executions, turn),
            cause=started,
            kind="core.subWorkflow",
            inputs=config.get("inputMapping", {}),
            values={"notes": notes, "turn": turn} if notes else {},
            outputs=config.get("outputMapping", {}),
            attest=bool(attest.get("checksum", attest)),
            approve=attest.get("requireApproval", False),
            expires=config.get("expiresSeconds"),
            critics=tuple(config.get("critics", ())),
            criteria=tuple(config.get("criteria", ())),
            gating=gating,
        )
        child = yield from child_run(execution, spec)
        if child.status != "completed" or child.gave_up:
            if config.get("onChildFailure", "fail-parent") == "fail-parent":
                how = "gave up" if child.gave_up else f"ended as {child.status}"
                raise RunStopped("child_failed", f"the sub-workflow {how}", node=node.id)
            return {"childRunId": child.run, "childStatus": child.status, "merged": False}
        notes = [one.notes for one in child.verdicts if one.notes]
        match next_step(child.verdict, turn=turn, max_turns=limit, gating=gating):
            case "commit":
                return {"childRunId": child.run, "childStatus": child.status, "merged": child.merged}
            case "breach":
                execution.breach_loop(node.id)
            case "escalate":
                answer = yield from approval(
                    execution,
                    node.id,
                    "The output of a child run that its critic rejects; accept to run it again",
                    child.run,
                    about="retry",
                    seconds=config.get("expiresSeconds"),
                )
                require_accepted(execution, answer, "another run of the sub-workflow", node.id)
                if turn >= limit:
                    execution.breach_loop(node.id)
            case "retry":
                pass
