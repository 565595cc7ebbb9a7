"""What an agent has around it while it works on one task, and the record of what it did there (contract §5, §6.2, §6.5)."""

import asyncio
import math
import re
import time
from collections.abc import Sequence
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from assay.agents.fixtures import FixtureTools, SeededMemory
from assay.agents.handoff import validate_result
from assay.errors import ForeignFault, TimeFault
from assay.ports import Limits
from assay.ports.agents import Agent, Memory, ToolBox, ToolFailure
from assay.protocol.agents import (
    MAX_TOKENS,
    MAX_USD,
    AgentCard,
    HandoffStep,
    InvocationResult,
    MemoryEntry,
    MemoryWriteStep,
    Outcome,
    ReasoningStep,
    Step,
    ToolCalled,
    ToolReturned,
    ToolSpec,
    ToolStatus,
    Usage,
    UsageStep,
)
from assay.protocol.event_record import new_invocation_id
from assay.protocol.json_types import is_deeper, is_finite, is_object
from assay.protocol.redaction import redact, redact_text, safe_name

STATUS: dict[str, ToolStatus] = {"forbidden": "forbidden", "rate_limited": "rate_limited"}  # others: error
TOOL = re.compile(r"(?=.{3,256}\Z)[^\s:]+:[^\s]+")
AGENT = re.compile(r"[\w.:@/-]{3,256}")
DEEPEST = Limits().max_depth
OUTCOMES: tuple[str, ...] = get_args(Outcome)
GRACE = 5.0  # seconds beyond its own deadline after which we do not believe that it will end
LONGEST_TTL = 3_155_760_000  # seconds; a hundred years


