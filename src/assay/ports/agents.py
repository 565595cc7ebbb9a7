"""Agents, the context they run in, their tools and their memory."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from assay.errors import Problem
from assay.protocol.agents import AgentCard, InvocationResult, MemoryEntry, ToolSpec, Usage

if TYPE_CHECKING:  # their structs load slowly, and a plain evaluation has no agent
    from assay.protocol.agent_evals import EvalTask
    from assay.protocol.manifest import AgentDefinition


class Memory(Protocol):
    """An agent's memory as it was when the invocation began. Writes are visible to later invocations only."""

    async def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]: ...

    async def get(self, id: str) -> MemoryEntry | None: ...

    async def write(
        self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None
    ) -> MemoryEntry: ...


class ToolFailure(Exception):
    """A tool refused or could not be called; the agent may continue. `code`: such as `fixture_missing`."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class AgentRefusal(Exception):
    """Raised by a callable agent that declines the task: its invocation ends `refused` with this message."""


class AgentContext(Protocol):
    """
    The context of one invocation: tools, memory, deadline. Everything the agent does through it is recorded at once.

    It is the second parameter of a callable agent. The allow-list is enforced before a tool is called: any other tool
    is a ToolFailure `not_allowed`, and no call is recorded.
    """

    @property
    def invocation_id(self) -> str: ...

    @property
    def task_id(self) -> str:
        """The id of the suite's task, or ""."""
        ...

    @property
    def trial(self) -> int:
        """The number of this trial of the task, from 0."""
        ...

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the deadline; infinite without one."""
        ...

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """
        The conversation of a task with turns, `{"role": "user" | "assistant", "content": …}`, with the message to
        answer as the last; empty for a task without turns.
        """
        ...

    @property
    def state(self) -> dict[str, Any]:
        """What the agent keeps from one turn of the conversation to the next. Every trial begins with an empty one."""
        ...

    @property
    def memory(self) -> Memory: ...

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools the agent may call."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; a failure is a ToolFailure."""
        ...

    async def tool(self, tool: str, /, **arguments: Any) -> Any:
        """The same, with the arguments as keywords."""
        ...

    @property
    def runs_own(self) -> bool:
        """Whether a tool that the agent brings itself runs; else fixtures answer it."""
        ...

    async def call_own(self, name: str, arguments: dict[str, Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """
        Call a tool that the agent brings itself, by the name that it has there.

        Where fixtures answer tools, they answer this one too; with live tools `run` does, and its exception passes
        through.
        """
        ...

    def usage(
        self,
        *,
        provider: str,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cost_usd: float | None = None,
        cached: bool = False,
    ) -> "Recorded": ...

    def record_usage(self, usage: Usage) -> "Recorded": ...

    def reason(self, text: str, *, full: bool = False) -> "Recorded": ...

    def hand_off(self, to_agent_id: str, reason: str = "") -> "Recorded": ...


class Recorded:
    """The answer to a report, which is recorded at once: an async agent may await it, and need not."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


RECORDED = Recorded()


class Agent(Protocol):
    """
    An agent under test.

    It is foreign code: an exception or a timeout in it is its own failure, an InvocationResult `failed`.

    `invoke` raises only if the agent could not be reached at all (its model or endpoint is unreachable, 401, 429 after
    retries), as a ForeignFault or TimeFault: then nothing was measured. It returns within a moment of the context's
    deadline.
    """

    @property
    def card(self) -> AgentCard: ...

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult: ...

    async def close(self) -> None: ...


@runtime_checkable
class Prompted(Protocol):
    """An agent whose system prompt this host knows. The mode `adversarial` looks for it in what the agent writes."""

    system_prompt: str | None


@runtime_checkable
class Coverage(Protocol):
    """An agent with a fixed set of answers, which can report before a run whether they cover it."""

    def problems(
        self, suite: "Sequence[EvalTask]", tasks: "Sequence[EvalTask]", trials: int, *, noun: str = "task"
    ) -> list[Problem]:
        """What is missing. The run covers `tasks` of `suite`, each `trials` times. The messages call a task `noun`."""
        ...


class RunNeeds(Struct, frozen=True, kw_only=True):
    """What a run asks of its agent."""

    conversations: int | None = 1  # tasks times trials; None: several, and how many is not known yet
    max_cost: float | None = None
    fixtures: frozenset[str] = frozenset()  # the tools that fixtures answer
    turns: bool = False  # a user goes on after an answer


@runtime_checkable
class Limited(Protocol):
    """An agent that cannot do everything, and knows before a run what."""

    @property
    def own_tools(self) -> frozenset[str]:
        """The names of the tools that it brings itself."""
        ...

    def unmet(self, needs: RunNeeds) -> list[Problem]:
        """What it cannot do, each with what is possible."""
        ...


class ModelOverrides(Struct, frozen=True, kw_only=True):
    """Model settings of one run that replace the agent's own (openwop-contract §3.1)."""

    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


@runtime_checkable
class Overridable(Protocol):
    """An agent whose model this host chooses."""

    def with_overrides(self, overrides: ModelOverrides) -> Agent:
        """Return the agent with these settings. An unknown model is an InvalidRequest now, not at the first call."""
        ...


class Agents(Protocol):
    """The agents of this host, by id. An unknown one is None."""

    def cards(self) -> list[AgentCard]: ...

    def get(self, agent_id: str) -> Agent | None: ...

    async def close(self) -> None: ...


@runtime_checkable
class PackedAgent(Protocol):
    """An agent of a pack. A run stores its definition, and needs the pack no longer."""

    @property
    def card(self) -> AgentCard: ...

    @property
    def definition(self) -> "AgentDefinition": ...

    def ready(self) -> None:
        """Refuse with a UsageError if this host has no model for it."""
        ...


class PackAgents(Protocol):
    """The agents that tenants brought, by tenant and id; of a pack each of the highest version."""

    async def cards(self, tenant: str) -> list[AgentCard]: ...

    async def get(self, tenant: str, agent_id: str, version: str | None = None) -> Agent | None:
        """The agent of this version of its pack, or of the highest one."""
        ...

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        """The versions of the agent's pack that are installed."""
        ...

    def restore(self, definition: "AgentDefinition") -> Agent: ...

    async def close(self) -> None: ...


@runtime_checkable
class VersionedAgent(Protocol):
    """An agent of this host that has more than one version."""

    @property
    def versions(self) -> Sequence[str]: ...

    def at(self, version: str) -> Agent | None:
        """The agent of this version; None: there is no such version."""
        ...


def agent_at(agent: Agent | None, version: str | None) -> Agent | None:
    """An agent of this host at a version; None: it does not have that version."""
    if agent is None or version is None:
        return agent
    if isinstance(agent, VersionedAgent):
        return agent.at(version)
    return agent if agent.card.version == version else None


class AgentVersions(Protocol):
    """The versions of agents that a tenant can run."""

    async def versions(self, tenant: str, agent_id: str) -> list[str]:
        """The installed versions; none: there is no such agent."""
        ...

    async def get(self, tenant: str, agent_id: str, version: str) -> Agent | None: ...


class ChannelResolver(Protocol):
    """Resolves the channel of an agent to the agent of one version (RFC 0082)."""

    async def resolve(self, tenant: str, run: str, agent_id: str, channel: str) -> Agent:
        """The agent for this run. A refusal `no_active_deployment`: no active version is installed."""
        ...

    async def get(self, tenant: str, agent_id: str, version: str) -> Agent | None:
        """The agent of a version that a run has resolved before."""
        ...

    async def source(self, tenant: str, run: str, ref: Mapping[str, Any]) -> dict[str, str]:
        """The member `sourceManifestId` of an AgentRef with a channel, if its agent is from a pack."""
        ...


class ToolBox(Protocol):
    """Tools by `<scope>:<tool-id>`: live ones or fixtures. It does not enforce the allow-list."""

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        """The specs known without starting a server or opening a connection."""
        ...

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        """The specs of the tools it has; the others are left out."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """
        Return the answer as JSON, or raise ToolFailure (`unknown_tool`, `tool_error`, `invalid_arguments`,
        `rate_limited`, `timeout`, `fixture_missing`).
        """
        ...

    async def close(self) -> None: ...
