"""The events of one trial (openwop-contract §5.1). Each names its cause; content is stored apart from them."""

from msgspec import UNSET

from assay.agenteval.planning.run_header import EvalHeader
from assay.agenteval.scoring.safety_records import is_blocking
from assay.agenteval.scoring.scoring import bar_of, has_answer
from assay.agenteval.trial import SEEDS, TrialResult
from assay.agents.events import completion_payload, invocation_events, usage_payload
from assay.cases.outcomes import (
    NOT_MEASURED,
    CaseOutcomes,
    OutcomeColumns,
    labels_of,
    read_result,
    verdict_of,
)
from assay.ports.cases import ERROR, FAILED, PASSED, UNGRADED
from assay.protocol import events as payloads
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import TrialEnded
from assay.protocol.redaction import redact
from assay.results.check_names import AGENT_ANSWERED


def task_node(task_id: str) -> str:
    return f"task:{task_id}"


def judge_node(task_id: str) -> str:
    return f"judge:{task_id}"


def user_node(task_id: str) -> str:
    """Of the model that plays the user."""
    return f"user:{task_id}"


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
    others = ((judge_node(trial.task_id), trial.judge), (user_node(trial.task_id), trial.user))
    events += [
        PendingEvent(
            type="provider.usage", payload=usage_payload(usage, other), node_id=other, causation_id=cause
        )
        for other, usages in others
        for usage in usages
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


# The row of a trial in the table of cases (ADR-0068).


def _judges(trial: TrialResult) -> float | None:
    """The known cost of the judge; None if there is none."""
    known = [usage.cost_usd for usage in trial.judge if usage.cost_usd is not None]
    return sum(known) if known else None


def trial_row(trial: TrialResult, ended: TrialEnded, pass_score: float) -> CaseOutcomes:
    """The columns of one trial. A rubric passes if the score of the trial reaches the bar."""
    findings = trial.safety.findings if trial.safety is not None else None
    bar = bar_of(trial.kind, pass_score)
    columns, result = OutcomeColumns(), read_result(trial.line)
    score = None if ended.score is UNSET else ended.score
    blocked = findings is not None and is_blocking(findings)
    measured = FAILED if score is None or score < bar or blocked else PASSED
    cells: list[tuple[str, str]] = []
    for label, check in zip(labels_of(result.check_results), result.check_results, strict=True):
        outcome = NOT_MEASURED.get(check.status) or verdict_of({"results": check.results})
        if label != AGENT_ANSWERED:
            cells.append((label, measured if outcome == UNGRADED else outcome))
    cost = None if ended.cost_usd is UNSET else ended.cost_usd
    columns.add(
        ERROR if score is None else measured,
        cells,
        score=score,
        cost=cost,
        latency=None if ended.latency_ms is UNSET else float(ended.latency_ms),
        bar=bar,
        findings=None if findings is None else float(-len(findings) if blocked else len(findings)),
        judges=_judges(trial),
    )
    made = columns.outcomes()
    return CaseOutcomes(
        labels=made.labels, columns=made.columns, spent=cost or 0.0, unknown=int(cost is None)
    )
