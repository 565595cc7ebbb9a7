"""assay.turn: the newest decision carried out by an agent, and its work held against critics before it is committed (RFC 0090, contract §8.2)."""

from typing import Any

from msgspec import Struct, structs, to_builtins

from assay.workflow.children import ChildSpec, child_run
from assay.workflow.decisions import pending
from assay.workflow.definition import Node
from assay.workflow.execution import Execution, Steps, TurnOutcome
from assay.workflow.gating import after, below, combined
from assay.workflow.interrupts import LowConfidence, accepted, approval
from assay.workflow.turns import (
    USABLE,
    AgentTurn,
    CriticResult,
    bracket,
    decided,
    escalate_if_unsure,
    invoked,
    judged,
)

WORKFLOW = "workflow:"  # an actor that is a child run


class Candidate(Struct, frozen=True, kw_only=True):
    """What a turn came to, before anybody has said that it may count."""

    agent: str
    result: Any
    target: str
    confidence: float | None = None
    floor: float | None = None
    escalated: bool = False  # its actor wants a person to look
    judged: tuple[CriticResult, ...] = ()
    failed: str | None = None
    workers: tuple[str, ...] = ()  # of a child run: whose work it is


def turn(flow: Execution, node: Node) -> Steps[dict[str, Any]]:
    config = node.config
    gating, expires = config.get("gating", True), config.get("expiresSeconds")
    decision = yield from pending(flow, node.id, gating=gating, seconds=expires)
    if decision["kind"] == "ask-user":
        return {"answer": flow.answer}
    if decision["kind"] == "terminate":
        return {}
    before = len(flow.failures)
    if config["actor"].startswith(WORKFLOW):
        candidate = yield from _child_turn(flow, node)
    else:
        candidate = yield from _agent_turn(flow, node)
    verdict = combined(one.verdict for one in candidate.judged)
    notes = tuple(one.notes for one in candidate.judged if one.notes)
    own = any(one.agent in (candidate.agent, *candidate.workers) for one in candidate.judged)
    flow.last = TurnOutcome(
        verdict=verdict, committed=False, notes=notes, met=_met(candidate.judged), self_verified=own
    )
    told = [to_builtins(one) for one in flow.failures[before:]]
    failures = {"failures": told} if told else {}
    if candidate.failed is not None:
        flow.last = TurnOutcome(verdict=None, committed=False, notes=(candidate.failed,))
        return {"outcome": "failed", **failures}
    step = after(verdict, turn=flow.iteration, max_turns=flow.iterations[0], gating=gating)
    unsure = _unsure(flow, node, candidate)
    escalated = candidate.escalated or any(one.outcome == "escalated" for one in candidate.judged)
    if step in ("commit", "retry") and (unsure is not None or escalated):
        answer = yield from approval(
            flow,
            node.id,
            "A result that somebody is not sure of",
            candidate.target,
            about="result" if step == "commit" else "retry",
            unsure=unsure,
            seconds=expires,
            result=candidate.result,
        )
        accepted(flow, answer, "a result below its floor", node.id)
    if step == "escalate":
        yield from _failed(flow, node, candidate)
    elif step == "breach":
        flow.breach_loop(node.id)
    elif step == "commit":
        flow.last = structs.replace(flow.last, committed=True)
        flow.set("result", candidate.result, node=node.id, cause=flow.decided_id)
    return {"outcome": "committed" if step == "commit" else "withheld", **failures}


def _agent_turn(flow: Execution, node: Node) -> Steps[Candidate]:
    config = node.config
    critics, criteria = tuple(config.get("critics", ())), tuple(config.get("criteria", ()))
    tools = critics if config.get("verify") == "tools" else ()
    done: AgentTurn = yield from invoked(
        flow, node.id, config["actor"], _task(flow), critics=tools, criteria=criteria, gating=config.get("gating", True),
        memory=config.get("memoryRef"),
    )  # fmt: skip
    floor = _floor(flow, node, done)
    done = escalate_if_unsure(done, floor)
    target = ""
    with bracket(flow, node.id, done):
        if done.outcome in USABLE:
            target = decided(flow, node.id, done)
    if not target:
        why = f"the turn ended as {done.outcome}" + (f": {done.error}" if done.error else "")
        return Candidate(agent=done.agent, result=None, target="", failed=why)
    found: list[CriticResult] = []
    for critic in critics:
        one = yield from judged(
            flow,
            node.id,
            critic,
            task=flow.variables.get("task"),
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
        judged=tuple(found),
    )


