"""A trial as events: the bracket of contract §5.1, each with its cause, and content beside them."""

from typing import Any, Literal

from msgspec import UNSET

from assay.agenteval.run_header import EvalHeader
from assay.agenteval.scoring import answered
from assay.agenteval.trial import SEEDS, TrialResult
from assay.protocol import events as payloads
from assay.protocol.agents import (
    HandoffStep,
    MemoryWriteStep,
    ReasoningStep,
    Step,
    ToolCalled,
    ToolReturned,
    Usage,
    UsageStep,
)
from assay.protocol.event_record import PendingEvent
from assay.protocol.redaction import redacted


def task_node(task_id: str) -> str:
    return f"task:{task_id}"


def judge_node(task_id: str) -> str:
    return f"judge:{task_id}"


class Bracket:
    """The facts of one trial, in their order; `cause` is the event its `eval.scored` points at."""

    def __init__(self, trial: TrialResult, request: EvalHeader, began: str | None) -> None:
        self.facts: list[PendingEvent] = []
        self._agent, self._node = request.agent_id, task_node(trial.task_id)
        self._verbosity: Literal["summary", "full", "off"] | None = request.verbosity
        self._calls: dict[str, str] = {}
        for seed in trial.seeds:
            written = payloads.MemoryWritten(
                memory_ref=SEEDS, memory_id=seed, node_id=self._node, agent_id=request.agent_id
            )
            self._add("memory.written", written, cause=began)
        opened = payloads.InvocationStarted(
            invocation_id=trial.invocation_id,
            agent_id=request.agent_id,
            source="run-api",
            resolved_agent_version=request.agent_version,
            tool_surface_count=trial.tools,
            memory_bound=bool(trial.seeds),
        )
        self._opened = self._add("agent.invocation.started", opened, cause=began)
        for step in trial.steps:
            self._step(step)
        self.cause = self._close(trial)
        for usage in trial.judge:
            self._usage(usage, judge_node(trial.task_id), self.cause)

    def _close(self, trial: TrialResult) -> str:
        """The decision, if there was one, and the end of the invocation."""
        finish = trial.finish
        confidence = UNSET if finish.confidence is None else finish.confidence
        cause = self._opened
        if answered(finish):
            decided = payloads.AgentDecided(agent_id=self._agent, confidence=confidence)
            cause = self._add("agent.decided", decided, {"decision": redacted(finish.result)}, self._opened)
        ended = payloads.InvocationCompleted(
            invocation_id=trial.invocation_id,
            agent_id=self._agent,
            outcome=finish.outcome,
            schema_validated=UNSET if finish.schema_validated is None else finish.schema_validated,
            confidence=confidence,
        )
        last = self._add("agent.invocation.completed", ended, cause=cause)
        return cause if cause != self._opened else last

    def _step(self, step: Step) -> None:
        agent, opened = self._agent, self._opened
        match step:
            case ReasoningStep():
                if (verbosity := self._verbosity or step.verbosity) != "off":
                    told = payloads.AgentReasoned(agent_id=agent, verbosity=verbosity)
                    self._add("agent.reasoned", told, {"reasoning": step.text}, opened)
            case ToolCalled():
                called = payloads.AgentToolCalled(
                    agent_id=agent, tool_name=step.tool, call_id=step.call_id, transport=step.transport
                )
                self._calls[step.call_id] = self._add(
                    "agent.toolCalled", called, {"inputs": step.inputs}, opened
                )
            case ToolReturned():
                self._returned(step)
            case UsageStep():
                self._usage(step.usage, self._node, opened)
            case MemoryWriteStep():
                written = payloads.MemoryWritten(
                    memory_ref=step.memory_ref, memory_id=step.memory_id, node_id=self._node, agent_id=agent
                )
                self._add("memory.written", written, cause=opened)
            case HandoffStep():
                handed = payloads.AgentHandoff(from_agent_id=agent, to_agent_id=step.to_agent_id)
                self._add("agent.handoff", handed, {"reason": step.reason} if step.reason else {}, opened)

    def _returned(self, step: ToolReturned) -> None:
        returned = payloads.AgentToolReturned(
            agent_id=self._agent,
            tool_name=step.tool,
            call_id=step.call_id,
            status=step.status,
            duration_ms=step.duration_ms,
        )
        content: dict[str, Any] = (
            {"error": step.error} if step.error is not None else {"outcome": step.outcome}
        )
        if step.error is None and step.outcome is UNSET:
            content = {"outcome": None}
        self._add("agent.toolReturned", returned, content, self._calls.get(step.call_id, self._opened))

    def _usage(self, usage: Usage, node: str, cause: str) -> None:
        known = usage.cost_usd is not None
        used = payloads.ProviderUsage(
            provider=usage.provider,
            model=usage.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost_estimate_usd=usage.cost_usd if usage.cost_usd is not None else UNSET,
            currency="USD" if known else UNSET,
            cache_hit=True if usage.cached else UNSET,
            node_id=node,
        )
        self._add("provider.usage", used, cause=cause, node=node)

    def _add(
        self,
        type: str,
        payload: payloads.Payload,
        content: dict[str, Any] | None = None,
        cause: str | None = None,
        node: str | None = None,
    ) -> str:
        fact = PendingEvent(
            type=type, payload=payload, content=content or {}, node_id=node or self._node, causation_id=cause
        )
        self.facts.append(fact)
        return fact.id
