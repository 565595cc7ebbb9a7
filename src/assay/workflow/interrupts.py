"""Where a run stops for a person, and how it goes on (contract §8.4, §13.2, §13.3)."""

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
from assay.workflow.effects import About, Actions, Wait, stable_id
from assay.workflow.execution import Execution, RunStopped, Steps

ACCEPTED = ("accept", "edit-accept")


class WaitAnswer(NamedTuple):
    """What a person said; nobody's, if the time ran out."""

    action: str
    value: Any
    by: str | None
    expired: bool = False

    @property
    def accepted(self) -> bool:
        return self.action in ACCEPTED


class LowConfidence(NamedTuple):
    """Who was not sure enough: of what is shown where a run is held for it."""

    agent: str
    threshold: float
    observed: float


def approval(
    flow: Execution,
    node: str,
    title: str,
    artifact: str,
    *,
    about: About = "gate",
    actions: Actions = ("accept", "reject"),
    seconds: float | None = None,
    unsure: LowConfidence | None = None,
    cause: str | None = None,
    **shown: Any,
) -> Steps[WaitAnswer]:
    """Suspend until somebody accepts or rejects; silence until the end of its time rejects."""
    data: dict[str, Any]
    if unsure is None:
        data = {
            "artifactId": artifact,
            "artifactType": "decision",
            "title": title,
            "actions": list(actions),
        }
        data |= {"artifactData": shown} if shown else {}
    else:
        data = {"agentId": unsure.agent, "threshold": unsure.threshold, "observed": unsure.observed}
        for value in shown.values():
            data["decision"] = value  # the schema has one name for whatever is to be ratified
    kind: InterruptKind = "approval" if unsure is None else "low-confidence"
    flow.asked = shown or None
    return (
        yield from _wait(
            flow, node, kind, data, about=about, actions=actions, seconds=seconds, unsure=unsure, cause=cause
        )
    )


def clarification(
    flow: Execution, node: str, prompt: str, *, seconds: float | None = None, cause: str | None = None
) -> Steps[WaitAnswer]:
    """Suspend until somebody answers a question."""
    data = {"questions": [{"id": "answer", "question": prompt}]}
    flow.asked = {"question": prompt}
    return (
        yield from _wait(
            flow, node, "clarification", data, about="question", actions=("answer",), seconds=seconds, cause=cause
        )
    )  # fmt: skip


def accepted(flow: Execution, answer: WaitAnswer, what: str, node: str) -> WaitAnswer:
    """Or the run ends."""
    if answer.accepted:
        return answer
    how = "nobody answered in time" if answer.expired else "it was rejected"
    raise RunStopped("decision_rejected", f"{what}: {how}", node=node)


def _wait(
    flow: Execution,
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
    interrupt = stable_id("int", flow.origin, flow.told)
    if kind == "clarification":
        asked = ClarificationRequested(node_id=node, interrupt_id=interrupt)
        flow.tell("clarification.requested", asked, node=node, cause=cause, questions=data["questions"])
    most = UNSET if seconds is None else round(seconds * 1000)
    requested = InterruptRequested(kind=kind, key=node, timeout_ms=most)
    flow.tell("interrupt.requested", requested, node=node, cause=cause, data=data)
    suspended = NodeSuspended(
        node_id=node,
        interrupt_id=interrupt,
        kind=kind,
        reason=UNSET if unsure is None else "low-confidence",
        agent_id=UNSET if unsure is None else unsure.agent,
        threshold=UNSET if unsure is None else unsure.threshold,
        observed=UNSET if unsure is None else unsure.observed,
    )
    flow.tell("node.suspended", suspended, node=node, cause=cause)
    since = flow.now
    deadline = None if seconds is None else since + timedelta(seconds=seconds)
    flow.waiting = Wait(
        node=node, kind=kind, interrupt=interrupt, about=about, actions=actions, deadline=deadline
    )
    result = yield from flow.do(flow.waiting)
    flow.waiting = flow.asked = None
    flow.waited += max(result.at - since, timedelta())
    return _resumed(flow, node, kind, interrupt, WaitAnswer(**result.value))


def _resumed(
    flow: Execution, node: str, kind: InterruptKind, interrupt: str, answer: WaitAnswer
) -> WaitAnswer:
    resolved = InterruptResolved(node_id=node, interrupt_id=interrupt, kind=kind)
    told = flow.tell("interrupt.resolved", resolved, node=node, resumeValue=answer.value)
    by = answer.by or UNSET
    if kind == "clarification":
        given: dict[str, Any] = answer.value if is_object(answer.value) else {"answer": answer.value}
        cleared = ClarificationResolved(node_id=node, answered_by=by)
        flow.tell("clarification.resolved", cleared, node=node, cause=told, answers=given)
    else:
        received = ApprovalReceived(
            node_id=node,
            action="timeout" if answer.expired else answer.action,  # pyright: ignore[reportArgumentType]
            decided_by=by,
            decided_at=flow.now.isoformat().replace("+00:00", "Z"),
        )
        flow.tell("approval.received", received, node=node, cause=told)
    flow.tell("node.resumed", NodeResumed(node_id=node, interrupt_id=interrupt), node=node, cause=told)
    return answer