def _task(flow: Execution) -> Any:
    """What is asked of whoever works: the task, and in a later turn what was said of the one before."""
    task = flow.variables.get("task")
    if flow.last is None:
        return task
    return {"task": task, "notes": list(flow.last.notes), "turn": flow.iteration}


def _met(judged: tuple[CriticResult, ...]) -> dict[str, bool]:
    """A criterion that any critic finds unmet is not met."""
    met: dict[str, bool] = {}
    for one in judged:
        for key, held in one.met.items():
            met[key] = met.get(key, True) and held
    return met


def _child_turn(flow: Execution, node: Node) -> Steps[Candidate]:
    """A child run as the actor: its `result` is the candidate, and its run id what is verified."""
    config = node.config
    worker, output = config["actor"].removeprefix(WORKFLOW), config.get("output", "result")
    gating = config.get("gating", True)
    hand = ChildSpec(
        node=node.id,
        worker=worker,
        key=(flow.iteration, 0),
        cause=flow.decided_id,
        given={"task": _task(flow)},
        outputs={"candidate": output},
        only=output,
        attest=True,
        approve=config.get("requireApproval", False),
        expires=config.get("expiresSeconds"),
        critics=tuple(config.get("critics", ())),
        criteria=tuple(config.get("criteria", ())),
        gating=gating,
    )
    child = yield from child_run(flow, hand)
    failed = None
    if child.status != "completed":
        failed = f"the child run {child.run} ended as {child.status}: {child.error}"
    elif child.gave_up:
        failed = f"the child run {child.run} gave up"
    elif not child.merged and (child.verdict in (None, "pass") or not gating):
        failed = "its output was not approved"
    if failed is not None:
        flow.failed("actor", worker, failed)
    return Candidate(
        agent=worker,
        result=child.harvest.get(output),
        target=child.run,
        judged=child.judged,
        failed=failed,
        workers=child.workers,
    )


def _unsure(flow: Execution, node: Node, candidate: Candidate) -> LowConfidence | None:
    """The actor, or a critic, below its floor: either is enough (contract §8.4)."""
    floor = candidate.floor
    if floor is not None and candidate.confidence is not None and below(candidate.confidence, floor):
        return LowConfidence(candidate.agent, floor, candidate.confidence)
    floor = node.config.get("floors", {}).get("critic", flow.threshold)
    for one in candidate.judged:
        if one.confidence is not None and below(one.confidence, floor):
            return LowConfidence(one.agent, floor, one.confidence)
    return None


def _floor(flow: Execution, node: Node, done: AgentTurn) -> float:
    """The actor's: what the run says, or the workflow, or its manifest."""
    own = done.threshold if done.threshold is not None else flow.threshold
    return flow.configurable.get("escalationThreshold", node.config.get("floors", {}).get("actor", own))


def _failed(flow: Execution, node: Node, candidate: Candidate) -> Steps[None]:
    """A fail is never committed: another turn, a person who may grant one, or the end without success."""
    policy = node.config.get("onFail", "escalate")
    assert flow.last is not None
    if policy == "give-up":
        flow.last = structs.replace(flow.last, gave_up=True)
        return
    if policy == "escalate":
        answer = yield from approval(
            flow,
            node.id,
            "A result that its critic rejects; accept to let the actor try again",
            candidate.target,
            about="retry",
            seconds=node.config.get("expiresSeconds"),
            result=candidate.result,
        )
        accepted(flow, answer, "another turn after a rejected result", node.id)
    if flow.iteration >= flow.iterations[0]:
        flow.breach_loop(node.id)
