"""
core.subWorkflow: one child run. Its outputs are merged once they are verified and approved (openwop-contract §8.3; RFC
0063 `outputAttestation`).
"""

from typing import Any

from assay.workflow.children import ChildSpec, child_run
from assay.workflow.definition import Node
from assay.workflow.execution_state import Execution, RunStopped, Steps
from assay.workflow.gating import next_step
from assay.workflow.interrupts import approval, require_accepted


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
