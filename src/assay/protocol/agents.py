"""Agents: their cards, the steps of an invocation and its result (openwop-contract §5, §7.1)."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

ModelClass = Literal["reasoning", "writing", "coding", "research", "classification", "general"]
Outcome = Literal["completed", "handed-off", "escalated", "refused", "failed"]
ToolStatus = Literal["ok", "error", "forbidden", "rate_limited"]
ToolTransport = Literal["mcp", "http", "native"]
MAX_TOKENS = 10**12  # of one model call, so that sums stay exact
MAX_USD = 10**9  # of one model call


class MemoryShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scratchpad: bool = False
    conversation: bool = False
    longTerm: bool = False  # noqa: N815  # the wire's name


class AgentCard(Struct, frozen=True, kw_only=True):
    """A description of an agent. It holds no prompt and no secret, so it may be listed (openwop-contract §7.7)."""

    agent_id: str  # `local.<module>.<function>` unless named
    version: str = "0.0.0"
    pack: str = ""  # the name of its pack; its version is that of the pack
    kind: str = "callable"  # callable, http, command, manifest, recorded, …
    persona: str = ""
    label: str = ""
    description: str = ""
    model_class: ModelClass = "general"
    free: bool = False  # its usage costs nothing: without a report the cost is 0, not unknown
    # The allow-list of `<scope>:<tool-id>`. None: not configured; the agent may use the task's fixtures and no live
    # tool.
    tools: tuple[str, ...] | None = None
    memory: MemoryShape = MemoryShape()
    takes_tools: bool = True  # it can call tools through the host (openwop-contract §6.3)
    takes_memory: bool = True
    takes_turns: bool = False  # it reads the conversation (`context.messages`), so that a user can answer it
    threshold: float | None = None  # below this confidence it escalates
    requires: tuple[str, ...] = ()  # capabilities of the host (RFC 0092)
    optional_peers: dict[str, str] = {}  # capabilities that its pack can do without (RFC 0072)
    criteria: tuple[str, ...] = ()  # keys of its own that events may hold (openwop-contract §8.1)
    task_schema: dict[str, Any] | None = None  # of a hand-off's task
    return_schema: dict[str, Any] | None = None  # of its result

    @property
    def source(self) -> dict[str, str]:
        """The member of an AgentRef that names the manifest of an agent from a pack."""
        return {"sourceManifestId": self.agent_id} if self.pack else {}


def model_name(provider: str, model: str) -> str:
    """`openai:gpt-5`."""
    return model if not provider or model.startswith(f"{provider}:") else f"{provider}:{model}"


class Usage(Struct, frozen=True, kw_only=True):
    """The usage of one model call. An unknown cost is None, never 0."""

    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None
    cached: bool = False


class MemoryEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of `memory-entry.schema.json`."""

    id: str
    content: str
    tags: tuple[str, ...] = ()
    createdAt: str  # noqa: N815
    expiresAt: str | UnsetType = UNSET  # noqa: N815


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool as it is described to a model."""

    id: str  # `<scope>:<tool-id>`
    description: str = ""
    input_schema: dict[str, Any] = {}  # empty: any object
    transport: ToolTransport = "native"


class TimedStep(Struct, frozen=True, kw_only=True):
    at_ms: int | UnsetType = UNSET  # since the start of the invocation


class ReasoningStep(TimedStep, frozen=True, kw_only=True, tag="reasoned"):
    text: str
    verbosity: Literal["summary", "full"] = "summary"


class ToolCalled(TimedStep, frozen=True, kw_only=True, tag="tool-called"):
    call_id: str
    tool: str
    inputs: dict[str, Any]
    transport: ToolTransport = "native"


class ToolReturned(TimedStep, frozen=True, kw_only=True, tag="tool-returned"):
    """Either an outcome or an error `{code, message}`."""

    call_id: str
    tool: str
    status: ToolStatus
    outcome: Any = UNSET
    error: dict[str, str] | None = None
    duration_ms: int = 0


class ToolAttempt(Struct, frozen=True, kw_only=True):
    """A tool call that an agent tried, with its arguments. A refused one is not a step, and no event has it."""

    tool: str
    arguments: Any
    outcome: Literal["ok", "error", "refused"]


class UsageStep(TimedStep, frozen=True, kw_only=True, tag="used"):
    usage: Usage


class MemoryWriteStep(TimedStep, frozen=True, kw_only=True, tag="wrote"):
    """A write to the agent's memory."""

    memory_ref: str
    memory_id: str
    tags: tuple[str, ...] = ()


class HandoffStep(TimedStep, frozen=True, kw_only=True, tag="handed-off"):
    to_agent_id: str
    reason: str = ""


class MessageStep(TimedStep, frozen=True, kw_only=True, tag="said"):
    """A message of a conversation. `turn` counts from 1: a message of the user, then the answer of the agent."""

    role: Literal["user", "assistant"]
    content: Any
    turn: int


Step = ReasoningStep | ToolCalled | ToolReturned | UsageStep | MemoryWriteStep | HandoffStep | MessageStep


class InvocationResult(Struct, frozen=True, kw_only=True):
    """
    How an invocation ended.

    An agent that raised, timed out, refused or returned an invalid value was measured: its outcome is `failed` or
    `refused`.

    `result` is a JSON value if the outcome is `completed`. `error` is a message, and is content.
    """

    outcome: Outcome
    result: Any = UNSET
    confidence: float | None = None
    error: str | None = None
    schema_validated: bool | None = None  # None: the agent has no return schema


class RecordedInvocation(Struct, frozen=True, kw_only=True):
    """What an invocation did: what its score needs, without its tools and its memory."""

    invocation_id: str
    seconds: float
    steps: list[Step]
    attempts: list[ToolAttempt]
    messages: list[dict[str, Any]]
    tools: int


# Agents that a tenant registers at a host: endpoints, never code.

HeaderName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")]
HeaderValue = Annotated[str, msgspec.Meta(pattern=r"^[\x20-\x7e]{1,4000}\Z")]


class AgentRegistration(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """An agent behind a URL, as a tenant registers it. The values of `headers` are never returned."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    version: Annotated[
        str, msgspec.Meta(pattern=r"^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?\Z", max_length=64)
    ] = "0.0.0"
    headers: Annotated[dict[HeaderName, HeaderValue], msgspec.Meta(max_length=20)] = {}
    label: Annotated[str, msgspec.Meta(max_length=100)] = ""
    persona: Annotated[str, msgspec.Meta(max_length=200)] = ""
    description: Annotated[str, msgspec.Meta(max_length=500)] = ""
    model_class: ModelClass = "general"
    free: bool = False  # its usage costs nothing
    takes_tools: bool = False  # it calls tools through the callback of the host
    takes_memory: bool = False
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None  # of one invocation


class RegisteredAgent(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A registered agent, without the values of its headers."""

    agent_id: str
    registered_at: datetime
    url: str
    version: str
    header_names: tuple[str, ...] = ()
    label: str = ""
    persona: str = ""
    description: str = ""
    model_class: ModelClass = "general"
    free: bool = False
    takes_tools: bool = False
    takes_memory: bool = False
    timeout_seconds: float | None = None
