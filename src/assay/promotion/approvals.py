"""The answers to an approval gate: which principals may give them, and what each of them does."""

from typing import Any, Literal, NamedTuple

from msgspec import UNSET

from assay.comparison.policy import ApprovalRules, matches
from assay.errors import Conflict, Forbidden, InvalidRequest, Problem, Refusal
from assay.ports import Principal
from assay.protocol.deployments import ApprovalGranted, ApprovalOverridden, ApprovalRejected, QuorumProgress
from assay.protocol.events import Payload
from assay.protocol.json_types import is_object
from assay.protocol.redaction import redact_text

RESPOND = "approvals:respond"
MAX_REASON = 512  # characters
Action = Literal["accept", "reject", "override"]


class NotAnApprover(Forbidden):
    """The policy does not let this principal decide."""

    def __init__(self, message: str) -> None:
        Refusal.__init__(self, message)

    @property
    def details(self) -> dict[str, object]:
        return {"reason": "not_an_approver"}


class Decision(NamedTuple):
    """An answer: its event, the principals that have granted so far, and whether it ends the wait."""

    action: Action
    type: str
    payload: Payload
    grants: tuple[str, ...]
    final: bool


def decide(
    rules: ApprovalRules, principal: Principal, author: str, value: Any, grants: tuple[str, ...]
) -> Decision:
    """Check an answer. InvalidRequest, Forbidden or Conflict: it does not count, and nothing changes."""
    action, reason = _read(value)
    if not principal.may(RESPOND):
        raise Forbidden(RESPOND)
    if action == "override":
        if not _matches(principal, rules.overriders):
            raise NotAnApprover(f"gate {rules.gate}: the policy does not let {principal.id} override it")
        if not reason:
            raise InvalidRequest(Problem("resumeValue.reason", "an override requires a reason"))
        overridden = ApprovalOverridden(gate_id=rules.gate, principal=principal.id, reason=reason)
        return Decision(action, "approval.overridden", overridden, grants, final=True)
    if rules.approvers and not _matches(principal, rules.approvers):
        names = ", ".join(rules.approvers)
        raise NotAnApprover(f"gate {rules.gate}: expected one of {names}, got {principal.id}")
    if action == "reject":
        rejected = ApprovalRejected(gate_id=rules.gate, principal=principal.id, reason=reason or UNSET)
        return Decision(action, "approval.rejected", rejected, grants, final=True)
    if principal.id == author and not rules.author_may_approve:
        raise NotAnApprover(f"gate {rules.gate}: {author} requested the transition and may not approve it")
    grants = tuple(
        one for one in grants if _may_grant(rules, one, author)
    )  # the policy may be another one by now
    if principal.id in grants:
        raise Conflict("status", f"gate {rules.gate}", f"{principal.id} has approved it already")
    grants = (*grants, principal.id)
    progress = QuorumProgress(granted=len(grants), required=rules.quorum)
    granted = ApprovalGranted(
        gate_id=rules.gate, principal=principal.id, quorum_progress=progress if rules.quorum > 1 else UNSET
    )
    return Decision(action, "approval.granted", granted, grants, final=len(grants) >= rules.quorum)


def _read(value: Any) -> tuple[Action, str]:
    action = value.get("action") if is_object(value) else None
    if action not in ("accept", "reject", "override"):
        message = f"expected one of accept, reject, override, got {str(action)[:40]!r}"
        raise InvalidRequest(Problem("resumeValue.action", message))
    reason = value.get("reason", "")
    if not isinstance(reason, str) or len(reason) > MAX_REASON:
        raise InvalidRequest(
            Problem("resumeValue.reason", f"expected a text of at most {MAX_REASON} characters")
        )
    return action, redact_text(reason)


def _may_grant(rules: ApprovalRules, id: str, author: str) -> bool:
    listed = not rules.approvers or any(matches(pattern, id) for pattern in rules.approvers)
    return listed and (id != author or rules.author_may_approve)


def _matches(principal: Principal, patterns: tuple[str, ...]) -> bool:
    return any(matches(pattern, principal.id) for pattern in patterns)
