"""
Payloads of run events (openwop-contract §5). The table `runs.event_types.EVENTS` maps event names to them.

No payload has a field for content. Members that may carry content (`inputs`, `outputs`, `reasoning`, a tool's `outcome`
and `error`, an agent's `decision`) are stored as evidence, see `protocol.event_record`; a docstring `Content:` names
them.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.protocol.agent_evals import EvalSummary
from assay.protocol.agents import Outcome, ToolStatus, ToolTransport

Source = Literal["workflow-node", "run-api", "chat-mention"]


class Payload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Wire names are in camel case; unset members are omitted."""


class Owner(Payload, frozen=True, kw_only=True):
    tenant: str
    workspace: str | UnsetType = UNSET
    principal: str | UnsetType = UNSET


class ErrorOf(Payload, frozen=True, kw_only=True):
    """The error of a run or a node: a code and a message without content."""

    code: str
    message: str
    details: dict[str, Any] | UnsetType = UNSET


class RunStarted(Payload, frozen=True, kw_only=True):
    workflow_id: str
    owner: Owner | UnsetType = UNSET
    transport: Literal["rest", "mcp", "a2a", "ui"] | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET


class RunCompleted(Payload, frozen=True, kw_only=True):
    """`outputs` of an eval run is its content-free summary. Content: `outputs` of any other run."""

    outputs: EvalSummary | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET


class RunFailed(Payload, frozen=True, kw_only=True):
    error: ErrorOf
    failed_node_id: str | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET


class RunCancelled(Payload, frozen=True, kw_only=True):
    """Content: `reason`."""

    cancelled_by: str | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    parent_run_id: str | UnsetType = UNSET


class InvocationStarted(Payload, frozen=True, kw_only=True):
    invocation_id: str
    agent_id: str
    source: Source
    resolved_model: str | UnsetType = UNSET
    resolved_provider: str | UnsetType = UNSET
    resolved_agent_version: str | UnsetType = UNSET
    resolved_channel: str | UnsetType = UNSET
    tool_surface_count: int | UnsetType = UNSET
    memory_bound: bool | UnsetType = UNSET


class InvocationCompleted(Payload, frozen=True, kw_only=True):
    invocation_id: str
    agent_id: str
    outcome: Outcome
    schema_validated: bool | UnsetType = UNSET
    confidence: float | UnsetType = UNSET


class AgentReasoned(Payload, frozen=True, kw_only=True):
    """Content: `reasoning`."""

    agent_id: str
    verbosity: Literal["summary", "full", "off"] = msgspec.field(default="summary")


class AgentToolCalled(Payload, frozen=True, kw_only=True):
    """Content: `inputs`."""

    agent_id: str
    tool_name: str
    call_id: str
    args_hash: str | UnsetType = UNSET
    transport: ToolTransport | UnsetType = UNSET


class AgentToolReturned(Payload, frozen=True, kw_only=True):
    """Content: `outcome` or `error`."""

    agent_id: str
    tool_name: str
    call_id: str
    status: ToolStatus
    duration_ms: int | UnsetType = UNSET


class AgentHandoff(Payload, frozen=True, kw_only=True):
    """Content: `reason`."""

    from_agent_id: str
    to_agent_id: str


class AgentDecided(Payload, frozen=True, kw_only=True):
    """Content: `decision`."""

    agent_id: str
    confidence: float | UnsetType = UNSET


class AgentVerified(Payload, frozen=True, kw_only=True):
    """A verdict and the keys of its criteria (RFC 0090)."""

    agent_id: str
    target: str
    verdict: Literal["pass", "fail", "revise"]
    criteria: tuple[str, ...] | UnsetType = UNSET
    confidence: float | UnsetType = UNSET


class ProviderUsage(Payload, frozen=True, kw_only=True):
    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_estimate_usd: float | UnsetType = UNSET
    currency: Literal["USD"] | UnsetType = UNSET
    cache_hit: bool | UnsetType = UNSET
    node_id: str | UnsetType = UNSET


class EvalStarted(Payload, frozen=True, kw_only=True):
    suite_id: str
    suite_version: str
    task_count: int
    modes: tuple[str, ...]
    baseline_run_id: str | UnsetType = UNSET


class EvalScored(Payload, frozen=True, kw_only=True):
    task_id: str
    score: float
    passed: bool
    cost_usd: float | UnsetType = UNSET
    latency_ms: int | UnsetType = UNSET
    schema_valid: bool | UnsetType = UNSET
    safety_finding_count: int | UnsetType = UNSET


class TrialEnded(Payload, frozen=True, kw_only=True):
    """
    `assay.trial.ended`, assay's own event: one of several trials, or a trial without a score because it was not
    measured.
    """

    task_id: str
    trial: int = msgspec.field(default=0)
    score: float | UnsetType = UNSET
    cost_usd: float | UnsetType = UNSET
    latency_ms: int | UnsetType = UNSET
    schema_valid: bool | UnsetType = UNSET


class TurnMessage(Payload, frozen=True, kw_only=True):
    """`assay.turn.message`, assay's own event: a message of a conversation, which is its content."""

    agent_id: str
    role: str
    turn: int


class EvalCompleted(Payload, frozen=True, kw_only=True):
    aggregate_score: float
    passed: bool
    task_count: int
    passed_count: int
    regression_vs_baseline: float | UnsetType = UNSET


class MemoryWritten(Payload, frozen=True, kw_only=True):
    memory_ref: str
    memory_id: str
    node_id: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET


class CapBreached(Payload, frozen=True, kw_only=True):
    kind: str
    limit: float
    observed: float
    node_id: str | UnsetType = UNSET
