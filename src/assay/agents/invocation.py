"""One invocation of an agent: its context, and the record of what it did (openwop-contract §5, §6.2, §6.5)."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from assay.agents.fixtures import FixtureTools, SeededMemory
from assay.agents.handoff import validate_result
from assay.agents.recording_memory import RecordingMemory
from assay.agents.usage import valid_usage
from assay.agents.valid_calls import AGENT, TOOL, fits, json_arguments
from assay.concurrency.foreign_code import exception_text
from assay.errors import ForeignFault, NotMeasured, TimeFault
from assay.errors.connection import is_connection_error
from assay.ports import Limits
from assay.ports.agents import RECORDED, Agent, Memory, Recorded, ToolBox, ToolFailure
from assay.protocol.agents import (
    AgentCard,
    HandoffStep,
    InvocationResult,
    MessageStep,
    Outcome,
    ReasoningStep,
    RecordedInvocation,
    Step,
    ToolAttempt,
    ToolCalled,
    ToolReturned,
    ToolSpec,
    ToolStatus,
    Usage,
    UsageStep,
)
from assay.protocol.event_record import new_invocation_id
from assay.protocol.foreign_values import json_of
from assay.protocol.json_types import is_deeper
from assay.protocol.redaction import redact, redact_text, safe_name

STATUS: dict[str, ToolStatus] = {"forbidden": "forbidden", "rate_limited": "rate_limited"}  # others: error
DEEPEST = Limits().max_depth
OUTCOMES: tuple[str, ...] = get_args(Outcome)
GRACE = 5.0  # seconds beyond its own deadline after which it is cancelled
MAX_ATTEMPTS = 10_000  # tool calls of one invocation that are kept for detectors


class Invocation:
    """
    The AgentContext of one invocation.

    `steps` is what happened, in order and without secrets. Nothing is added once it is closed.

        invocation = Invocation(agent.card, FixtureTools(task.fixtures.tool_responses), SeededMemory(seeds), seconds=60)
        result = await invoke(agent, task.input, invocation)     # opens and closes it
        invocation.steps, invocation.seconds

    With `live`, the tools are live ones; then an agent without an allow-list has none. Tools that the agent brings
    itself run with live tools, unless `runs_own` says otherwise.
    """

    def __init__(
        self,
        card: AgentCard,
        tools: ToolBox | None = None,
        memory: Memory | None = None,
        *,
        live: bool = False,
        runs_own: bool | None = None,
        invocation_id: str | None = None,
        task_id: str = "",
        trial: int = 0,
        memory_ref: str = "run",
        seconds: float | None = None,
        max_depth: int = DEEPEST,
    ) -> None:
        self.max_depth = max_depth  # of a result, and of a tool's arguments and answer
        self.card, self.task_id, self.trial = card, task_id, trial
        self.invocation_id = invocation_id or new_invocation_id()
        self.steps: list[Step] = []
        self.attempts: list[ToolAttempt] = []  # for detectors: with secrets, and with refused calls
        self._toolbox: ToolBox = tools or FixtureTools()
        allowed = () if live and card.tools is None else card.tools
        self._allowed = None if allowed is None else frozenset(allowed)
        self._live = live
        self.runs_own = live if runs_own is None else runs_own
        self._memory, self._memory_ref = memory or SeededMemory(), memory_ref
        self._specs: tuple[ToolSpec, ...] = ()
        self.tool_count = 0
        self._start = time.monotonic()
        self._seconds, self._end = seconds, math.inf
        self._closed: float | None = None
        self._calls = 0
        self._messages: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        self.fault: ForeignFault | TimeFault | None = None  # why this invocation cannot be measured

    async def open(self) -> None:
        """Get the specs of the tools, then start the clock."""
        names = self._names()
        self._specs = tuple(
            await self._toolbox.specs(names) if self._live else self._toolbox.static_specs(names)
        )
        self.tool_count = len(self._specs)
        self._start = time.monotonic()
        self._end = self._start + self._seconds if self._seconds is not None else math.inf

    def close(self) -> None:
        """End it. What an abandoned thread still does is not recorded, and it cannot call a tool."""
        if self._closed is None:
            self._closed = time.monotonic()

    @property
    def seconds(self) -> float:
        """How many seconds it took, or has taken so far."""
        return (time.monotonic() if self._closed is None else self._closed) - self._start

    def record(self) -> RecordedInvocation:
        """What an invocation that is closed did."""
        return RecordedInvocation(
            invocation_id=self.invocation_id,
            seconds=self.seconds,
            steps=self.steps,
            attempts=self.attempts,
            messages=self._messages,
            tools=self.tool_count,
        )

    def recall(self, recorded: RecordedInvocation) -> None:
        """Be an invocation that was recorded. It is closed."""
        self.invocation_id, self.tool_count = recorded.invocation_id, recorded.tools
        self.steps, self.attempts, self._messages = recorded.steps, recorded.attempts, recorded.messages
        self._start, self._closed = 0.0, recorded.seconds

    @property
    def remaining_seconds(self) -> float:
        return self._end - time.monotonic()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """A copy: what an agent does to it changes no other turn."""
        return deepcopy(self._messages)

    def say(self, role: Literal["user", "assistant"], content: Any, turn: int) -> None:
        """Add a message to the conversation, and to the record without its secrets."""
        self._messages.append({"role": role, "content": content})
        self.note(MessageStep(role=role, content=redact(content), turn=turn))

    @contextmanager
    def pause(self) -> Generator[None]:
        """What happens meanwhile takes none of the agent's time."""
        began = time.monotonic()
        try:
            yield
        finally:
            away = time.monotonic() - began
            self._start, self._end = self._start + away, self._end + away

    @property
    def memory(self) -> RecordingMemory:
        return RecordingMemory(self._memory, self._memory_ref, self)  # kept, it would be a cycle

    @property
    def tools(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        self.check_open()
        if self._allowed is None and tool not in self._names() and not fits(TOOL, tool):
            self._attempt(tool, arguments, "refused")
            raise ToolFailure(
                "invalid_arguments",
                "expected the name of a tool: at most 256 characters, without spaces",
            )
        self._check_allowed(tool, arguments, self._allowed)
        return await self._record(tool, arguments, lambda inputs: self._toolbox.call(tool, inputs))

    async def call_own(self, name: str, arguments: dict[str, Any], run: Callable[[], Awaitable[Any]]) -> Any:
        self.check_open()
        tool = self.own_id(name)
        self._check_allowed(tool, arguments, None if self.card.tools is None else frozenset(self.card.tools))
        if not self.runs_own:
            return await self._record(tool, arguments, lambda inputs: self._toolbox.call(tool, inputs))
        answer: list[Any] = []

        async def perform(inputs: dict[str, Any]) -> Any:
            answer.append(await run())
            return json_of(answer[0])

        await self._record(tool, arguments, perform)
        return answer[0]

    def own_id(self, name: str) -> str:
        """The id of a tool of the agent's own: its name, or the one `<scope>:<name>` that the run knows."""
        known = self.card.tools if self.card.tools is not None else self._names()
        scoped = [one for one in known if one.partition(":")[2] == name]
        return scoped[0] if name not in known and len(scoped) == 1 else name

    def _check_allowed(self, tool: str, arguments: Any, allowed: frozenset[str] | None) -> None:
        if allowed is not None and tool not in allowed:
            there = ", ".join(sorted(allowed)) or "none"
            self._attempt(tool, arguments, "refused")
            raise ToolFailure(
                "not_allowed", f"{tool} is not among the tools that this agent may use: {there}"
            )

    async def _record(
        self, tool: str, arguments: Any, ask: Callable[[dict[str, Any]], Awaitable[Any]]
    ) -> Any:
        """Ask for the answer of a tool. The call and its return are steps."""
        inputs = json_arguments(arguments, self.max_depth)
        self._calls += 1
        call_id = f"call-{self._calls}"
        spec = next((spec for spec in self._specs if spec.id == tool), None)
        transport = spec.transport if spec else "native"
        self.note(ToolCalled(call_id=call_id, tool=tool, inputs=redact(inputs), transport=transport))
        began = time.perf_counter()

        def record_return(status: ToolStatus, **members: Any) -> None:
            self._attempt(tool, inputs, "ok" if status == "ok" else "error")
            took = round((time.perf_counter() - began) * 1000)
            self.note(ToolReturned(call_id=call_id, tool=tool, status=status, duration_ms=took, **members))

        try:
            outcome = await ask(inputs)
        except ToolFailure as failure:
            error = {"code": failure.code, "message": redact_text(str(failure))}
            record_return(STATUS.get(failure.code, "error"), error=error)
            raise
        except (
            ForeignFault,
            TimeFault,
        ) as fault:  # of a fixture: the agent gets an answer, and is not measured
            self.fault = self.fault or fault
            record_return("error", error={"code": "tool_error", "message": redact_text(str(fault))})
            raise ToolFailure("tool_error", str(fault)) from fault
        except Exception as surprise:  # of a tool of the agent's own: the agent gets it
            message = redact_text(exception_text(surprise))
            record_return("error", error={"code": "tool_error", "message": message})
            raise
        except BaseException:  # cancelled, or a bug: the call gets an end all the same
            record_return("error", error={"code": "cancelled", "message": "the call was cancelled"})
            raise
        if is_deeper(outcome, self.max_depth):
            message = f"the answer is nested more than {self.max_depth} deep"
            record_return("error", error={"code": "tool_error", "message": message})
            raise ToolFailure("tool_error", message)
        record_return("ok", outcome=redact(outcome))
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
    ) -> Recorded:
        return self.record_usage(
            Usage(
                provider=provider,
                model=model,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cost_usd=cost_usd,
                cached=cached,
            )
        )

    def record_usage(self, usage: Usage) -> Recorded:
        known = valid_usage(msgspec.to_builtins(usage))
        names = {"provider": safe_name(known.provider), "model": safe_name(known.model)}
        self.note(UsageStep(usage=msgspec.structs.replace(known, **names)))
        return RECORDED

    def reason(self, text: str, *, full: bool = False) -> Recorded:
        self.note(ReasoningStep(text=redact_text(str(text)), verbosity="full" if full else "summary"))
        return RECORDED

    def hand_off(self, to_agent_id: str, reason: str = "") -> Recorded:
        if not fits(AGENT, to_agent_id):
            raise ValueError("hand_off: expected the id of an agent, of 3 to 256 characters")
        self.note(HandoffStep(to_agent_id=to_agent_id, reason=redact_text(str(reason))))
        return RECORDED

    def note(self, step: Step) -> None:
        """Add a step and its time, unless the invocation is closed."""
        if self._closed is None:
            self.steps.append(replace(step, at_ms=round((time.monotonic() - self._start) * 1000)))

    def _attempt(self, tool: str, arguments: Any, outcome: Literal["ok", "error", "refused"]) -> None:
        if self._closed is None and len(self.attempts) < MAX_ATTEMPTS:
            if outcome == "refused":  # its arguments are not converted yet
                tool = str(tool)
                try:
                    arguments = json_arguments(arguments, self.max_depth)
                except ToolFailure:
                    arguments = None
            self.attempts.append(ToolAttempt(tool=tool, arguments=arguments, outcome=outcome))

    def check_open(self) -> None:
        if self._closed is not None:
            raise ToolFailure("over", "the invocation is over; nothing can be called any more")

    def _names(self) -> tuple[str, ...]:
        if self._allowed is not None:
            return tuple(sorted(self._allowed))
        return self._toolbox.tools if isinstance(self._toolbox, FixtureTools) else ()


