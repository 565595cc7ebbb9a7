"""A supervisor's decisions (`orchestrator-decision.schema.json`, openwop-contract §8.5), each recorded first (CO-1)."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.protocol.json_types import is_object
from assay.protocol.orchestration import ConfidenceEscalated, Decision, OrchestratorDecided, SuccessCriterion
from assay.protocol.validation_messages import message_of, path_in
from assay.workflow.state.execution_state import FLOOR, Execution, RunStopped, Steps
from assay.workflow.state.interrupts import approval, clarification, require_accepted
from assay.workflow.state.verdict_gating import closed_decision, configured_keys, is_below

Confidence = Annotated[float, Meta(ge=0, le=1)]
Word = Annotated[str, Meta(min_length=1)]
REACHED, GAVE_UP = "goal-reached", "gave-up"  # reasons of a terminate


class NextWorker(Struct, tag="next-worker", tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    nextWorkerIds: Annotated[list[Annotated[str, Meta(min_length=1, max_length=256)]], Meta(min_length=1)]  # noqa: N815
    confidence: Confidence | UnsetType = UNSET


class AskUser(Struct, tag="ask-user", tag_field="kind", forbid_unknown_fields=True):
    prompt: Word


class CriterionMet(Struct, forbid_unknown_fields=True):
    key: Word
    met: bool


class Terminate(Struct, tag="terminate", tag_field="kind", forbid_unknown_fields=True, omit_defaults=True):
    reason: Word | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    successCriteria: list[CriterionMet] | UnsetType = UNSET  # noqa: N815


DecisionDocument = NextWorker | AskUser | Terminate


def read_decision(value: Any) -> dict[str, Any]:
    """Parse a decision. A ValueError says why it is not valid."""
    try:
        decision = msgspec.convert(value, DecisionDocument)
    except msgspec.ValidationError as wrong:
        place = path_in(wrong).lstrip(".")
        raise ValueError(f"{place}: {message_of(wrong, DecisionDocument)}".removeprefix(": ")) from None
    keys = [one.key for one in getattr(decision, "successCriteria", None) or ()]
    if len(set(keys)) < len(keys):
        raise ValueError("a success criterion is named twice")
    return msgspec.to_builtins(decision)


def decide(
    execution: Execution, node: str, agent: str, decision: dict[str, Any], agent_keys: Collection[str] = ()
) -> None:
    """Record a decision before what it causes, and start a turn. `agent_keys`: the supervisor's own criteria."""
    if execution.supervisor and agent != execution.supervisor:
        what = f"the supervisor of this run is {execution.supervisor}, not {agent}"
        raise RunStopped("validation_error", what, node=node)
    execution.supervisor = agent
    execution.iteration += 1
    decision = closed_decision(decision, configured_keys(execution.workflow), agent_keys)
    rejected = execution.last_turn is not None and execution.last_turn.verdict in ("fail", "revise")
    if decision.get("reason") == REACHED and (rejected or gives_up(decision)):
        decision["reason"] = GAVE_UP
    execution.decision = decision
    decided = OrchestratorDecided(
        agent_id=agent, decision=_without_text(decision), iteration=execution.iteration
    )
    execution.decided_id = execution.emit(
        "runOrchestrator.decided", decided, node=node, **_text("decision", decision)
    )


def pending(
    execution: Execution, node: str, *, gating: bool = False, seconds: float | None = None
) -> Steps[dict[str, Any]]:
    """The decision to carry out. A person approves one of low confidence first, and answers a question here."""
    decision = execution.decision
    if decision is None:
        raise RunStopped("no_pending_decision", "there is no decision to carry out", node=node)
    floor = floor_of(execution)
    if decision["kind"] != "ask-user" and is_below(decision.get("confidence"), floor):
        decision = yield from _escalate(execution, node, decision, floor, seconds)
    if decision["kind"] == "ask-user":
        asked = yield from clarification(
            execution, node, decision["prompt"], cause=execution.decided_id, seconds=seconds
        )
        if asked.expired:
            raise RunStopped("decision_rejected", "no answer came in time", node=node)
        execution.answer = asked.value
    elif decision["kind"] == "terminate":
        _require_verdict(execution, node, decision)
        _may_end(execution, node, decision, gating=gating)
        execution.terminated = True
    return decision


