"""core.subWorkflow: one child run whose output is taken only when it may be (contract §8.3; RFC 0063 `outputAttestation`)."""

from typing import Any

from assay.workflow.children import ChildSpec, child_run
from assay.workflow.definition import Node
from assay.workflow.execution import Execution, RunStopped, Steps
from assay.workflow.gating import after
from assay.workflow.interrupts import accepted, approval


def sub_workflow(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    config = node.config
    attest: dict[str, Any] = config.get("outputAttestation", {})
    started = flow.facts[-1].id
    gating = config.get("gating", True)
    limit, _ = flow.iterations
    turn, notes = 0, []
    while True:
        turn += 1
        hand = ChildSpec(
            node=node.id,
            worker=config["workflowId"],
            key=(node.id, flow.executions, turn),
            cause=started,
            kind="core.subWorkflow",
            inputs=config.get("inputMapping", {}),
            given={"notes": notes, "turn": turn} if notes else {},
            outputs=config.get("outputMapping", {}),
            attest=bool(attest.get("checksum", attest)),
            approve=attest.get("requireApproval", False),
            expires=config.get("expiresSeconds"),
            critics=tuple(config.get("critics", ())),
            criteria=tuple(config.get("criteria", ())),
            gating=gating,
        )
        child = yield from child_run(flow, hand)
        if child.status != "completed" or child.gave_up:
            if config.get("onChildFailure", "fail-parent") == "fail-parent":
                how = "gave up" if child.gave_up else f"ended as {child.status}"
                raise RunStopped("child_failed", f"the sub-workflow {how}", node=node.id)
            return {"childRunId": child.run, "childStatus": child.status, "merged": False}
        notes = [one.notes for one in child.judged if one.notes]
        match after(child.verdict, turn=turn, max_turns=limit, gating=gating):
            case "commit":
                return {"childRunId": child.run, "childStatus": child.status, "merged": child.merged}
            case "breach":
                flow.breach_loop(node.id)
            case "escalate":
                answer = yield from approval(
                    flow,
                    node.id,
                    "A sub-run's output that its critic rejects; accept to run it again",
                    child.run,
                    about="retry",
                    seconds=config.get("expiresSeconds"),
                )
                accepted(flow, answer, "another run of the sub-workflow", node.id)
                if turn >= limit:
                    flow.breach_loop(node.id)
            case "retry":
                pass
