"""Interrupts: a run waits for a person's answer, then goes on (openwop-contract §8.4, §13.2, §13.3)."""

from datetime import timedelta
from typing import Any, NamedTuple

from msgspec import UNSET

from assay.protocol.json_types import is_object
from assay.protocol.orchestration import (
    ApprovalReceived,
    ClarificationRequested,
    ClarificationResolved,
    InterruptKind,
    InterruptRequested,
    InterruptResolved,
    NodeResumed,
    NodeSuspended,
)
from assay.workflow.state.effects import About, Actions, Wait, stable_id
from assay.workflow.state.execution_state import Execution, RunStopped, Steps

ACCEPTED = ("accept", "edit-accept")


class WaitAnswer(NamedTuple):
    """A person's answer. `expired`: the time ran out without one; then there is no responder."""

    action: str
    value: Any
    responder: str | None
    expired: bool = False

    @property
    def is_accepted(self) -> bool:
        return self.action in ACCEPTED


class LowConfidence(NamedTuple):
    """The agent whose confidence was too low, for the person who decides."""

    agent: str
    threshold: float
    observed: float


def approval(
    execution: Execution,
    node: str,
    title: str,
    artifact: str,
    *,
    about: About = "gate",
    actions: Actions = ("accept", "reject"),
    seconds: float | None = None,
    unsure: LowConfidence | None = None,
    cause: str | None = None,
    **members: Any,
) -> Steps[WaitAnswer]:
    """Suspend until a person, who sees `members`, accepts or rejects. No answer in `seconds` is a rejection."""
    data: dict[str, Any]
    if unsure is None:
        data = {
            "artifactId": artifact,
            "artifactType": "decision",
            "title": title,
            "actions": list(actions),
        }
        data |= {"artifactData": members} if members else {}
    else:
        data = {"agentId": unsure.agent, "threshold": unsure.threshold, "observed": unsure.observed}
        for value in members.values():
            data["decision"] = value  # the schema has one name for whatever is approved
    kind: InterruptKind = "approval" if unsure is None else "low-confidence"
    execution.prompt = members or None
    return (
        yield from _wait(
            execution,
            node,
            kind,
            data,
            about=about,
            actions=actions,
            seconds=seconds,
            unsure=unsure,
            cause=cause,
        )
    )


def clarification(
    execution: Execution, node: str, prompt: str, *, seconds: float | None = None, cause: str | None = None
) -> Steps[WaitAnswer]:
    """Suspend until a person answers a question."""
    data = {"questions": [{"id": "answer", "question": prompt}]}
    execution.prompt = {"question": prompt}
    return (
        yield from _wait(
            execution, node, "clarification", data, about="question", actions=("answer",), seconds=seconds, cause=cause
        )
    )  # fmt: skip


def require_accepted(execution: Execution, answer: WaitAnswer, subject: str, node: str) -> WaitAnswer:
    """Return the answer; raise RunStopped if it was rejected or no answer came in time."""
    if answer.is_accepted:
        return answer
    reason = "no answer came in time" if answer.expired else "rejected"
    raise RunStopped("decision_rejected", f"{subject}: {reason}", node=node)


def _wait(
    execution: Execution,
    node: str,
    kind: InterruptKind,
    data: dict[str, Any],
    *,
    about: About,
    actions: Actions,
    seconds: float | None,
    unsure: LowConfidence | None = None,
    cause: str | None,
) -> Steps[WaitAnswer]:
    interrupt = stable_id("int", execution.origin, execution.event_count)
    if kind == "clarification":
        asked = ClarificationRequested(node_id=node, interrupt_id=interrupt)
        execution.emit("clarification.requested", asked, node=node, cause=cause, questions=data["questions"])
    timeout = UNSET if seconds is None else round(seconds * 1000)
    requested = InterruptRequested(kind=kind, key=node, timeout_ms=timeout)
    execution.emit("interrupt.requested", requested, node=node, cause=cause, data=data)
    suspended = NodeSuspended(
        node_id=node,
        interrupt_id=interrupt,
        kind=kind,
        reason=UNSET if unsure is None else "low-confidence",
        agent_id=UNSET if unsure is None else unsure.agent,
        threshold=UNSET if unsure is None else unsure.threshold,
        observed=UNSET if unsure is None else unsure.observed,
    )
    execution.emit("node.suspended", suspended, node=node, cause=cause)
    since = execution.now
    deadline = None if seconds is None else since + timedelta(seconds=seconds)
    execution.waiting = Wait(
        node=node, kind=kind, interrupt=interrupt, about=about, actions=actions, deadline=deadline
    )
    result = yield from execution.perform(execution.waiting)
    execution.waiting = execution.prompt = None
    execution.waited += max(result.at - since, timedelta())
    return _resume(execution, node, kind, interrupt, _answer(result.value))


def _answer(document: dict[str, Any]) -> WaitAnswer:
    return WaitAnswer(document["action"], document["value"], document["by"], document["expired"])


def _resume(
    execution: Execution, node: str, kind: InterruptKind, interrupt: str, answer: WaitAnswer
) -> WaitAnswer:
    resolved = InterruptResolved(node_id=node, interrupt_id=interrupt, kind=kind)
    resolution = execution.emit("interrupt.resolved", resolved, node=node, resumeValue=answer.value)
    by = answer.responder or UNSET
    if kind == "clarification":
        given: dict[str, Any] = answer.value if is_object(answer.value) else {"answer": answer.value}
        cleared = ClarificationResolved(node_id=node, answered_by=by)
        execution.emit("clarification.resolved", cleared, node=node, cause=resolution, answers=given)
    else:
        received = ApprovalReceived(
            node_id=node,
            action="timeout" if answer.expired else answer.action,  # pyright: ignore[reportArgumentType]
            decided_by=by,
            decided_at=execution.now.isoformat().replace("+00:00", "Z"),
        )
        execution.emit("approval.received", received, node=node, cause=resolution)
    execution.emit(
        "node.resumed", NodeResumed(node_id=node, interrupt_id=interrupt), node=node, cause=resolution
    )
    return answer