async def invoke(
    agent: Agent,
    task: Any,
    invocation: Invocation,
    *,
    grace: float = GRACE,
    min_confidence: float | None = None,
) -> InvocationResult:
    """
    Invoke an agent and return how it ended.

    An agent that raises, hangs, refuses or answers nonsense was measured. Only a ForeignFault or TimeFault is raised:
    the agent could not be called. `min_confidence` is the lowest confidence, instead of the agent's own threshold.
    """
    await invocation.open()
    try:
        finish = await answer_of(agent, task, invocation, grace=grace)
    finally:
        invocation.close()
    return end_of(agent, finish, invocation, min_confidence)


async def answer_of(
    agent: Agent, task: Any, invocation: Invocation, *, grace: float = GRACE
) -> InvocationResult:
    """The answer of an agent in an open invocation. It is valid; its schemas are not looked at."""
    try:
        async with asyncio.timeout(
            None if invocation.remaining_seconds == float("inf") else invocation.remaining_seconds + grace
        ):
            finish = await agent.invoke(task, invocation)
    except (ForeignFault, TimeFault):
        raise
    except asyncio.CancelledError:
        here = asyncio.current_task()
        if here is not None and here.cancelling():
            raise
        finish = InvocationResult(outcome="failed", error="the agent cancelled itself")
    except TimeoutError:
        finish = InvocationResult(outcome="failed", error="the agent did not end in time")
    except Exception as surprise:  # an agent is foreign code
        if is_connection_error(surprise):
            raise NotMeasured(exception_text(surprise)) from surprise
        finish = InvocationResult(outcome="failed", error=exception_text(surprise))
    if invocation.fault is not None:
        raise invocation.fault
    return _valid_finish(finish)


def end_of(
    agent: Agent, finish: InvocationResult, invocation: Invocation, min_confidence: float | None
) -> InvocationResult:
    """How an invocation ended, by the schema of the agent and its confidence."""
    return _error_text(validate_result(agent.card, finish, min_confidence, invocation.max_depth))


def _valid_finish(finish: InvocationResult) -> InvocationResult:
    """The result, if it is valid; else a `failed` one."""
    sure: Any = finish.confidence
    error: Any = finish.error
    if finish.outcome not in OUTCOMES:
        why = f"outcome: expected one of {', '.join(OUTCOMES)}, got {finish.outcome!r}"
    elif sure is not None and not (_is_number(sure) and 0 <= sure <= 1):
        why = "confidence: expected a number from 0 to 1"
    elif not isinstance(error, str | None):
        why = "error: expected a text"
    else:
        return finish
    return InvocationResult(outcome="failed", error=why)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _error_text(finish: InvocationResult) -> InvocationResult:
    """The result with secrets removed from its error."""
    return finish if finish.error is None else replace(finish, error=redact_text(finish.error))