class Invocation:
    """
    The Scene of one invocation. `steps` is what happened, in its order and without secrets; nothing is added once it is closed.

        stage = Stage(agent.card, FixtureTools(task.fixtures.tool_responses), SeededMemory(seeds), seconds=60)
        finish = await invoke(agent, task.input, stage)     # opens and closes it
        stage.steps, stage.seconds

    With `live`, the tools are the world's: then an agent without an allow-list has none.
    """

    def __init__(
        self,
        card: AgentCard,
        tools: ToolBox | None = None,
        memory: Memory | None = None,
        *,
        live: bool = False,
        invocation_id: str | None = None,
        task_id: str = "",
        trial: int = 0,
        memory_ref: str = "run",
        seconds: float | None = None,
        max_depth: int = DEEPEST,
    ) -> None:
        self.max_depth = max_depth  # of a result, and of what a tool is given and answers
        self.card, self.task_id, self.trial = card, task_id, trial
        self.invocation_id = invocation_id or new_invocation_id()
        self.steps: list[Step] = []
        self._box: ToolBox = tools or FixtureTools()
        allowed = () if live and card.tools is None else card.tools
        self._allowed = None if allowed is None else frozenset(allowed)
        self._live = live
        self._memory = RecordingMemory(memory or SeededMemory(), memory_ref, self)
        self._specs: tuple[ToolSpec, ...] = ()
        self._began = time.monotonic()
        self._seconds, self._end = seconds, math.inf
        self._closed: float | None = None
        self._calls = 0

    async def open(self) -> None:
        """The clock starts, once it is known what the tools look like."""
        names = self._names()
        self._specs = tuple(await self._box.specs(names) if self._live else self._box.static_specs(names))
        self._began = time.monotonic()
        self._end = self._began + self._seconds if self._seconds is not None else math.inf

    def close(self) -> None:
        """It is over: what a thread that was given up still does is not recorded, and reaches no tool."""
        if self._closed is None:
            self._closed = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return (self._closed or time.monotonic()) - self._began

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    @property
    def memory(self) -> "RecordingMemory":
        return self._memory

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        self._check_open()
        if self._allowed is None and tool not in self._names() and not _fits(TOOL, tool):
            raise ToolFailure(
                "invalid_arguments", "a tool is named <scope>:<tool-id>, at most 256 characters"
            )
        if self._allowed is not None and tool not in self._allowed:
            there = ", ".join(sorted(self._allowed)) or "none"
            raise ToolFailure("not_allowed", f"{tool} is not among the tools this agent may use: {there}")
        inputs = _plain(arguments, self.max_depth)
        self._calls += 1
        call_id = f"call-{self._calls}"
        spec = next((spec for spec in self._specs if spec.id == tool), None)
        transport = spec.transport if spec else "native"
        self.note(ToolCalled(call_id=call_id, tool=tool, inputs=redact(inputs), transport=transport))
        began = time.perf_counter()

        def returned(status: ToolStatus, **more: Any) -> None:
            took = round((time.perf_counter() - began) * 1000)
            self.note(ToolReturned(call_id=call_id, tool=tool, status=status, duration_ms=took, **more))

        try:
            outcome = await self._box.call(tool, inputs)
        except ToolFailure as failure:
            error = {"code": failure.code, "message": redact_text(str(failure))}
            returned(STATUS.get(failure.code, "error"), error=error)
            raise
        except BaseException:  # cancelled, or a bug of ours: the call has an end all the same
            returned("error", error={"code": "cancelled", "message": "the call was given up"})
            raise
        if is_deeper(outcome, self.max_depth):
            told = f"its answer is nested more than {self.max_depth} deep"
            returned("error", error={"code": "tool_error", "message": told})
            raise ToolFailure("tool_error", told)
        returned("ok", outcome=redact(outcome))
        return outcome

    async def tool(self, tool: str, /, **arguments: Any) -> Any:
        return await self.call(tool, arguments)

    def usage(
        self,
        *,
        provider: str,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cost_usd: float | None = None,
        cached: bool = False,
    ) -> None:
        self.used(
            Usage(
                provider=provider,
                model=model,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cost_usd=cost_usd,
                cached=cached,
            )
        )

    def used(self, usage: Usage) -> None:
        known = checked_usage(msgspec.to_builtins(usage))
        names = {"provider": safe_name(known.provider), "model": safe_name(known.model)}
        self.note(UsageStep(usage=msgspec.structs.replace(known, **names)))

    def reason(self, text: str, *, full: bool = False) -> None:
        self.note(ReasoningStep(text=redact_text(str(text)), verbosity="full" if full else "summary"))

    def hand_off(self, to_agent_id: str, reason: str = "") -> None:
        if not _fits(AGENT, to_agent_id):
            raise ValueError("hand_off: expected the id of an agent, of 3 to 256 characters")
        self.note(HandoffStep(to_agent_id=to_agent_id, reason=redact_text(str(reason))))

    def note(self, step: Step) -> None:
        """Nothing is noted after the end."""
        if self._closed is None:
            self.steps.append(step)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ToolFailure("over", "the invocation is over, and nothing can be called any more")

    def _names(self) -> tuple[str, ...]:
        if self._allowed is not None:
            return tuple(sorted(self._allowed))
        return self._box.tools if isinstance(self._box, FixtureTools) else ()


class RecordingMemory:
    """A Memory whose writes are noted, and redacted before anybody keeps them."""

    def __init__(self, memory: Memory, ref: str, invocation: Invocation) -> None:
        self._inner, self._ref, self._invocation = memory, ref, invocation

    async def list(self, *, tag: str | None = None, limit: int = 100) -> list[MemoryEntry]:
        return await self._inner.list(tag=tag, limit=limit)

    async def get(self, id: str) -> MemoryEntry | None:
        return await self._inner.get(id)

    async def write(self, content: str, *, tags: Sequence[str] = (), ttl: float | None = None) -> MemoryEntry:
        self._invocation._check_open()  # pyright: ignore[reportPrivateUsage]
        if ttl is not None and not abs(ttl) <= LONGEST_TTL:
            raise ToolFailure(
                "invalid_arguments", f"ttl: expected at most {LONGEST_TTL:,} seconds, got {ttl:g}"
            )
        kept = [redact_text(tag) for tag in tags]
        entry = await self._inner.write(redact_text(content), tags=kept, ttl=ttl)
        self._invocation.note(MemoryWriteStep(memory_ref=self._ref, memory_id=entry.id, tags=entry.tags))
        return entry


