"""One invocation as events (contract §5.1): what an agent did between its first and its last, and a critic's word in a bracket of its own (§8.1)."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from assay.protocol.agents import (
    HandoffStep,
    Outcome,
    ReasoningStep,
    Step,
    ToolCalled,
    ToolReturned,
    UsageStep,
)
from assay.protocol.events import (
    AgentDecided,
    AgentHandoff,
    AgentReasoned,
    AgentToolCalled,
    AgentToolReturned,
    AgentVerified,
    InvocationCompleted,
    InvocationStarted,
    ProviderUsage,
)
from assay.protocol.verification import Role
from assay.workflow.effects import Invoke, Verify, stable_id
from assay.workflow.execution import Execution, RunStopped, Steps
from assay.workflow.gating import Verdict, below

USABLE: tuple[Outcome, ...] = ("completed", "escalated")  # ends of a turn that came to something


class CriticResult(Struct, frozen=True, kw_only=True):
    """
    A critic's turn: its verdict, the keys it looked at and which of them hold; its notes go to the actor and nowhere else.

    `criteria` are keys that an event may hold; `named` are those of an agent, in its own words.
    """

    agent: str
    verdict: Verdict
    outcome: Outcome = "completed"
    criteria: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    met: dict[str, bool] = {}
    confidence: float | None = None
    notes: str = ""
    error: str | None = None  # why it gave no verdict
    steps: tuple[Step, ...] = ()
    invocation: str = ""


class AgentTurn(Struct, frozen=True, kw_only=True):
    """An agent's turn. `checked` has, by the number of a tool call, what critics said of its answer."""

    agent: str
    outcome: Outcome
    invocation: str = ""
    version: str = "0.0.0"
    tools: int = 0
    threshold: float | None = None
    result: Any = None
    confidence: float | None = None
    error: str | None = None
    schema_validated: bool | None = None
    criteria: tuple[str, ...] = ()  # keys of its own, by its settings
    steps: tuple[Step, ...] = ()
    checked: dict[str, list[CriticResult]] = {}


def invoked(
    flow: Execution, node: str, agent: str, task: Any, role: Role = "actor", **more: Any
) -> Steps[AgentTurn]:
    """Ask an agent; whoever cannot be asked at all ends the run."""
    effect = Invoke(node=node, agent=agent, task=task, invocation=flow.invocation(), **more)
    result = yield from flow.do(effect)
    if result.trouble is not None:
        if result.trouble.why:
            flow.failed(role, agent, result.trouble.why)
        raise RunStopped(result.trouble.code, result.trouble.message, node=node)
    done = msgspec.structs.replace(msgspec.convert(result.value, AgentTurn), invocation=effect.invocation)
    if done.outcome not in USABLE:
        flow.failed(role, agent, done.error)
    return done


def escalate_if_unsure(done: AgentTurn, floor: float) -> AgentTurn:
    """`escalated` by its own word, or below the floor that holds here."""
    if done.outcome == "completed" and below(done.confidence, floor):
        return msgspec.structs.replace(done, outcome="escalated")
    return done


def judged(
    flow: Execution,
    node: str,
    critic: dict[str, Any],
    *,
    task: Any,
    result: Any,
    target: str,
    cause: str,
    criteria: tuple[str, ...],
) -> Steps[CriticResult]:
    """A critic's turn, told: the verdict points at the event that carries what it is about."""
    effect = Verify(
        node=node,
        critic=critic,
        task=task,
        result=result,
        target=target,
        criteria=criteria,
        invocation=flow.invocation(),
    )
    came = yield from flow.do(effect)
    found = msgspec.structs.replace(msgspec.convert(came.value, CriticResult), invocation=effect.invocation)
    tell_verdict(flow, node, found, target, cause)
    return found


