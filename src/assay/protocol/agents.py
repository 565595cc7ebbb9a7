"""Agents and what they leave behind: who they are, how an invocation ended, and its steps (contract §5, §7.1)."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

ModelClass = Literal["reasoning", "writing", "coding", "research", "classification", "general"]
Outcome = Literal["completed", "handed-off", "escalated", "refused", "failed"]
ToolStatus = Literal["ok", "error", "forbidden", "rate_limited"]
ToolTransport = Literal["mcp", "http", "native"]
MOST_TOKENS = 10**12  # of one call of a model, so that the sum of all can be counted and written
MOST_USD = 10**9  # the same of what it costs


class MemoryShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scratchpad: bool = False
    conversation: bool = False
    longTerm: bool = False  # noqa: N815  # the wire's name


class AgentCard(Struct, frozen=True, kw_only=True):
    """What is known of an agent without asking it. No prompt, no secret: this may be listed (contract §7.7)."""

    agent_id: str  # `local.<module>.<function>` unless named
    version: str = "0.0.0"
    kind: str = "callable"  # callable, http, command, manifest, recorded, …
    persona: str = ""
    label: str = ""
    description: str = ""
    model_class: ModelClass = "general"
    free: bool = False  # its usage costs nothing, so that none reported is 0 and not unknown
    # The allow-list, `<scope>:<tool-id>`. None: nobody wrote one, so that it may use what a task's fixtures have, and no live tool.
    tools: tuple[str, ...] | None = None
    memory: MemoryShape = MemoryShape()
    takes_tools: bool = True  # there is a way for it to call a tool through us (contract §6.3)
    takes_memory: bool = True
    threshold: float | None = None  # below this confidence it escalates
    criteria: tuple[str, ...] = ()  # keys of its own that events may hold (contract §8.1)
    task_schema: dict[str, Any] | None = None  # hand-off: what a task must be
    return_schema: dict[str, Any] | None = None  # and what it gives back


class Usage(Struct, frozen=True, kw_only=True):
    """One model call. A cost nobody knows is None, never 0."""

    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None
    cached: bool = False


class MemoryEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `memory-entry.schema.json` says."""

    id: str
    content: str
    tags: tuple[str, ...] = ()
    createdAt: str  # noqa: N815
    expiresAt: str | UnsetType = UNSET  # noqa: N815


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as a model is told of it."""

    id: str  # `<scope>:<tool-id>`
    description: str = ""
    input_schema: dict[str, Any] = {}  # empty: anything goes
    transport: ToolTransport = "native"


class ReasoningStep(Struct, frozen=True, kw_only=True, tag="reasoned"):
    text: str
    verbosity: Literal["summary", "full"] = "summary"


class ToolCalled(Struct, frozen=True, kw_only=True, tag="tool-called"):
    call_id: str
    tool: str
    inputs: dict[str, Any]
    transport: ToolTransport = "native"


class ToolReturned(Struct, frozen=True, kw_only=True, tag="tool-returned"):
    """Either an outcome or an error `{code, message}`."""

    call_id: str
    tool: str
    status: ToolStatus
    outcome: Any = UNSET
    error: dict[str, str] | None = None
    duration_ms: int = 0


class UsageStep(Struct, frozen=True, kw_only=True, tag="used"):
    usage: Usage


class MemoryWriteStep(Struct, frozen=True, kw_only=True, tag="wrote"):
    """Into the agent's memory."""

    memory_ref: str
    memory_id: str
    tags: tuple[str, ...] = ()


class HandoffStep(Struct, frozen=True, kw_only=True, tag="handed-off"):
    to_agent_id: str
    reason: str = ""


Step = ReasoningStep | ToolCalled | ToolReturned | UsageStep | MemoryWriteStep | HandoffStep


class InvocationResult(Struct, frozen=True, kw_only=True):
    """
    How an invocation ended. An agent that raised, timed out, refused or gave something invalid was measured: it ended `failed` or `refused`.

    `result` is a JSON value where the outcome is `completed`; `error` says in words what went wrong, and is content.
    """

    outcome: Outcome
    result: Any = UNSET
    confidence: float | None = None
    error: str | None = None
    schema_validated: bool | None = None  # None: the agent has no return schema