def checked_usage(told: Any) -> Usage:
    """What an agent says it used, if it can be: counts are not below 0, nor is a cost. A ValueError says why not."""
    try:
        usage = msgspec.convert(told, Usage)
    except msgspec.ValidationError as wrong:
        raise ValueError(f"usage: {str(wrong).replace('Expected', 'wanted')}") from None
    cost = usage.cost_usd
    if usage.input_tokens < 0 or usage.output_tokens < 0 or (cost is not None and not 0 <= cost < math.inf):
        raise ValueError("usage: expected counts of tokens and a cost that are not below 0")
    if max(usage.input_tokens, usage.output_tokens) > MAX_TOKENS:
        raise ValueError(f"usage: expected counts of tokens of at most {MAX_TOKENS:,}")
    if cost is not None and cost > MAX_USD:
        raise ValueError(f"usage: expected a cost of at most {MAX_USD:,} US dollars")
    return usage


def _fits(form: re.Pattern[str], said: object) -> bool:
    """An agent's word for something, which stands in an event: a name, and no text."""
    if not isinstance(said, str) or not said.isprintable() or form.fullmatch(said) is None:
        return False
    return redact_text(said) == said


def _plain(arguments: Any, max_depth: int) -> dict[str, Any]:
    """The arguments as JSON, and a copy: what a caller changes afterwards was not said."""
    if not is_object(arguments) or not is_finite(arguments):
        raise ToolFailure("invalid_arguments", "a tool's arguments are an object of JSON values")
    try:
        plain = msgspec.json.decode(msgspec.json.encode(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError) as wrong:
        raise ToolFailure("invalid_arguments", f"a tool's arguments are JSON values: {wrong}") from None
    if is_deeper(plain, max_depth):
        raise ToolFailure("invalid_arguments", f"a tool's arguments are nested at most {max_depth} deep")
    return plain


async def invoke(
    agent: Agent, task: Any, invocation: Invocation, *, grace: float = GRACE, floor: float | None = None
) -> InvocationResult:
    """
    How it ended. An agent that raises, hangs, refuses or answers nonsense was measured; only a ForeignFault or TimeFault, which
    is raised, says that it could not be asked. `floor` is how sure it must be, instead of its own threshold.
    """
    await invocation.open()
    try:
        async with asyncio.timeout(None if invocation.left == float("inf") else invocation.left + grace):
            finish = await agent.invoke(task, invocation)
    except (ForeignFault, TimeFault):
        raise
    except asyncio.CancelledError:
        here = asyncio.current_task()
        if here is not None and here.cancelling():
            raise
        finish = InvocationResult(outcome="failed", error="it cancelled itself")
    except TimeoutError:
        finish = InvocationResult(outcome="failed", error="it did not end in time")
    except Exception as surprise:  # noqa: BLE001  # an agent is foreign code
        finish = InvocationResult(outcome="failed", error=_words(surprise))
    finally:
        invocation.close()
    return _error_text(validate_result(agent.card, _sensible(finish), floor, invocation.max_depth))


def _words(surprise: Exception) -> str:
    try:
        return f"{type(surprise).__name__}: {surprise}"
    except Exception as another:  # noqa: BLE001  # its message is foreign code too
        return f"{type(surprise).__name__} (no message: {type(another).__name__} while it was made)"


def _sensible(finish: InvocationResult) -> InvocationResult:
    """What it says of its end, if that can be; else it answered nonsense, which is its failure."""
    sure: Any = finish.confidence
    error: Any = finish.error
    if finish.outcome not in OUTCOMES:
        why = f"it ended as {finish.outcome!r}: expected one of {', '.join(OUTCOMES)}"
    elif sure is not None and not (_is_number(sure) and 0 <= sure <= 1):
        why = "its confidence is no number from 0 to 1"
    elif not isinstance(error, str | None):
        why = "its error is no text"
    else:
        return finish
    return InvocationResult(outcome="failed", error=why)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _error_text(finish: InvocationResult) -> InvocationResult:
    """What went wrong is kept, and what its words give away is not."""
    return finish if finish.error is None else replace(finish, error=redact_text(finish.error))
