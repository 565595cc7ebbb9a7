"""
What the test-only routes of the conformance suite do: verifier, loop, merge and dispatch (openwop-contract §10.4,
§10.7). They start real runs.

They need the sample workflows. The sample agents do what the task says.
"""

import asyncio
import math
from typing import Any

import msgspec

from assay.agents.handoff import task_problems
from assay.errors import InvalidRequest, Problem
from assay.ports import Principal, Run
from assay.ports.agents import AgentContext
from assay.ports.config import VerifierLoopConfig
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import is_object
from assay.runs.intake import new_id
from assay.seams.sample_agents import ChannelAgent
from assay.seams.sample_workflows import D, samples
from assay.workflow.loop_settings import workflow_of
from assay.workflow.service import WorkflowService
from assay.workflow.state.definition import Workflow, document_of, read
from assay.workflow.state.execution_state import WorkflowRequest
from assay.workflow.state.verdict_gating import VERDICTS

ACTOR, CRITIC = "core.conformance.actor", "core.conformance.critic"
VERIFIED = "conformance-verified"


class SampleActor:
    """Completes every task. If it is its own critic, it answers as `SampleCritic`."""

    card = AgentCard(agent_id=ACTOR, kind="sample", free=True)

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        if "target" in task:
            return await SampleCritic().invoke(task, context)
        return InvocationResult(outcome="completed", result={"done": True, "turn": task.get("turn", 1)})

    async def close(self) -> None: ...


class SampleCritic:
    """Gives the verdict that the task names, or fails as it says."""

    card = AgentCard(agent_id=CRITIC, kind="sample", free=True)

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        verdict = task["task"]["simulateVerdict"]
        if task["result"]["turn"] >= task["task"].get("passAtTurn", math.inf):
            verdict = "pass"
        if verdict == "crash":
            raise RuntimeError("the task says so")
        if verdict == "hang":
            await asyncio.sleep(math.inf)
        return InvocationResult(outcome="completed", result={"verdict": verdict})

    async def close(self) -> None: ...


SAMPLE_AGENTS = (SampleActor(), SampleCritic(), ChannelAgent())


FAILING = ("crash", "hang", "garbage")  # critics that give no verdict


def verifier_workflow(on_fail: str = "escalate", *, turns: int = 2, critic: str = CRITIC) -> Workflow:
    table = {
        "actor": ACTOR,
        "critics": [critic],
        "criteria": ["done"],
        "max_turns": turns,
        "on_fail": on_fail,
    }
    return workflow_of(VERIFIED, msgspec.convert(table, VerifierLoopConfig))


async def verify_run(workflows: WorkflowService, principal: Principal, body: Any) -> dict[str, Any]:
    """
    `{"simulateVerdict", "task"?, "onFail"?, "passAtTurn"?, "maxTurns"?, "selfVerify"?}`: runs a verifier loop; returns
    its verdicts without content. From `passAtTurn` on the verdict is pass.
    """
    if not is_object(body) or body.get("simulateVerdict") not in (*VERDICTS, *FAILING):
        raise InvalidRequest(
            Problem("simulateVerdict", f"expected one of {', '.join((*VERDICTS, *FAILING))}")
        )
    on_fail = body.get("onFail", "escalate")
    if on_fail not in ("escalate", "give-up"):
        raise InvalidRequest(Problem("onFail", "expected escalate or give-up"))
    task = {"simulateVerdict": body["simulateVerdict"], "task": body.get("task")}
    if passes := _read_integer(body, "passAtTurn", optional=True):
        task["passAtTurn"] = passes
    turns = _read_integer(body, "maxTurns", optional=True) or 2
    loop = verifier_workflow(on_fail, turns=turns, critic=ACTOR if body.get("selfVerify") is True else CRITIC)
    run = await _ran(workflows, principal, loop, {"task": task})
    found = await workflows.report(run.id, principal.tenant)
    status = "escalated" if run.status.startswith("waiting") else run.status
    events = [
        {"type": "agent.verified", "agentId": one.agent_id, "target": one.target, "verdict": one.verdict}
        for one in found.verdicts
    ]
    return {
        "runId": run.id,
        "status": status,
        "committed": found.committed,
        "outcome": "completed" if found.committed else "withheld",
        "verdict": body["simulateVerdict"],
        "events": events,
    }


