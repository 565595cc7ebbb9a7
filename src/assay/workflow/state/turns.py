"""Turns of agents and critics, and their events (openwop-contract §5.1, §8.1)."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from assay.agents.events import completion_payload, invocation_events
from assay.protocol.agents import InvocationResult, MemoryWriteStep, Outcome, Step
from assay.protocol.events import AgentDecided, AgentToolReturned, AgentVerified, InvocationStarted
from assay.protocol.verification import Role
from assay.workflow.state.effects import Invoke, Verify, stable_id
from assay.workflow.state.execution_state import Execution, RunStopped, Steps
from assay.workflow.state.verdict_gating import Verdict, is_below

USABLE: tuple[Outcome, ...] = ("completed", "escalated")  # outcomes of a turn that has a result


class CriticResult(Struct, frozen=True, kw_only=True):
    """
    A critic's turn: its verdict, the criteria it judged and which of them are met. Its notes go only to the actor.

    `criteria` are the keys for events; `agent_criteria` are the keys as the agent wrote them.
    """

    agent: str
    verdict: Verdict
    outcome: Outcome = "completed"
    criteria: tuple[str, ...] = ()
    agent_criteria: tuple[str, ...] = field(default=(), name="named")
    criteria_met: dict[str, bool] = field(default_factory=dict[str, bool], name="met")
    confidence: float | None = None
    notes: str = ""
    error: str | None = None  # the reason why it gave no verdict
    steps: tuple[Step, ...] = ()
    invocation: str = ""


class AgentTurn(Struct, frozen=True, kw_only=True):
    """An agent's turn. `tool_verdicts` has the verdicts on the answers of its tool calls, by call id."""

    agent: str
    outcome: Outcome
    invocation: str = ""
    version: str = "0.0.0"
    channel: str | None = None  # that was resolved to the version
    tools: int = 0
    threshold: float | None = None
    result: Any = None
    confidence: float | None = None
    error: str | None = None
    schema_validated: bool | None = None
    criteria: tuple[str, ...] = ()  # keys that its settings declare
    steps: tuple[Step, ...] = ()
    tool_verdicts: dict[str, list[CriticResult]] = field(
        default_factory=dict[str, list[CriticResult]], name="checked"
    )


def invoke_agent(
    execution: Execution, node: str, agent: str, task: Any, role: Role = "actor", **more: Any
) -> Steps[AgentTurn]:
    """Run an agent's turn. If the agent cannot be called, the run ends."""
    channel: str | None = more.get("channel")
    if channel is not None:
        more["version"] = execution.pins.get((agent, channel))
    effect = Invoke(node=node, agent=agent, task=task, invocation=execution.invocation(), **more)
    result = yield from execution.perform(effect)
    if result.error is not None:
        if result.error.reason:
            execution.record_failure(role, agent, result.error.reason)
        raise RunStopped(result.error.code, result.error.message, node=node)
    done = msgspec.structs.replace(msgspec.convert(result.value, AgentTurn), invocation=effect.invocation)
    if channel is not None:
        execution.pins[agent, channel] = done.version
    if done.outcome not in USABLE:
        execution.record_failure(role, agent, done.error)
    return done


def escalate_if_unsure(turn: AgentTurn, min_confidence: float) -> AgentTurn:
    """The turn, `escalated` if its confidence is below the floor."""
    if turn.outcome == "completed" and is_below(turn.confidence, min_confidence):
        return msgspec.structs.replace(turn, outcome="escalated")
    return turn


def verify(
    execution: Execution,
    node: str,
    critic: dict[str, Any],
    *,
    task: Any,
    result: Any,
    target: str,
    cause: str,
    criteria: tuple[str, ...],
) -> Steps[CriticResult]:
    """Run a critic's turn and emit its verdict. The verdict's cause is the event that carries the target."""
    effect = Verify(
        node=node,
        critic=critic,
        task=task,
        result=result,
        target=target,
        criteria=criteria,
        invocation=execution.invocation(),
    )
    came = yield from execution.perform(effect)
    found = msgspec.structs.replace(msgspec.convert(came.value, CriticResult), invocation=effect.invocation)
    emit_verdict(execution, node, found, target, cause)
    return found


def emit_verdict(execution: Execution, node: str, result: CriticResult, target: str, cause: str) -> None:
    if result.error is not None:
        execution.record_failure("critic", result.agent, result.error)
    turn = AgentTurn(
        agent=result.agent,
        outcome=result.outcome,
        invocation=result.invocation,
        confidence=result.confidence,
        steps=result.steps,
    )
    with invocation(execution, node, turn):
        verified = AgentVerified(
            agent_id=result.agent,
            target=target,
            verdict=result.verdict,
            criteria=result.criteria or UNSET,
            confidence=_or_unset(result.confidence),
        )
        execution.emit("agent.verified", verified, node=node, cause=cause)


@contextmanager
def invocation(execution: Execution, node: str, turn: AgentTurn) -> Generator[None]:
    """The events of an invocation: its start, its steps, then what the caller emits inside the block, then its end."""
    started = InvocationStarted(
        invocation_id=turn.invocation,
        agent_id=turn.agent,
        source="workflow-node",
        resolved_agent_version=turn.version,
        resolved_channel=turn.channel or UNSET,
        tool_surface_count=turn.tools,
    )
    execution.emit("agent.invocation.started", started, node=node)
    _emit_steps(execution, node, turn)
    yield
    result = InvocationResult(
        outcome=turn.outcome, confidence=turn.confidence, schema_validated=turn.schema_validated
    )
    completed = completion_payload(turn.invocation, turn.agent, result)
    execution.emit("agent.invocation.completed", completed, node=node)


def emit_decision(execution: Execution, node: str, turn: AgentTurn) -> str:
    """Emit the result of a turn and return the event's id. This does not commit the result."""
    decided = AgentDecided(agent_id=turn.agent, confidence=_or_unset(turn.confidence))
    return execution.emit("agent.decided", decided, node=node, decision=turn.result)


def _emit_steps(execution: Execution, node: str, turn: AgentTurn) -> None:
    """Memory writes have no event here: workflows do not offer memory attribution."""

    def call_id(call: str) -> str:
        """Unique in the run: every invocation counts its calls from one."""
        return stable_id("call", turn.invocation, call)

    checked = {call_id(call): found for call, found in turn.tool_verdicts.items()}
    steps = (step for step in turn.steps if not isinstance(step, MemoryWriteStep))
    verbosity = execution.configurable.get("reasoningVerbosity")
    for event in invocation_events(
        steps, turn.agent, node, verbosity=verbosity, call_id=call_id, event_id=execution.next_event_id
    ):
        execution.append(event)
        if isinstance(event.payload, AgentToolReturned):
            for found in checked.get(event.payload.call_id, ()):
                ready = msgspec.structs.replace(found, invocation=execution.invocation())
                emit_verdict(execution, node, ready, event.payload.call_id, event.id)


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value
