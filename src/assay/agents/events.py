"""What an agent did, as events (openwop-contract §5.1): the one table from steps to events, for every kind of run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from msgspec import UNSET

from assay.protocol import events as payloads
from assay.protocol.agents import (
    HandoffStep,
    InvocationResult,
    MemoryWriteStep,
    MessageStep,
    ReasoningStep,
    Step,
    ToolCalled,
    ToolReturned,
    Usage,
    UsageStep,
)
from assay.protocol.event_record import PendingEvent, new_event_id

Verbosity = Literal["summary", "full", "off"]


def _same(call_id: str) -> str:
    return call_id


def invocation_events(
    steps: Iterable[Step],
    agent_id: str,
    node_id: str,
    *,
    cause: str | None = None,
    verbosity: Verbosity | None = None,
    call_id: Callable[[str], str] = _same,
    event_id: Callable[[], str] = new_event_id,
) -> Iterator[PendingEvent]:
    """
    One event for each step, in order. `reasoningVerbosity` "off" drops the reasoning; None takes that of the step.

    An event points at `cause`, but the return of a tool points at its call. `call_id` makes the id of a call unique in
    its run. `event_id` is called once for each event, after the caller has taken the one before.
    """
    calls: dict[str, str] = {}  # the event of each call
    for step in steps:
        payload: payloads.Payload
        content: dict[str, Any] = {}
        points_at = cause
        match step:
            case ReasoningStep():
                shown = verbosity or step.verbosity
                if shown == "off":
                    continue
                type, payload = "agent.reasoned", payloads.AgentReasoned(agent_id=agent_id, verbosity=shown)
                content = {"reasoning": step.text}
            case ToolCalled():
                type = "agent.toolCalled"
                payload = payloads.AgentToolCalled(
                    agent_id=agent_id,
                    tool_name=step.tool,
                    call_id=call_id(step.call_id),
                    transport=step.transport,
                )
                content = {"inputs": step.inputs}
            case ToolReturned():
                type = "agent.toolReturned"
                payload = payloads.AgentToolReturned(
                    agent_id=agent_id,
                    tool_name=step.tool,
                    call_id=call_id(step.call_id),
                    status=step.status,
                    duration_ms=step.duration_ms,
                )
                outcome = None if step.outcome is UNSET else step.outcome
                content = {"outcome": outcome} if step.error is None else {"error": step.error}
                points_at = calls.get(step.call_id, cause)
            case UsageStep():
                type, payload = "provider.usage", usage_payload(step.usage, node_id)
            case MemoryWriteStep():
                type = "memory.written"
                payload = payloads.MemoryWritten(
                    memory_ref=step.memory_ref, memory_id=step.memory_id, node_id=node_id, agent_id=agent_id
                )
            case HandoffStep() | MessageStep():
                type, payload, content = _message(step, agent_id)
        id = event_id()
        if isinstance(step, ToolCalled):
            calls[step.call_id] = id
        yield PendingEvent(
            type=type, payload=payload, content=content, node_id=node_id, causation_id=points_at, id=id
        )


def _message(step: HandoffStep | MessageStep, agent_id: str) -> tuple[str, payloads.Payload, dict[str, Any]]:
    """What an agent says to another one, or what a user and an agent say to each other."""
    if isinstance(step, MessageStep):
        payload = payloads.TurnMessage(agent_id=agent_id, role=step.role, turn=step.turn)
        return "assay.turn.message", payload, {"message": step.content}
    handoff = payloads.AgentHandoff(from_agent_id=agent_id, to_agent_id=step.to_agent_id)
    return "agent.handoff", handoff, {"reason": step.reason} if step.reason else {}


def usage_payload(usage: Usage, node_id: str) -> payloads.ProviderUsage:
    """One model call (RFC 0026). A cost that is not known is left out."""
    return payloads.ProviderUsage(
        provider=usage.provider,
        model=usage.model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_estimate_usd=UNSET if usage.cost_usd is None else usage.cost_usd,
        currency=UNSET if usage.cost_usd is None else "USD",
        cache_hit=usage.cached or UNSET,
        node_id=node_id,
    )


def completion_payload(
    invocation_id: str, agent_id: str, result: InvocationResult
) -> payloads.InvocationCompleted:
    """The end of an invocation."""
    return payloads.InvocationCompleted(
        invocation_id=invocation_id,
        agent_id=agent_id,
        outcome=result.outcome,
        schema_validated=UNSET if result.schema_validated is None else result.schema_validated,
        confidence=UNSET if result.confidence is None else result.confidence,
    )
