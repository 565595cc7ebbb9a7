"""The events of one trial (openwop-contract §5.1). Each names its cause; content is stored apart from them."""

from msgspec import UNSET

from assay.agenteval.run_header import EvalHeader
from assay.agenteval.scoring import has_answer
from assay.agenteval.trial import SEEDS, TrialResult
from assay.agents.events import completion_payload, invocation_events, usage_payload
from assay.protocol import events as payloads
from assay.protocol.event_record import PendingEvent
from assay.protocol.redaction import redact


def task_node(task_id: str) -> str:
    return f"task:{task_id}"


def judge_node(task_id: str) -> str:
    return f"judge:{task_id}"


def trial_events(trial: TrialResult, header: EvalHeader, start: str | None) -> tuple[list[PendingEvent], str]:
    """
    The events in order, and the id of the one that the trial's `eval.scored` points at: the decision, or else the end.

    The first events point at `start`, the event that started the eval.
    """
    agent, node = header.agent_id, task_node(trial.task_id)
    events = [
        PendingEvent(
            type="memory.written",
            payload=payloads.MemoryWritten(memory_ref=SEEDS, memory_id=seed, node_id=node, agent_id=agent),
            node_id=node,
            causation_id=start,
        )
        for seed in trial.seeds
    ]
    started = PendingEvent(
        type="agent.invocation.started",
        payload=payloads.InvocationStarted(
            invocation_id=trial.invocation_id,
            agent_id=agent,
            source="run-api",
            resolved_agent_version=header.agent_version,
            tool_surface_count=trial.tools,
            memory_bound=bool(trial.seeds),
        ),
        node_id=node,
        causation_id=start,
    )
    events.append(started)
    events += invocation_events(trial.steps, agent, node, cause=started.id, verbosity=header.verbosity)
    decided = _decision(trial, agent, started.id)
    events += decided
    completed = PendingEvent(
        type="agent.invocation.completed",
        payload=completion_payload(trial.invocation_id, agent, trial.finish),
        node_id=node,
        causation_id=decided[0].id if decided else started.id,
    )
    events.append(completed)
    cause = decided[0].id if decided else completed.id
    judge = judge_node(trial.task_id)
    events += [
        PendingEvent(
            type="provider.usage", payload=usage_payload(usage, judge), node_id=judge, causation_id=cause
        )
        for usage in trial.judge
    ]
    return events, cause


def _decision(trial: TrialResult, agent: str, cause: str) -> list[PendingEvent]:
    """The agent's answer; nothing if it gave none."""
    result = trial.finish
    if not has_answer(result):
        return []
    confidence = UNSET if result.confidence is None else result.confidence
    return [
        PendingEvent(
            type="agent.decided",
            payload=payloads.AgentDecided(agent_id=agent, confidence=confidence),
            content={"decision": redact(result.result)},
            node_id=task_node(trial.task_id),
            causation_id=cause,
        )
    ]
