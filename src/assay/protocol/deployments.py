"""Deployments of agent versions on the wire (RFC 0082, openwop-contract §9.3). No member holds content."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.protocol.events import Payload

State = Literal["draft", "test", "staged", "active", "paused", "deprecated", "rolled-back"]
TransitionName = Literal["promote", "pause", "deprecate", "rollback", "adjust-canary"]
Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]
AgentVersion = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
ChannelName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class _Closed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    pass


class AgentDeployment(_Closed, frozen=True, kw_only=True):
    """The record of one version of an agent (`agent-deployment.schema.json`)."""

    agent_id: str
    version: str
    state: State
    canary_percent: Percent | UnsetType = UNSET  # unset: 100
    rollback_pointer: str | UnsetType = UNSET  # of a rolled-back version: the version that replaced it
    channels: tuple[str, ...] | UnsetType = UNSET
    eval_run_id: str | UnsetType = UNSET
    approval_gate_id: str | UnsetType = UNSET


class TransitionRequest(_Closed, frozen=True, kw_only=True):
    """The body of POST /v1/agents/{agentId}/deployments (`agent-deployment-transition.schema.json`)."""

    version: AgentVersion
    transition: TransitionName
    to_state: State | UnsetType = UNSET
    channel: ChannelName | UnsetType = UNSET
    canary_percent: Percent | UnsetType = UNSET
    eval_run_id: Id | UnsetType = UNSET
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | UnsetType = UNSET


class TransitionPending(_Closed, frozen=True, kw_only=True):
    """The answer 202: the management run waits for an approval, or was not approved, and the record is unchanged."""

    run_id: str
    status: str
    node_id: str
    record: AgentDeployment


class Condition(_Closed, frozen=True, kw_only=True):
    """A condition of the eval gate that is not met: the run that shows it, and the command that would meet it."""

    code: str
    message: str
    eval_run_id: str | UnsetType = UNSET
    command: str | UnsetType = UNSET


class AuthorizationDecided(Payload, frozen=True, kw_only=True):
    """Whether a principal may do something. `action` is the scope that it needs."""

    principal: str
    action: str
    resource: str
    allowed: bool
    reason: str | UnsetType = UNSET


class QuorumProgress(Payload, frozen=True, kw_only=True):
    granted: int
    required: int


class ApprovalGranted(Payload, frozen=True, kw_only=True):
    gate_id: str
    principal: str
    quorum_progress: QuorumProgress | UnsetType = UNSET


class ApprovalRejected(Payload, frozen=True, kw_only=True):
    gate_id: str
    principal: str
    reason: str | UnsetType = UNSET


class ApprovalOverridden(Payload, frozen=True, kw_only=True):
    gate_id: str
    principal: str
    reason: str


class Promoted(Payload, frozen=True, kw_only=True):
    agent_id: str
    from_version: str | UnsetType = UNSET
    to_version: str
    to_state: State
    channel: str | UnsetType = UNSET
    canary_percent: int | UnsetType = UNSET
    eval_run_id: str | UnsetType = UNSET
    approval_gate_id: str | UnsetType = UNSET


class RolledBack(Payload, frozen=True, kw_only=True):
    agent_id: str
    from_version: str
    to_version: str
    rollback_pointer: str
    reason: str | UnsetType = UNSET


class CanaryAdjusted(Payload, frozen=True, kw_only=True):
    agent_id: str
    version: str
    from_percent: int
    to_percent: int


class StateChanged(Payload, frozen=True, kw_only=True):
    agent_id: str
    version: str
    from_state: State
    to_state: State
