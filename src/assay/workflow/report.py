"""What a run of a workflow came to, without content: verdicts with who gave them about whose work, and whether the goal was reached (contract §8.1, §8.5)."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from assay.ports import Event, Run, Store
from assay.protocol.facts import read_stored
from assay.protocol.verification import Report, Said, Verification
from assay.workflow.drive import driven
from assay.workflow.flow import Bounds, Flow
from assay.workflow.gating import goal_satisfied

MOST = 100_000  # events of one run


async def came_to(store: Store, run: Run, bounds: Bounds) -> Verification:
    """What it came to, with its content."""
    drive, _, _ = await driven(store, run, bounds)
    return verification(report(run, await store.events(run.id, limit=MOST)), drive.flow)


def verification(found: Report, flow: Flow) -> Verification:
    known = {field.name: getattr(found, field.name) for field in msgspec.structs.fields(Report)}
    return Verification(
        **known,
        result=flow.variables.get("result") if found.committed else None,
        failures=tuple(flow.failures),
        asked=flow.asked,
    )


def report(run: Run, events: Sequence[Event]) -> Report:
    """A fold of what is recorded."""
    told = [(event.type, read_stored(event.data)) for event in events]
    payloads = [(type, known, msgspec.json.decode(known.payload)) for type, known in told]
    decisions = [payload for type, _, payload in payloads if type == "runOrchestrator.decided"]
    last: dict[str, Any] | None = decisions[-1]["decision"] if decisions else None
    return Report(
        run_id=run.id,
        workflow_id=run.name,
        status=run.status,
        goal_satisfied=goal_satisfied(run.status, last, run.head.get("verdict")),
        committed=any(
            type == "variable.changed" and payload["name"] == "result" for type, _, payload in payloads
        ),
        turns=len(decisions),
        verdicts=tuple(_verdicts(payloads)),
        success_criteria=tuple((last or {}).get("successCriteria", ())),
        waiting=run.head.get("waiting"),
        error=run.head.get("error"),
    )


def _verdicts(payloads: Iterable[tuple[str, Any, dict[str, Any]]]) -> Iterable[Said]:
    """Whose work it is about is told by the event that the verdict points at."""
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
            yield Said(
                iteration=iteration,
                agent_id=payload["agentId"],
                target=payload["target"],
                verdict=payload["verdict"],
                actor_id=actor,
                self_verified=actor == payload["agentId"],
                criteria=tuple(payload.get("criteria", ())),
                confidence=payload.get("confidence"),
            )
