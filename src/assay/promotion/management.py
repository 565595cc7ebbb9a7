"""The management run of a transition: its log is written by transitions alone, each time in one transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay.comparison.policy import ApprovalRules
from assay.errors import NotFound, Refusal
from assay.ports import CreateRun, EvidenceChunk, Principal, Run, RunStatus, RunUpdate, Store
from assay.ports.kinds import split
from assay.promotion import KIND
from assay.promotion.transitions import DEPLOY_SCOPES, Planned
from assay.protocol.deployments import AuthorizationDecided, State, TransitionRequest
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import ErrorOf, Owner, Payload, RunCompleted, RunFailed, RunStarted
from assay.protocol.json_types import JSON
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