async def agent_loop(workflows: WorkflowService, principal: Principal, body: Any) -> dict[str, Any]:
    """`{"turns", "suspendAtTurn"?, "resume"?}`: a plan of that many turns; one waits for a person (CP-1)."""
    turns, held = _read_integer(body, "turns"), _read_integer(body, "suspendAtTurn", optional=True)
    noop = {"kind": "next-worker", "nextWorkerIds": ["conformance-noop"]}
    plan = [noop] * (turns - 1) + [{"kind": "terminate", "reason": "goal-reached"}]
    shown = document_of(samples()["conformance-dispatch-loop"])
    shown["nodes"][0]["config"] = {"mockDispatchPlan": plan} | ({"mockHoldAtTurn": held} if held else {})
    shown["nodes"][1]["config"] = D
    run = await _ran(workflows, principal, read(shown | {"id": "conformance-agent-loop"}), {})
    waited = run.status == "waiting-approval"
    if waited and body.get("resume"):
        may = msgspec.structs.replace(principal, scopes=principal.scopes | {"approvals:respond"})
        await workflows.respond(may, run.id, "orchestrator", {"action": "accept"})
        run = await workflows.wait(run.id)
    decided = await _payloads(workflows, run, "runOrchestrator.decided")
    answer: dict[str, Any] = {
        "runId": run.id,
        "decisions": [{"iteration": one["iteration"]} for one in decided],
    }
    return answer | ({"resumedIteration": held} if waited and body.get("resume") else {})


async def attest(workflows: WorkflowService, principal: Principal, body: Any) -> dict[str, Any]:
    """`{"childOutputs", "outputAttestation", "approvalAction"?}`: a child with those outputs, merged if allowed."""
    outputs = body.get("childOutputs") if is_object(body) else None
    if not is_object(outputs):
        raise InvalidRequest(Problem("childOutputs", "expected an object"))
    shown = document_of(samples()["conformance-subworkflow-parent"])
    shown["nodes"][1]["config"] = {
        "workflowId": "conformance-dispatch-input-mapping-child",
        "inputMapping": {name: f"given {name}" for name in outputs},
        "outputMapping": {name: name for name in outputs},
        "outputAttestation": body.get("outputAttestation") or {},
    }
    given = {f"given {name}": value for name, value in outputs.items()}
    run = await _ran(workflows, principal, read(shown | {"id": "conformance-attest"}), given)
    action = body.get("approvalAction")
    if run.status == "waiting-approval" and action is not None:
        may = msgspec.structs.replace(principal, scopes=principal.scopes | {"approvals:respond"})
        await workflows.respond(may, run.id, "subwf-call", {"action": action})
        run = await workflows.wait(run.id)
    variables = (await workflows.snapshot(run))["variables"]
    merged = {name: variables[name] for name in outputs if name in variables}
    chain = await _payloads(workflows, run, "core.workflowChain.event")
    harvested = next((one for one in chain if one["phase"] == "output.harvested"), None) or {}
    answer: dict[str, Any] = {
        "runId": run.id,
        "attestation": harvested.get("attestation"),
        "harvestedEvent": harvested,
        "merged": bool(merged) or not outputs,
    }
    return answer | ({"mergedValues": merged} if merged else {})


async def dispatch(
    workflows: WorkflowService, principal: Principal, card: AgentCard, body: Any
) -> dict[str, Any]:
    """`{"task", "validateHandoff"?, "availableTools"?}`: calls that agent once and returns its events."""
    if not is_object(body) or "task" not in body:
        raise InvalidRequest(Problem("task", "expected a task"))
    if body.get("validateHandoff", True) and (found := task_problems(card, body["task"], "task")):
        raise InvalidRequest(found)
    shown = document_of(samples()["conformance-agent-identity"])
    shown["nodes"][0].update(
        {
            "typeId": "assay.agent",
            "agent": {"agentId": card.agent_id},
            "config": {"summary": True},
        }
    )
    workflow = read(shown | {"id": "conformance-agent-dispatch"})
    run = await _ran(workflows, principal, workflow, {"task": body["task"]})
    events = await workflows.store.events(run.id, limit=10_000)
    events = [
        {"type": event.type, **msgspec.json.decode(decode_event(event.data).payload)}
        for event in events
        if event.type.startswith("agent.")
    ]
    return {
        "runId": run.id,
        "status": "completed" if run.status == "completed" else "escalated",
        "events": events,
    }


async def _ran(
    workflows: WorkflowService, principal: Principal, workflow: Workflow, inputs: dict[str, Any]
) -> Run:
    owner = {"tenant": principal.tenant, "principal": principal.id}
    run = await workflows.submit(
        WorkflowRequest(workflow=workflow, inputs=inputs, owner=owner), principal.tenant, new_id("run-")
    )
    return await workflows.wait(run.id)


async def _payloads(workflows: WorkflowService, run: Run, type: str) -> list[dict[str, Any]]:
    events = await workflows.store.events(run.id, limit=10_000)
    return [msgspec.json.decode(decode_event(event.data).payload) for event in events if event.type == type]


def _read_integer(body: Any, name: str, *, optional: bool = False) -> int:
    value = body.get(name) if is_object(body) else None
    if optional and value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100:
        raise InvalidRequest(Problem(name, "expected a whole number from 1 to 100"))
    return value
