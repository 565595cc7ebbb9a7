"""The verification report of a workflow run, without content (openwop-contract §8.1, openwop-contract §8.5)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from assay.ports import Event, Run, Store
from assay.protocol.event_record import decode_event
from assay.protocol.verification import CriticVerdict, Verification, VerificationReport
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.replayer import replay_run
from assay.workflow.state.execution_state import Execution
from assay.workflow.state.verdict_gating import goal_satisfied

MOST = 100_000  # events of one run


async def verification_of(store: Store, run: Run, environment: ExecutionEnvironment) -> Verification:
    """The report of a run, with its result and failures, which are content."""
    replayer, _, _ = await replay_run(store, run, environment)
    return verification(await report_of(store, run), replayer.execution)


async def report_of(store: Store, run: Run) -> VerificationReport:
    """The report of a run, from its log and the logs of child runs that critics verified."""
    events = await store.events(run.id, limit=MOST)
    records = [(event.type, msgspec.json.decode(decode_event(event.data).payload)) for event in events]
    targets = {payload["target"] for type, payload in records if type == "agent.verified"}
    children = targets & {payload["childRunId"] for type, payload in records if type == "node.dispatched"}
    return report(run, events, {child: await workers(store, child) for child in children})


async def workers(store: Store, run: str) -> frozenset[str]:
    """The agents that decided in a run, and in its child runs that completed."""
    found, left, seen = set[str](), [run], {run}
    while left:
        for event in await store.events(left.pop(), limit=MOST):
            if event.type not in ("agent.decided", "core.workflowChain.event"):
                continue
            payload = msgspec.json.decode(decode_event(event.data).payload)
            if event.type == "agent.decided":
                found.add(payload["agentId"])
            elif payload["phase"] == "child.completed" and payload["childRunId"] not in seen:
                seen.add(payload["childRunId"])
                left.append(payload["childRunId"])
    return frozenset(found)


def verification(report: VerificationReport, execution: Execution) -> Verification:
    members = {
        field.name: getattr(report, field.name) for field in msgspec.structs.fields(VerificationReport)
    }
    return Verification(
        **members,
        result=execution.variables.get("result") if report.committed else None,
        failures=tuple(execution.failures),
        question=execution.prompt,
    )


def report(run: Run, events: Sequence[Event], workers: Mapping[str, Collection[str]]) -> VerificationReport:
    """Fold a log. `workers`: the agents that worked, by child run."""
    records = [(event.type, decode_event(event.data)) for event in events]
    payloads = [(type, known, msgspec.json.decode(known.payload)) for type, known in records]
    decisions = [payload for type, _, payload in payloads if type == "runOrchestrator.decided"]
    last: dict[str, Any] | None = decisions[-1]["decision"] if decisions else None
    return VerificationReport(
        run_id=run.id,
        workflow_id=run.name,
        status=run.status,
        goal_satisfied=goal_satisfied(run.status, last, run.metadata.get("verdict")),
        committed=any(
            type == "variable.changed" and payload["name"] == "result" for type, _, payload in payloads
        ),
        turns=len(decisions),
        verdicts=tuple(_verdicts(payloads, workers)),
        success_criteria=tuple((last or {}).get("successCriteria", ())),
        waiting=run.metadata.get("waiting"),
        error=run.metadata.get("error"),
    )


def _verdicts(
    payloads: Iterable[tuple[str, Any, dict[str, Any]]], workers: Mapping[str, Collection[str]]
) -> Iterable[CriticVerdict]:
    """The cause of a verdict names the agent whose work it judges; of a child run, all its workers count."""
    authors: dict[str, str] = {}
    iteration = 0
    for type, known, payload in payloads:
        if "agentId" in payload:
            authors[known.eventId] = payload["agentId"]
        elif type == "core.workflowChain.event":
            authors[known.eventId] = payload["workerId"]
        if type == "runOrchestrator.decided":
            iteration = payload["iteration"]
        elif type == "agent.verified":
            actor = authors.get(known.causationId)
            yield CriticVerdict(
                iteration=iteration,
                agent_id=payload["agentId"],
                target=payload["target"],
                verdict=payload["verdict"],
                actor_id=actor,
                self_verified=payload["agentId"] in {actor, *workers.get(payload["target"], ())},
                criteria=tuple(payload.get("criteria", ())),
                confidence=payload.get("confidence"),
            )
