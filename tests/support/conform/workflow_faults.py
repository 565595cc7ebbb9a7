"""Planted faults of workflows, verdicts, promotions and packs, and the checks that must find each."""

from support.conform.openwop_faults import (
    DEPLOYMENTS,
    PLAYED,
    VERIFY,
    document,
    drop,
    first_wins,
    in_events,
    in_payloads,
    in_snapshots,
    renamed,
    status,
    update,
    when,
    without,
)
from support.conform.proxy import Mutation

PACKS = "/v1/host/assay/packs"
INTERRUPT = r"/v1/runs/[^/]+/interrupts/"
REPORT = r"/v1/host/assay/runs/[^/]+/verification"
COMMITTED = {"status": "completed", "committed": True, "outcome": "completed"}
REFUSED = {"error": "pack", "message": "refused"}


def verdict_of(*verdicts):
    """Change what the verifier loop came to with these critics: the gate opens."""

    def apply(exchange):
        if any(f'"{one}"'.encode() in exchange.sent for one in verdicts):
            exchange.document = exchange.document | COMMITTED

    return when("POST", VERIFY, apply, 200)


def other_state(exchange):
    """A refused promotion happens all the same."""
    exchange.document = [one | {"state": "active"} for one in exchange.document]


def foreign_evidence(exchange):
    if b"0000000000000" not in exchange.sent:
        exchange.document = {
            "error": "eval_gate_unmet",
            "message": "x",
            "details": {"conditions": [{"code": "foreign"}]},
        }