def tell_verdict(flow: Execution, node: str, found: CriticResult, target: str, cause: str) -> None:
    if found.error is not None:
        flow.failed("critic", found.agent, found.error)
    turn = AgentTurn(
        agent=found.agent,
        outcome=found.outcome,
        invocation=found.invocation,
        confidence=found.confidence,
        steps=found.steps,
    )
    with bracket(flow, node, turn):
        verified = AgentVerified(
            agent_id=found.agent,
            target=target,
            verdict=found.verdict,
            criteria=found.criteria or UNSET,
            confidence=_or_unset(found.confidence),
        )
        flow.tell("agent.verified", verified, node=node, cause=cause)


@contextmanager
def bracket(flow: Execution, node: str, turn: AgentTurn) -> Generator[None]:
    """Its first event, all it did, what is told inside, and its last."""
    started = InvocationStarted(
        invocation_id=turn.invocation,
        agent_id=turn.agent,
        source="workflow-node",
        resolved_agent_version=turn.version,
        tool_surface_count=turn.tools,
    )
    flow.tell("agent.invocation.started", started, node=node)
    _tell_steps(flow, node, turn)
    yield
    completed = InvocationCompleted(
        invocation_id=turn.invocation,
        agent_id=turn.agent,
        outcome=turn.outcome,
        schema_validated=_or_unset(turn.schema_validated),
        confidence=_or_unset(turn.confidence),
    )
    flow.tell("agent.invocation.completed", completed, node=node)


def decided(flow: Execution, node: str, turn: AgentTurn) -> str:
    """What it came to, which is not committed by being said; the event's id."""
    said = AgentDecided(agent_id=turn.agent, confidence=_or_unset(turn.confidence))
    return flow.tell("agent.decided", said, node=node, decision=turn.result)


def _tell_steps(flow: Execution, node: str, turn: AgentTurn) -> None:
    calls: dict[str, str] = {}
    for step in turn.steps:
        match step:
            case ReasoningStep():
                if (verbosity := flow.configurable.get("reasoningVerbosity", step.verbosity)) != "off":
                    reasoned = AgentReasoned(agent_id=turn.agent, verbosity=verbosity)
                    flow.tell("agent.reasoned", reasoned, node=node, reasoning=step.text)
            case ToolCalled():
                called = AgentToolCalled(
                    agent_id=turn.agent,
                    tool_name=step.tool,
                    call_id=_call_id(turn, step.call_id),
                    transport=step.transport,
                )
                calls[step.call_id] = flow.tell("agent.toolCalled", called, node=node, inputs=step.inputs)
            case ToolReturned():
                _tell_returned(flow, node, turn, step, calls.get(step.call_id))
            case UsageStep(usage=usage):
                used = ProviderUsage(
                    provider=usage.provider,
                    model=usage.model,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost_estimate_usd=_or_unset(usage.cost_usd),
                    currency=UNSET if usage.cost_usd is None else "USD",
                    cache_hit=usage.cached or UNSET,
                    node_id=node,
                )
                flow.tell("provider.usage", used, node=node)
            case HandoffStep():
                handed = AgentHandoff(from_agent_id=turn.agent, to_agent_id=step.to_agent_id)
                flow.tell("agent.handoff", handed, node=node, reason=step.reason or UNSET)
            case _:
                pass  # what it wrote into its memory is told where attribution is offered


def _tell_returned(
    flow: Execution, node: str, turn: AgentTurn, step: ToolReturned, cause: str | None
) -> None:
    returned = AgentToolReturned(
        agent_id=turn.agent,
        tool_name=step.tool,
        call_id=_call_id(turn, step.call_id),
        status=step.status,
        duration_ms=step.duration_ms,
    )
    told = {"outcome": step.outcome} if step.error is None else {"error": step.error}
    carrier = flow.tell("agent.toolReturned", returned, node=node, cause=cause, **told)
    for found in turn.checked.get(step.call_id, ()):
        ready = msgspec.structs.replace(found, invocation=flow.invocation())
        tell_verdict(flow, node, ready, returned.call_id, carrier)


def _call_id(turn: AgentTurn, call: str) -> str:
    """Fresh in its run: every invocation counts from one."""
    return stable_id("call", turn.invocation, call)


def _or_unset(value: Any) -> Any:
    return UNSET if value is None else value
