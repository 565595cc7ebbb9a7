"""assay.turn: an agent carries out the newest decision; critics verify it first (RFC 0090, openwop-contract §8.2)."""

from typing import Any

from msgspec import Struct, structs, to_builtins

from assay.workflow.state.children import ChildSpec, child_run
from assay.workflow.state.decisions import pending
from assay.workflow.state.definition import Node
from assay.workflow.state.execution_state import Execution, Steps, TurnOutcome
from assay.workflow.state.interrupts import LowConfidence, approval, require_accepted
from assay.workflow.state.turns import (
    USABLE,
    AgentTurn,
    CriticResult,
    emit_decision,
    escalate_if_unsure,
    invocation,
    invoke_agent,
    verify,
)
from assay.workflow.state.verdict_gating import combine, is_below, next_step

WORKFLOW = "workflow:"  # prefix of an actor that is a workflow, run as a child


class Candidate(Struct, frozen=True, kw_only=True):
    """The result of a turn before it is committed."""

    agent: str
    result: Any
    target: str
    confidence: float | None = None
    floor: float | None = None
    escalated: bool = False  # the actor asks for a person
    verdicts: tuple[CriticResult, ...] = ()
    failed: str | None = None
    workers: tuple[str, ...] = ()  # of a child run: the agents that worked in it


def turn(execution: Execution, node: Node) -> Steps[dict[str, Any]]:
    config = node.config
    gating, expires = config.get("gating", True), config.get("expiresSeconds")
    decision = yield from pending(execution, node.id, gating=gating, seconds=expires)
    if decision["kind"] == "ask-user":
        return {"answer": execution.answer}
    if decision["kind"] == "terminate":
        return {}
    before = len(execution.failures)
    if config["actor"].startswith(WORKFLOW):
        candidate = yield from _child_turn(execution, node)
    else:
        candidate = yield from _agent_turn(execution, node)
    verdict = combine(one.verdict for one in candidate.verdicts)
    notes = tuple(one.notes for one in candidate.verdicts if one.notes)
    own = any(one.agent in (candidate.agent, *candidate.workers) for one in candidate.verdicts)
    execution.last_turn = TurnOutcome(
        verdict=verdict,
        committed=False,
        notes=notes,
        met=_criteria_met(candidate.verdicts),
        self_verified=own,
    )
    reported = [to_builtins(one) for one in execution.failures[before:]]
    failures = {"failures": reported} if reported else {}
    if candidate.failed is not None:
        execution.last_turn = TurnOutcome(verdict=None, committed=False, notes=(candidate.failed,))
        return {"outcome": "failed", **failures}
    step = next_step(verdict, turn=execution.iteration, max_turns=execution.iterations[0], gating=gating)
    unsure = _low_confidence(execution, node, candidate)
    escalated = candidate.escalated or any(one.outcome == "escalated" for one in candidate.verdicts)
    if step in ("commit", "retry") and (unsure is not None or escalated):
        answer = yield from approval(
            execution,
            node.id,
            "A result with low confidence",
            candidate.target,
            about="result" if step == "commit" else "retry",
            unsure=unsure,
            seconds=expires,
            result=candidate.result,
        )
        require_accepted(execution, answer, "a result below its confidence floor", node.id)
    if step == "escalate":
        yield from _failed(execution, node, candidate)
    elif step == "breach":
        execution.breach_loop(node.id)
    elif step == "commit":
        execution.last_turn = structs.replace(execution.last_turn, committed=True)
        execution.set("result", candidate.result, node=node.id, cause=execution.decided_id)
    return {"outcome": "committed" if step == "commit" else "withheld", **failures}


def _agent_turn(execution: Execution, node: Node) -> Steps[Candidate]:
    config = node.config
    critics, criteria = tuple(config.get("critics", ())), tuple(config.get("criteria", ()))
    tools = critics if config.get("verify") == "tools" else ()
    done: AgentTurn = yield from invoke_agent(
        execution, node.id, config["actor"], _task(execution), critics=tools, criteria=criteria,
        gating=config.get("gating", True), memory=config.get("memoryRef"),
    )  # fmt: skip
    floor = _confidence_floor(execution, node, done)
    done = escalate_if_unsure(done, floor)
    target = ""
    with invocation(execution, node.id, done):
        if done.outcome in USABLE:
            target = emit_decision(execution, node.id, done)
    if not target:
        why = f"the turn ended as {done.outcome}" + (f": {done.error}" if done.error else "")
        return Candidate(agent=done.agent, result=None, target="", failed=why)
    found: list[CriticResult] = []
    for critic in critics:
        one = yield from verify(
            execution,
            node.id,
            critic,
            task=execution.variables.get("task"),
            result=done.result,
            target=target,
            cause=target,
            criteria=criteria,
        )
        found.append(one)
    return Candidate(
        agent=done.agent,
        result=done.result,
        target=target,
        confidence=done.confidence,
        floor=floor,
        escalated=done.outcome == "escalated",
        verdicts=tuple(found),
    )


