"""The management run of a transition: its log is written by transitions alone, each time in one transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from assay.comparison.policy import ApprovalRules, matches
from assay.errors import Conflict, Forbidden, InvalidRequest, NotFound, Problem, Refusal
from assay.ports import CreateRun, EvidenceChunk, Principal, Run, RunStatus, RunUpdate, Store
from assay.ports.kinds import split
from assay.promotion import KIND
from assay.promotion.transitions import DEPLOY_SCOPES, Planned
from assay.protocol.deployments import (
    ApprovalGranted,
    ApprovalOverridden,
    ApprovalRejected,
    AuthorizationDecided,
    QuorumProgress,
    State,
    TransitionRequest,
)
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import ErrorOf, Owner, Payload, RunCompleted, RunFailed, RunStarted
from assay.protocol.json_types import JSON, is_object
from assay.protocol.orchestration import InterruptRequested, InterruptResolved, NodeResumed, NodeSuspended
from assay.protocol.redaction import redact_text
from assay.runs.erasure import request_data

WORKFLOW = "assay.deployment"  # the workflowId of every management run
NODE = "approval"
REQUEST = "request"


class ManagementRequest(Struct, frozen=True, kw_only=True):
    """The stored request of a management run. A run that waits has the states that the approver is asked about."""

    agent_id: str
    author: str
    transition: TransitionRequest
    from_state: State | None = None
    to_state: State | None = None


class ManagementLog:
    """Collects the events of one transaction on a management run."""

    def __init__(self, run: str, tenant: str, request: ManagementRequest) -> None:
        self.run, self.tenant, self.request = run, tenant, request
        self._events: list[PendingEvent] = []

    def copy(self) -> "ManagementLog":
        """A log with the same events so far."""
        other = ManagementLog(self.run, self.tenant, self.request)
        other._events = list(self._events)
        return other

    def add(self, type: str, payload: Payload, *, node: str | None = None, **content: Any) -> None:
        self._events.append(PendingEvent(type=type, payload=payload, content=content, node_id=node))

    def start(self, principal: Principal, *, allowed: bool) -> None:
        """The first events: the start, and whether the principal may do this."""
        owner = Owner(tenant=self.tenant, principal=principal.id)
        transition = self.request.transition
        self.add("run.started", RunStarted(workflow_id=WORKFLOW, owner=owner))
        decided = AuthorizationDecided(
            principal=principal.id,
            action=DEPLOY_SCOPES[transition.transition],
            resource=f"{self.request.agent_id}@{transition.version}",
            allowed=allowed,
            reason=UNSET if allowed else "the key lacks the scope",
        )
        self.add("authorization.decided", decided)

    def fail(self, refusal: Refusal) -> None:
        """The last event of a run whose transition is refused."""
        details = {name: value for name, value in refusal.details.items() if name != "runId"}
        error = ErrorOf(code=refusal.code, message=str(refusal), details=details or UNSET)
        self.add("run.failed", RunFailed(error=error))

    def complete(self, record: Struct) -> None:
        self.add("run.completed", RunCompleted(), outputs={"record": msgspec.to_builtins(record)})

    def suspend(self, interrupt: str, rules: ApprovalRules, planned: Planned) -> None:
        """Ask for an approval of this step, and of no other."""
        self.request = msgspec.structs.replace(
            self.request, from_state=planned.from_state, to_state=planned.to_state
        )
        transition, agent_id = self.request.transition, self.request.agent_id
        data: JSON = {
            "artifactId": f"{agent_id}@{transition.version}",
            "artifactType": "deployment",
            "title": f"{transition.transition} {agent_id} {transition.version} to {planned.to_state}",
            "actions": ["accept", "reject"],
            "requiredApprovals": rules.quorum,
            "overrideBypassesQuorum": bool(rules.overriders),
            "artifactData": msgspec.to_builtins(transition),
        }
        data |= {"approversList": list(rules.approvers)} if rules.approvers else {}
        milliseconds = round(rules.seconds * 1000)
        requested = InterruptRequested(kind="approval", key=NODE, timeout_ms=milliseconds)
        self.add("interrupt.requested", requested, node=NODE, data=data)
        self.add(
            "node.suspended",
            NodeSuspended(node_id=NODE, interrupt_id=interrupt, kind="approval"),
            node=NODE,
        )

    def resume(self, interrupt: str) -> None:
        """The wait is over."""
        resolved = InterruptResolved(node_id=NODE, interrupt_id=interrupt, kind="approval")
        self.add("interrupt.resolved", resolved, node=NODE)
        self.add("node.resumed", NodeResumed(node_id=NODE, interrupt_id=interrupt), node=NODE)

    def open(self, status: RunStatus, metadata: JSON, at: datetime) -> RunUpdate:
        """The creation of the run with these events."""
        events, evidence, *_ = split(self._events, at)
        chunk = EvidenceChunk(kind=REQUEST, data=msgspec.json.encode(self.request))
        return RunUpdate(
            run=self.run,
            opens=CreateRun(tenant=self.tenant, kind=KIND, name=WORKFLOW),
            status=status,
            metadata=self.metadata() | metadata,
            events=events,
            evidence=[chunk, *evidence],
        )

    def advance(self, run: Run, status: RunStatus, metadata: JSON, at: datetime) -> RunUpdate:
        """The next events of a run that waits."""
        events, evidence, *_ = split(self._events, at)
        return RunUpdate(
            run=run.id,
            when=frozenset({run.status}),
            expected=run.events,
            status=status,
            metadata=self.metadata() | metadata,
            events=events,
            evidence=evidence,
        )

    def metadata(self) -> JSON:
        transition = self.request.transition
        return {
            "agentId": self.request.agent_id,
            "agentVersion": transition.version,
            "transition": transition.transition,
            "principal": self.request.author,
        }


def without_secrets(request: TransitionRequest) -> TransitionRequest:
    """The reason is a label, but a caller may put a secret there."""
    reason = request.reason if request.reason is UNSET else redact_text(request.reason)
    return msgspec.structs.replace(request, reason=reason)


def waiting(interrupt: str, rules: ApprovalRules, now: datetime, grants: Sequence[str] = ()) -> JSON:
    """The metadata of a run that waits for an approval."""
    deadline = now + timedelta(seconds=rules.seconds)
    return {
        "waiting": {
            "nodeId": NODE,
            "kind": "approval",
            "interruptId": interrupt,
            "about": "gate",
            "deadline": deadline.isoformat(),
        },
        "grants": list(grants),
    }


async def read_management_request(store: Store, run: Run) -> ManagementRequest:
    return msgspec.json.decode(await request_data(store, run.id, REQUEST), type=ManagementRequest)


async def find_management_run(store: Store, run: str, tenant: str) -> Run:
    found = await store.run(run, tenant=tenant)
    if found is None or found.kind != KIND:
        raise NotFound(f"there is no run {run!r}")
    return found


# The answers to an approval gate: which principals may give them, and what each of them does.

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
    # the policy may be another one by now
    grants = tuple(one for one in grants if _may_grant(rules, one, author))
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
