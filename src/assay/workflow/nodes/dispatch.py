"""core.dispatch: carries out the newest decision with child runs (openwop-contract §13.3)."""

from typing import Any

from assay.workflow.children import ChildResult, ChildSpec, child_run
from assay.workflow.decisions import pending
from assay.workflow.definition import Node
from assay.workflow.execution_state import Execution, RunStopped, Steps, TurnOutcome
from assay.workflow.gating import combine


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