def _task(execution: Execution) -> Any:
    """The task for the actor; in a later turn, with the notes of the critics."""
    task = execution.variables.get("task")
    if execution.last_turn is None:
        return task
    return {"task": task, "notes": list(execution.last_turn.notes), "turn": execution.iteration}


def _criteria_met(results: tuple[CriticResult, ...]) -> dict[str, bool]:
    """By criterion: met if every critic says so."""
    met: dict[str, bool] = {}
    for one in results:
        for key, held in one.criteria_met.items():
            met[key] = met.get(key, True) and held
    return met


def _child_turn(execution: Execution, node: Node) -> Steps[Candidate]:
    """A child run is the actor: its output is the candidate, and its run id the target of verdicts."""
    config = node.config
    worker, output = config["actor"].removeprefix(WORKFLOW), config.get("output", "result")
    gating = config.get("gating", True)
    spec = ChildSpec(
        node=node.id,
        worker=worker,
        key=(execution.iteration, 0),
        cause=execution.decided_id,
        values={"task": _task(execution)},
        outputs={"candidate": output},
        only=output,
        attest=True,
        approve=config.get("requireApproval", False),
        expires=config.get("expiresSeconds"),
        critics=tuple(config.get("critics", ())),
        criteria=tuple(config.get("criteria", ())),
        gating=gating,
    )
    child = yield from child_run(execution, spec)
    failed = None
    if child.status != "completed":
        failed = f"the child run {child.run} ended as {child.status}: {child.error}"
    elif child.gave_up:
        failed = f"the child run {child.run} gave up"
    elif not child.merged and (child.verdict in (None, "pass") or not gating):
        failed = "its output was not approved"
    if failed is not None:
        execution.record_failure("actor", worker, failed)
    return Candidate(
        agent=worker,
        result=child.harvest.get(output),
        target=child.run,
        verdicts=child.verdicts,
        failed=failed,
        workers=child.workers,
    )


def _low_confidence(execution: Execution, node: Node, candidate: Candidate) -> LowConfidence | None:
    """The actor or critic whose confidence is below its floor (openwop-contract §8.4); None: neither."""
    floor = candidate.floor
    if floor is not None and candidate.confidence is not None and is_below(candidate.confidence, floor):
        return LowConfidence(candidate.agent, floor, candidate.confidence)
    floor = node.config.get("floors", {}).get("critic", execution.threshold)
    for one in candidate.verdicts:
        if one.confidence is not None and is_below(one.confidence, floor):
            return LowConfidence(one.agent, floor, one.confidence)
    return None


def _confidence_floor(execution: Execution, node: Node, agent_turn: AgentTurn) -> float:
    """The actor's confidence floor: of the run, else of the workflow, else of the agent's manifest."""
    own = agent_turn.threshold if agent_turn.threshold is not None else execution.threshold
    return execution.configurable.get("escalationThreshold", node.config.get("floors", {}).get("actor", own))


def _failed(execution: Execution, node: Node, candidate: Candidate) -> Steps[None]:
    """After a `fail`: another turn, a person who may allow one, or give up. The result is never committed."""
    policy = node.config.get("onFail", "escalate")
    assert execution.last_turn is not None
    if policy == "give-up":
        execution.last_turn = structs.replace(execution.last_turn, gave_up=True)
        return
    if policy == "escalate":
        answer = yield from approval(
            execution,
            node.id,
            "A result that its critic rejects; accept to let the actor try again",
            candidate.target,
            about="retry",
            seconds=node.config.get("expiresSeconds"),
            result=candidate.result,
        )
        require_accepted(execution, answer, "another turn after a rejected result", node.id)
    if execution.iteration >= execution.iterations[0]:
        execution.breach_loop(node.id)
