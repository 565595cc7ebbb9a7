"""The seams of agents: who is run, what they may use while they run, and where both come from."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from assay.errors import Problem
from assay.protocol.agents import AgentCard, InvocationResult, MemoryEntry, ToolSpec, Usage
from assay.protocol.suite import EvalTask


class Memory(Protocol):
    """What an agent remembers: as it was when the invocation began. What it writes is seen by later invocations, if by any."""

    async def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]: ...

    async def get(self, id: str) -> MemoryEntry | None: ...

    async def write(
        self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None
    ) -> MemoryEntry: ...


class ToolFailure(Exception):
    """A tool said no, or could not be asked: an answer that an agent may go on from. `code` as in `fixture_missing`, `not_allowed`."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class AgentRefusal(Exception):
    """An agent that does not want to: raised in a callable, its invocation ends `refused`, with these words."""


class AgentContext(Protocol):
    """
    What an agent has around it while it works on one task; everything it does through this is recorded as it happens.

    A callable's second parameter is one of these. The allow-list is enforced before anything is called: a tool outside it is a
    ToolFailure `not_allowed` and leaves no trace of a call.
    """

    @property
    def invocation_id(self) -> str: ...

    @property
    def task_id(self) -> str:
        """Of the suite's task, or empty."""
        ...

    @property
    def trial(self) -> int:
        """Which trial of the task this is, from 0."""
        ...

    @property
    def left(self) -> float:
        """Seconds until the invocation is over, whether it has ended or not; infinite without a deadline."""
        ...

    @property
    def memory(self) -> Memory: ...

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Those it may call."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """A tool's answer, or a ToolFailure."""
        ...

    async def tool(self, tool: str, /, **arguments: Any) -> Any:
        """The same, as one writes it by hand."""
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
    ) -> None: ...

    def used(self, usage: Usage) -> None: ...

    def reason(self, text: str, *, full: bool = False) -> None: ...


class Agent(Protocol):
    """
    Somebody who does a task. Foreign: whatever it raises is its own failure, a Finish `failed`, and so is running out of time.

    Only what keeps it from being asked at all (its model or endpoint unreachable, 401, 429 after retries) is raised, as a ForeignFault
    or TimeFault: then nothing was measured. It ends when `scene.left` does, or a moment later.
    """

    @property
    def card(self) -> AgentCard: ...

    async def invoke(self, task: Any, scene: AgentContext) -> InvocationResult: ...

    async def close(self) -> None: ...


@runtime_checkable
class Coverage(Protocol):
    """An agent that has a fixed set of answers, and can say before a run whether they are those that the run needs."""

    def problems(self, suite: Sequence[EvalTask], tasks: Sequence[EvalTask], trials: int) -> list[Problem]:
        """What does not fit: `tasks` are those of `suite` that the run covers, each of them `trials` times."""
        ...


class ModelOverrides(Struct, frozen=True, kw_only=True):
    """What a run wants of an agent's model instead of the usual (contract §3.1)."""

    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


@runtime_checkable
class Overridable(Protocol):
    """An agent whose model is chosen here."""

    def with_overrides(self, tuning: ModelOverrides) -> Agent:
        """The same agent with that; a model that cannot be had is an InvalidRequest, now and not when it is asked."""
        ...


class Agents(Protocol):
    """Who can be run here, by agent id. Unknown is None."""

    def cards(self) -> list[AgentCard]: ...

    def get(self, agent_id: str) -> Agent | None: ...

    async def close(self) -> None: ...


class ToolBox(Protocol):
    """Tools, by `<scope>:<tool-id>`: live ones, or what fixtures say in their place. It knows no allow-list."""

    def static_specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        """What can be said of those it has without asking anybody: no server is started, no connection opened."""
        ...

    async def specs(self, tools: Sequence[str]) -> list[ToolSpec]:
        """Of those it has; the others are left out."""
        ...

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The answer as JSON, or a ToolFailure (`unknown_tool`, `tool_error`, `invalid_arguments`, `rate_limited`, `timeout`, `fixture_missing`)."""
        ...

    async def close(self) -> None: ...