def floor_of(execution: Execution) -> float:
    """The lowest confidence without an approval: the host's, or a workflow's stricter one (openwop-contract §13.6)."""
    own = (node.config.get("floors", {}).get("supervisor", FLOOR) for node in execution.workflow.nodes)
    return max(FLOOR, *own)


def _escalate(
    execution: Execution, node: str, decision: dict[str, Any], min_confidence: float, seconds: float | None
) -> Steps[dict[str, Any]]:
    """A person approves a decision below the floor before its dispatch, or replaces it, which starts a turn."""
    escalated = ConfidenceEscalated(
        confidence=decision["confidence"],
        floor=min_confidence,
        escalation_kind="escalate",
        parent_run_id=execution.origin,
        original_decision=_without_text(decision),
        worker_id=decision.get("nextWorkerIds", [UNSET])[0],
    )
    text = _text("originalDecision", decision)
    cause = execution.decided_id
    execution.emit("core.workflowChain.confidence-escalated", escalated, node=node, cause=cause, **text)
    answer = yield from approval(
        execution,
        node,
        "A decision with low confidence",
        execution.decided_id,
        about="decision",
        actions=("accept", "edit-accept", "reject"),
        seconds=seconds,
        cause=cause,
        decision=decision,
    )
    require_accepted(execution, answer, "a decision below the floor", node)
    if answer.action == "edit-accept":
        decision = read_decision(answer.value["decision"])
        decide(execution, node, execution.supervisor, decision)
    return decision


def gives_up(decision: dict[str, Any]) -> bool:
    """Whether any of its success criteria is not met (openwop-contract §8.5)."""
    return any(not one["met"] for one in decision.get("successCriteria", ()))


def _require_verdict(execution: Execution, node: str, decision: dict[str, Any]) -> None:
    """Where critics are configured, a run cannot end as a success before one has given a verdict on the newest work."""
    spoken = execution.last_turn is not None and execution.last_turn.verdict is not None
    if not spoken and not gives_up(decision) and _has_critics(execution, node):
        what = "the decision ends the run as a success, and no critic has given a verdict"
        raise RunStopped("decision_rejected", what, node=node)


def _has_critics(execution: Execution, node: str) -> bool:
    found = execution.workflow.node(node)
    if found is None:
        return False
    settings = found.settings if is_object(found.settings) else {}
    return bool(found.config.get("critics") or settings.get("critics"))


def _may_end(execution: Execution, node: str, decision: dict[str, Any], *, gating: bool) -> None:
    """Where verdicts gate, a run cannot end as a success after a `fail` or `revise`. It can always give up."""
    last = execution.last_turn
    if gating and last is not None and not last.committed and not gives_up(decision):
        what = f"the decision ends the run as a success, and the last verdict is {last.verdict or 'missing'}"
        raise RunStopped("decision_rejected", what, node=node, verdict=last.verdict)


def _without_text(decision: dict[str, Any]) -> Decision:
    kind: Literal["next-worker", "ask-user", "terminate"] = decision["kind"]
    criteria = decision.get("successCriteria", UNSET)
    return Decision(
        kind=kind,
        next_worker_ids=tuple(decision["nextWorkerIds"]) if kind == "next-worker" else UNSET,
        confidence=decision.get("confidence", UNSET),
        success_criteria=criteria
        if criteria is UNSET
        else tuple(SuccessCriterion(**one) for one in criteria),
    )


def _text(name: str, decision: dict[str, Any]) -> dict[str, Any]:
    return {name: decision} if "prompt" in decision or "reason" in decision else {}