WORKFLOW_FAULTS = [
    Mutation("a failed run has no code", ("openwop.workflows.outcomes",), in_snapshots(lambda one: one.get("error", {}).pop("code", 0), "failure")),
    Mutation("an identity changes its input", ("openwop.workflows.outcomes",), in_snapshots(update(variables={}), "identity")),
    Mutation("a workflow has a late end", ("openwop.workflows.laws",), renamed("run.completed", "run.finished")),
    Mutation("a run is completed while it asks", ("openwop.workflows.laws",), in_snapshots(update(status="completed"), "approval")),
    Mutation("a definition has no edges", ("openwop.workflows.definition",), document("GET", "/v1/workflows/", drop("edges"))),
    Mutation("an unknown workflow is 200", ("openwop.workflows.definition",), status("GET", "/v1/workflows/", 404, 200)),
    Mutation("any action is an answer", ("openwop.workflows.approval",), status("POST", INTERRUPT, 400, 200)),
    Mutation("a node that does not ask takes an answer", ("openwop.workflows.approval",), status("POST", INTERRUPT + "nothing", 404, 200)),
    Mutation("every answer wins", ("openwop.workflows.one-answer",), when("POST", INTERRUPT, first_wins)),
    Mutation("iterations count from 0", ("openwop.workflows.dispatch-loop", "openwop.verify.iterations"), in_payloads("runOrchestrator.decided", lambda one: one.update(iteration=one["iteration"] - 1))),
    Mutation("a hand-off has no cause", ("openwop.workflows.handoff",), in_events("core.workflowChain.event", drop("causationId"))),
    Mutation("a phase is lost", ("openwop.workflows.handoff",), in_payloads("core.workflowChain.event", update(phase="dispatch.began"))),
    Mutation("a low confidence goes on", ("openwop.workflows.escalation",), in_snapshots(update(status="completed"), "confidence-escalation")),
    Mutation("no escalation is recorded", ("openwop.workflows.escalation",), without("core.workflowChain.confidence-escalated")),
    Mutation("a held decision is recorded", ("openwop.workflows.held",), renamed("node.suspended", "runOrchestrator.decided")),
    Mutation("a child has no parent", ("openwop.workflows.ancestry",), document("GET", "/v1/runs/.*ancestry", update(parent=None))),
    Mutation("fail commits", ("openwop.verify.gates",), verdict_of("fail")),
    Mutation("revise commits", ("openwop.verify.gates",), verdict_of("revise")),
    Mutation("pass does not commit", ("openwop.verify.gates",), document("POST", VERIFY, update(status="escalated", committed=False, outcome="withheld"))),
    Mutation("a critic that crashes commits", ("openwop.verify.bad-critics",), verdict_of("crash")),
    Mutation("a critic that answers with garbage commits", ("openwop.verify.bad-critics",), verdict_of("garbage")),
    Mutation("a critic that hangs commits", ("openwop.verify.hanging-critic",), verdict_of("hang")),
    Mutation("a loop goes on behind its limit", ("openwop.verify.bound",), in_payloads("cap.breached", update(limit=1))),
    Mutation("a breached limit has no event", ("openwop.verify.bound",), without("cap.breached")),
    Mutation("a limit of nodes is one higher", ("openwop.workflows.limits",), in_payloads("cap.breached", lambda one: one.update(limit=one["limit"] + 1))),
    Mutation("a workflow is stopped at its last step", ("openwop.workflows.limits",), in_snapshots(update(status="failed"), "cap-breach")),
    Mutation("a limit of 0 is accepted", ("openwop.workflows.limits",), status("POST", "/v1/runs$", 400, 201, sent=b"recursionLimit")),
    Mutation("a pass after the last turn commits", ("openwop.verify.turns",), verdict_of("passAtTurn")),
    Mutation("a pass at the last turn does not commit", ("openwop.verify.turns",), document("POST", VERIFY, update(status="escalated", committed=False, outcome="withheld"), sent=b"passAtTurn")),
    Mutation("a report hides that an agent judged itself", ("openwop.verify.self",), document("GET", REPORT, lambda one: [verdict.pop("selfVerified", 0) for verdict in one["verdicts"]])),
    Mutation("a report says of every agent that it judged itself", ("openwop.verify.self",), document("GET", REPORT, lambda one: [verdict.update(selfVerified=True) for verdict in one["verdicts"]])),
    Mutation("a verdict is about nothing", ("openwop.verify.targets",), in_events("agent.verified", drop("causationId"))),
    Mutation("a verdict has the result", ("openwop.verify.targets",), in_payloads("agent.verified", update(result=1))),
    Mutation("a verdict quotes the task", ("openwop.verify.no-content",), in_payloads("agent.verified", update(target="conform-canary-verdict"))),
    Mutation("giving up is a success", ("openwop.verify.give-up",), document("GET", REPORT, update(goalSatisfied=True))),
    Mutation("a run is completed after the verdict fail", ("openwop.verify.laws",), in_payloads("agent.verified", update(verdict="fail"))),
]  # fmt: skip
PROMOTION_FAULTS = [
    Mutation("a deployment has its manifest", ("openwop.promotion.list",), document("GET", DEPLOYMENTS, lambda found: [one.update(manifest={}) for one in found])),
    Mutation("an unknown agent has deployments", ("openwop.promotion.list",), status("GET", DEPLOYMENTS, 404, 200)),
    Mutation("a step is skipped", ("openwop.promotion.steps",), status("POST", DEPLOYMENTS, 400, 200)),
    Mutation("any evidence will do", ("openwop.promotion.bad-evidence",), status("POST", DEPLOYMENTS, 403, 200)),
    Mutation("a refused promotion happens", ("openwop.promotion.bad-evidence",), when("GET", DEPLOYMENTS, other_state, 200)),
    Mutation("unmet conditions are not named", ("openwop.promotion.bad-evidence",), document("POST", DEPLOYMENTS, drop("details"), 403)),
    Mutation("evidence of another tenant is named", ("openwop.promotion.foreign-evidence",), when("POST", DEPLOYMENTS, foreign_evidence, 403)),
    Mutation("good evidence is refused", ("openwop.promotion.good-evidence",), status("POST", DEPLOYMENTS, 200, 403, REFUSED, b"evalRunId")),
    Mutation("a promotion has no event", ("openwop.promotion.recorded",), without("deployment.promoted")),
    Mutation("a promotion has its manifest", ("openwop.promotion.recorded",), in_payloads("deployment.promoted", update(manifest={}))),
    Mutation("a refused promotion is recorded", ("openwop.promotion.refused",), renamed("authorization.decided", "deployment.promoted")),
    Mutation("a promotion without the scope is allowed", ("openwop.promotion.refused",), document("POST", PLAYED, update(allowed=True), sent=b"unauthorized")),
    Mutation("a channel has two versions", ("openwop.promotion.pinned",), document("POST", PLAYED, update(resolvedAgentVersion="9.9.9"))),
]  # fmt: skip
APPROVAL_FAULTS = [
    Mutation("a refusal does not name its scope", ("openwop.auth.scopes", "openwop.promotion.approval-scope"), document("POST", "/v1/runs", drop("details"), 403)),
    Mutation("a key that may only read creates runs", ("openwop.auth.scopes",), status("POST", "/v1/runs$", 403, 201)),
    Mutation("a promotion that waits has happened", ("openwop.promotion.approval-pending", "openwop.promotion.approval-denied", "openwop.promotion.approval-cancelled"), document("GET", DEPLOYMENTS, lambda found: [one.update(state="active") for one in found])),
    Mutation("a promotion is recorded before its approval", ("openwop.promotion.approval-pending",), renamed("node.suspended", "deployment.promoted")),
    Mutation("a promotion takes any action as an answer", ("openwop.promotion.approval-pending",), status("POST", INTERRUPT, 400, 200)),
    Mutation("an approved promotion has no event", ("openwop.promotion.approval-granted",), without("deployment.promoted")),
    Mutation("an approved promotion does not happen", ("openwop.promotion.approval-granted",), document("GET", DEPLOYMENTS, lambda found: [one.update(state="staged") for one in found])),
    Mutation("a second answer counts", ("openwop.promotion.approval-granted", "openwop.promotion.approval-denied", "openwop.promotion.approval-cancelled", "openwop.promotion.approval-one-winner"), status("POST", INTERRUPT, 409, 200)),
    Mutation("a denied promotion is recorded", ("openwop.promotion.approval-denied",), renamed("approval.rejected", "deployment.promoted")),
    Mutation("a cancelled promotion has no end", ("openwop.promotion.approval-cancelled",), without("run.cancelled")),
    Mutation("two answers are recorded", ("openwop.promotion.approval-one-winner",), renamed("interrupt.resolved", "approval.granted")),
    Mutation("a key that may only read approves", ("openwop.promotion.approval-scope",), status("POST", INTERRUPT, 403, 200)),
]  # fmt: skip
PACK_FAULTS = [
    Mutation("every pack is good", ("openwop.packs.archives", "openwop.packs.manifests", "openwop.packs.requirements", "openwop.packs.signatures"), status("POST", PACKS, 400, 200)),
    Mutation("no pack is good", ("openwop.packs.good", "openwop.packs.requirements"), status("POST", PACKS, 200, 400, REFUSED)),
    Mutation("an agent has its prompt", ("openwop.agents.inventory",), document("GET", "/v1/agents$", lambda one: one["agents"][0].update(prompt="x"))),
    Mutation("agents are not counted", ("openwop.agents.inventory",), document("GET", "/v1/agents$", update(total=0))),
]  # fmt: skip
