"""
Payloads of workflow events (openwop-contract §5, §13): nodes, interrupts, decisions, hand-offs. Content is stored
apart, see `protocol.event_record`.
"""

from typing import Literal

from msgspec import UNSET, UnsetType

from assay.protocol.events import ErrorOf, Payload

InterruptKind = Literal["approval", "clarification", "low-confidence"]
Phase = Literal[
    "dispatch.began", "dispatch.succeeded", "dispatch.failed", "child.completed", "child.failed", "child.cancelled",
    "output.harvested",
]  # fmt: skip
EnvelopeKind = Literal["valid", "refusal"]


class NodeStarted(Payload, frozen=True, kw_only=True):
    node_id: str
    type_id: str
    attempt: int | UnsetType = UNSET


class NodeCompleted(Payload, frozen=True, kw_only=True):
    """Content: `outputs`."""

    node_id: str


class NodeFailed(Payload, frozen=True, kw_only=True):
    node_id: str
    error: ErrorOf


class NodeSuspended(Payload, frozen=True, kw_only=True):
    node_id: str
    interrupt_id: str
    kind: InterruptKind
    reason: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    threshold: float | UnsetType = UNSET
    observed: float | UnsetType = UNSET


class NodeResumed(Payload, frozen=True, kw_only=True):
    node_id: str
    interrupt_id: str


class NodeDispatched(Payload, frozen=True, kw_only=True):
    child_run_id: str
    child_workflow_id: str
    child_status: str | UnsetType = UNSET


class InterruptRequested(Payload, frozen=True, kw_only=True):
    """Content: `data`."""

    kind: InterruptKind
    key: str
    timeout_ms: int | UnsetType = UNSET


class InterruptResolved(Payload, frozen=True, kw_only=True):
    """Content: `resumeValue`."""

    node_id: str
    interrupt_id: str
    kind: InterruptKind


class ApprovalReceived(Payload, frozen=True, kw_only=True):
    node_id: str
    action: Literal["accept", "reject", "edit-accept", "timeout"]
    decided_by: str | UnsetType = UNSET
    decided_at: str | UnsetType = UNSET


class ClarificationRequested(Payload, frozen=True, kw_only=True):
    """Content: `questions`."""

    node_id: str
    interrupt_id: str


class ClarificationResolved(Payload, frozen=True, kw_only=True):
    """Content: `answers`."""

    node_id: str
    answered_by: str | UnsetType = UNSET


class VariableChanged(Payload, frozen=True, kw_only=True):
    """Content: `previous` and `next`."""

    name: str
    node_id: str | UnsetType = UNSET


class SuccessCriterion(Payload, frozen=True, kw_only=True):
    key: str
    met: bool


class Decision(Payload, frozen=True, kw_only=True):
    """An OrchestratorDecision without its texts (`prompt`, `reason`), which are content."""

    kind: Literal["next-worker", "ask-user", "terminate"]
    next_worker_ids: tuple[str, ...] | UnsetType = UNSET
    confidence: float | UnsetType = UNSET
    success_criteria: tuple[SuccessCriterion, ...] | UnsetType = UNSET


class OrchestratorDecided(Payload, frozen=True, kw_only=True):
    """Content: the complete `decision`, if it has texts."""

    agent_id: str
    decision: Decision
    iteration: int


class Attestation(Payload, frozen=True, kw_only=True):
    checksum: str
    algorithm: Literal["sha256"] | UnsetType = UNSET


class ChainEvent(Payload, frozen=True, kw_only=True):
    """`core.workflowChain.event`: one step of a hand-off (openwop-contract §13.5)."""

    phase: Phase
    worker_id: str
    parent_run_id: str
    child_run_id: str | UnsetType = UNSET
    harvested_keys: tuple[str, ...] | UnsetType = UNSET
    attestation: Attestation | UnsetType = UNSET
    error: ErrorOf | UnsetType = UNSET


class ConfidenceEscalated(Payload, frozen=True, kw_only=True):
    """
    `core.workflowChain.confidence-escalated` (openwop-contract §13.6). Content: the complete `originalDecision`, if it
    has texts.
    """

    confidence: float
    floor: float
    escalation_kind: Literal["clarify", "escalate"]
    parent_run_id: str
    original_decision: Decision
    worker_id: str | UnsetType = UNSET


class EnvelopeRefusal(Payload, frozen=True, kw_only=True):
    """Content: `refusalText`."""

    node_id: str
    provider: str
    model: str


class ReplayDiverged(Payload, frozen=True, kw_only=True):
    source_run_id: str
    at_sequence: int
    original_event_id: str | UnsetType = UNSET
    divergence_kind: Literal["output", "missing", "extra", "type-mismatch"] | UnsetType = UNSET


class ReplayDivergedAtRefusal(Payload, frozen=True, kw_only=True):
    source_run_id: str
    at_sequence: int
    original_envelope_kind: EnvelopeKind
    replay_envelope_kind: EnvelopeKind
    original_event_id: str | UnsetType = UNSET
    node_id: str | UnsetType = UNSET
