"""Workflows: sample workflows and what must come of them, limits of nodes and turns, people that answer."""

from functools import partial
from itertools import pairwise
from typing import Any

from assay.conform.check import (
    Failed,
    Host,
    NotOffered,
    at_once,
    document_of,
    expect,
    expect_status,
    refused_as,
)
from assay.conform.json_values import Document, object_in, same, shown
from assay.conform.openwop.event_laws import EVENT_LAWS, gated
from assay.conform.openwop.runs import (
    INPUTS,
    SUSPENDED,
    log,
    payloads,
    snapshot,
    wait_for_end,
    wait_for_rest,
    workflow,
    workflow_request,
)
from assay.conform.openwop.surface import (
    NO_RUN,
    capability,
    fixture,
    fixtures,
    row,
    run_path,
)

LAWS = {"envelope", "sequence", "causes", "terminal", "no-content", "usage"}
SLOW = ("delay", "cancellable", "run-duration-breach")  # of the fixtures: they wait for a time
CHAIN = ("dispatch.began", "dispatch.succeeded", "child.completed", "output.harvested")
PARALLEL = 6
WORKERS = 4  # runs at the same time


def _rested(
    host: Host, name: str, inputs: Document | None = None, **configurable: Any
) -> tuple[Document, list[Document]]:
    """A run of a sample workflow that has ended, or waits for a person."""

    def make() -> tuple[Document, list[Document]]:
        run = workflow(host, fixture(host, name), inputs, **configurable)
        shot = wait_for_rest(host, run)
        return shot, log(host, run, status=shot["status"])

    return host.once(f"workflow {name} {sorted(configurable.items())}", make)


OUTCOMES: tuple[tuple[str, str, Document | None, Document, str | None], ...] = (
    ("noop", "completed", None, {}, None),
    ("multi-node", "completed", None, {}, None),
    ("identity", "completed", INPUTS["conformance-identity"], {}, None),
    ("failure", "failed", None, {}, ""),
    ("cap-breach", "failed", None, {"recursionLimit": 5}, "recursion_limit_exceeded"),
    ("run-duration-breach", "failed", {"delayMs": 30_000}, {"runTimeoutMs": 1000}, "run_timeout"),
)


def _outcomes(host: Host) -> None:
    there = fixtures(host)
    for name, status, inputs, configurable, code in OUTCOMES:
        if f"conformance-{name}" not in there:
            continue
        shot, events = _rested(host, name, inputs, **configurable)
        expect(shot["status"] == status, f"the fixture {name}: expected {status}, got {shot['status']}")
        error = object_in(shot, "error")
        if code is not None:
            texts = isinstance(error.get("code"), str) and isinstance(error.get("message"), str)
            expect(texts, f"the fixture {name}: expected an error with code and message")
        if code:
            expect(
                error["code"] == code, f"the fixture {name}: expected {code}, got {shown(error.get('code'))}"
            )
        if inputs and "payload" in inputs:
            found = object_in(shot, "variables").get("payload")
            expect(same(found, inputs["payload"]), f"the fixture {name}: variables.payload is not the input")
        if name == "multi-node":
            nodes = [one.get("nodeId") for one in payloads(events, "node.completed")]
            expect(nodes == ["a", "b", "c"], f"the fixture {name}: nodes {nodes}")
        if name.endswith("-breach"):
            (cap,) = payloads(events, "cap.breached") or [{}]
            expect(
                cap.get("observed", 0) >= cap.get("limit", 1),
                f"the fixture {name}: cap.breached: {shown(cap)}",
            )


def _laws(host: Host) -> None:
    """Every workflow that can be started: its log, and that a verdict gates."""
    names = [id.removeprefix("conformance-") for id in fixtures(host)]
    names = [name for name in names if name not in SLOW]
    for name, (shot, events) in zip(names, at_once(partial(_of_itself, host), names, WORKERS), strict=True):
        for law in (one for one in EVENT_LAWS if one.name in LAWS):
            if law.name == "terminal" and shot["status"] in SUSPENDED:
                continue
            for problem in law.find(events, str(shot["status"])):
                raise Failed(f"the fixture {name}: {problem}")
        for problem in gated(events, str(shot["status"])):
            raise Failed(f"the fixture {name}: {problem}")
        if shot["status"] in SUSPENDED:
            host.send("POST", run_path(str(shot["runId"]), "/cancel"), {})


def _of_itself(host: Host, name: str) -> tuple[Document, list[Document]]:
    return _rested(host, name, None, **({"recursionLimit": 5} if name == "cap-breach" else {}))


NODES = 6  # of conformance-cap-breach
DECISIONS = 2  # of conformance-dispatch-loop
LIMITS = (  # the option, its fixture, how many executions or turns that takes, and the code and the kind of a breach
    ("recursionLimit", "cap-breach", NODES, "recursion_limit_exceeded", "node-executions"),
    ("maxLoopIterations", "dispatch-loop", DECISIONS, "loop_limit_exceeded", "loop-iterations"),
)


def _limits(host: Host) -> None:
    """A workflow of N steps completes with the limit N, and is stopped at step N with the limit N - 1."""
    there = [one for one in LIMITS if f"conformance-{one[1]}" in fixtures(host)]
    if not there:
        raise NotOffered("discovery advertises no fixture with a known number of steps")
    for option, name, needed, code, kind in there:
        for limit in range(1, needed + 1):
            what = f"the fixture {name} with {option} {limit}"
            shot, events = _rested(host, name, None, **{option: limit})
            error, breaches = object_in(shot, "error").get("code"), payloads(events, "cap.breached")
            if limit == needed:
                expect(
                    shot["status"] == "completed", f"{what}: expected completed, got {shot['status']} {error}"
                )
                expect(not breaches, f"{what}: cap.breached")
                continue
            expect(error == code, f"{what}: expected {code}, got {shot['status']} {shown(error)}")
            found = [(one.get("kind"), one.get("limit"), one.get("observed")) for one in breaches]
            expect(found == [(kind, limit, limit + 1)], f"{what}: cap.breached: got {shown(found)}")
        for wrong in (0, -1, 1.5, "3", True):
            body = workflow_request(f"conformance-{name}") | {"configurable": {option: wrong}}
            refused_as(host.send("POST", "/v1/runs", body), 400, f"{option} {shown(wrong)}")


def _approval(host: Host) -> None:
    run = workflow(host, fixture(host, "approval"))
    shot = wait_for_rest(host, run)
    expect(
        shot["status"] == "waiting-approval", f"the approval: expected waiting-approval, got {shot['status']}"
    )
    node = shot.get("currentNodeId")
    expect(node == "gate", f"the approval: currentNodeId: expected gate, got {shown(node)}")
    other = host.send("POST", run_path(run, "/interrupts/nothing"), {"resumeValue": {"action": "accept"}})
    expect_status(other, 404, "an answer to a node that does not ask")
    for value in ({"action": "vibes"}, {}):
        bad = host.send("POST", run_path(run, "/interrupts/gate"), {"resumeValue": value})
        expect_status(bad, (400, 422), f"the answer {shown(value)}")
    expect(snapshot(host, run)["status"] == "waiting-approval", "a bad answer ended the wait")
    good = host.send("POST", run_path(run, "/interrupts/gate"), {"resumeValue": {"action": "accept"}})
    expect_status(good, 200, "the answer accept")
    expect(wait_for_end(host, run)["status"] == "completed", "an accepted approval: expected completed")


def _one_answer(host: Host) -> None:
    run = workflow(host, fixture(host, "approval"))
    wait_for_rest(host, run)
    answer = {"resumeValue": {"action": "accept"}}
    path = run_path(run, "/interrupts/gate")
    answers = at_once(lambda _: host.send("POST", path, answer), range(PARALLEL))
    won = [one for one in answers if one.status == 200]
    expect(
        len(won) == 1, f"{PARALLEL} answers at once: expected one 200, got {[one.status for one in answers]}"
    )
    wait_for_end(host, run)
    expect(
        sum(one.get("type") == "approval.granted" for one in log(host, run)) <= 1,
        "two approvals were granted for one question",
    )


def _dispatch_loop(host: Host) -> None:
    shot, events = _rested(host, "dispatch-loop")
    expect(shot["status"] == "completed", f"the dispatch loop: expected completed, got {shot['status']}")
    decided = payloads(events, "runOrchestrator.decided")
    kinds = [object_in(one, "decision").get("kind") for one in decided]
    expect(kinds == ["next-worker", "terminate"], f"decisions: expected next-worker, terminate; got {kinds}")
    rounds = [one.get("iteration") for one in decided]
    expect(rounds == [1, 2], f"iterations: expected 1, 2; got {rounds}")
    expect(len({str(one.get("agentId")) for one in decided}) == 1, "decisions: expected one agent")


def _handoff(host: Host) -> None:
    shot, events = _rested(host, "multi-agent-handoff")
    chain = [one for one in events if one.get("type") == "core.workflowChain.event"]
    phases = [object_in(one, "payload").get("phase") for one in chain]
    expect(phases == [*CHAIN], f"the phases of a hand-off: expected {CHAIN}, got {phases}")
    decided = [one for one in events if one.get("type") == "runOrchestrator.decided"][:1]
    expect(decided, "a hand-off: expected a decision before it")
    for before, after in pairwise([*decided, *chain]):
        expect(
            after.get("causationId") == before.get("eventId"),
            f"{object_in(after, 'payload').get('phase')}: causationId: expected the phase before",
        )
    result = object_in(shot, "variables").get("parentResult")
    expect(result == "handoff-complete", f"parentResult: expected handoff-complete, got {shown(result)}")


def _escalation(host: Host) -> None:
    shot, events = _rested(host, "multi-agent-confidence-escalation")
    expect(
        shot["status"] == "waiting-approval",
        f"a low confidence: expected waiting-approval, got {shot['status']}",
    )
    found = payloads(events, "core.workflowChain.confidence-escalated")
    expect(len(found) == 1, f"a low confidence: expected one confidence-escalated, got {len(found)}")
    one = found[0]
    floor, confidence = one.get("floor", 0), one.get("confidence", 1)
    expect(
        0.5 <= floor <= 1 and confidence < floor, f"confidence-escalated: {confidence} is not below {floor}"
    )
    expect(not payloads(events, "core.workflowChain.event"), "a low confidence: something was dispatched")


def _held(host: Host) -> None:
    shot, events = _rested(host, "orchestrator-low-confidence")
    expect(
        shot["status"] == "waiting-approval",
        f"a held decision: expected waiting-approval, got {shot['status']}",
    )
    expect(
        not payloads(events, "runOrchestrator.decided"), "a held decision was recorded before its approval"
    )
    expect(
        any(one.get("reason") == "low-confidence" for one in payloads(events, "node.suspended")),
        "a held decision: expected node.suspended with the reason low-confidence",
    )


def _ancestry(host: Host) -> None:
    model = capability(host, "multiAgent.executionModel")
    crossed = object_in(model, "crossHostCausation")
    if not crossed.get("ancestryEndpointSupported"):
        answer = host.send("GET", run_path(NO_RUN, "/ancestry"))
        expect_status(answer, 404, "GET …/ancestry, which is not advertised")
        return
    shot, events = _rested(host, "multi-agent-handoff")
    parent = str(shot["runId"])
    top = document_of(host.send("GET", run_path(parent, "/ancestry")), "GET …/ancestry")
    expect(top.get("parent", 0) is None, "the ancestry of a run without a parent: expected null")
    expect(top.get("hostId") == crossed.get("hostId"), "the ancestry: hostId is another than in discovery")
    children = [
        one.get("childRunId") for one in payloads(events, "core.workflowChain.event") if "childRunId" in one
    ]
    expect(children, "a hand-off: expected a childRunId")
    child = document_of(host.send("GET", run_path(str(children[0]), "/ancestry")), "GET …/ancestry")
    found = object_in(child, "parent").get("runId")
    expect(found == parent, f"the ancestry of a child: expected its parent, got {shown(found)}")


def _definition(host: Host) -> None:
    id = fixture(host, "noop")
    answer = host.send("GET", f"/v1/workflows/{id}")
    expect_status(answer, 200, f"GET /v1/workflows/{id}")
    found = document_of(answer, f"GET /v1/workflows/{id}")
    needed = {"id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata", "settings"}
    expect(needed <= found.keys(), f"a definition has no {sorted(needed - found.keys())}")
    expect(found["id"] == id, f"GET /v1/workflows/{id}: id is another")
    refused_as(host.send("GET", "/v1/workflows/nothing"), 404, "GET of an unknown workflow")


WORKFLOW_CHECKS = [
    row("workflows.outcomes", "11", "Sample workflows end as their definitions say.", "noop, multi-node, identity, failure, cap-breach and run-duration-breach.", "Their statuses, errors and variables.", _outcomes),
    row("workflows.laws", "4.2", "Every workflow that can be started keeps the laws of events, and a verdict or an approval gates it.", "Each advertised fixture, to its end or to a question.", "Logs that keep the laws.", _laws),
    row("workflows.limits", "8.2", "A limit of nodes or turns is the limit: what needs N completes with N, and is stopped with less.", f"A workflow of {NODES} nodes with recursionLimit 1 to {NODES}, and one of {DECISIONS} decisions with maxLoopIterations 1 to {DECISIONS}; limits that are none.", "completed with the last, and a breach with limit and observed with each other; 400.", _limits),
    row("workflows.definition", "1.3", "A definition can be read.", "GET /v1/workflows/{workflowId}.", "200 with the required members; 404.", _definition),
    row("workflows.approval", "11", "A run waits for a person, and goes on after a good answer alone.", "conformance-approval; answers to another node, with another action, and accept.", "waiting-approval, 404, 400 or 422, completed.", _approval),
    row("workflows.one-answer", "3.6", "Of answers at the same time one counts.", f"accept {PARALLEL} times at once.", "One 200.", _one_answer),
    row("workflows.dispatch-loop", "13.10", "Every decision has an iteration, from 1 without gaps; nothing follows terminate.", "conformance-dispatch-loop.", "next-worker 1, terminate 2, one agent.", _dispatch_loop),
    row("workflows.handoff", "13.5", "The phases of a hand-off cause each other.", "conformance-multi-agent-handoff.", f"{', '.join(CHAIN)}, each caused by the one before.", _handoff),
    row("workflows.escalation", "13.6", "A decision below the floor waits for an approval, and dispatches nothing.", "conformance-multi-agent-confidence-escalation.", "waiting-approval, one confidence-escalated, no hand-off.", _escalation),
    row("workflows.held", "13.2", "A decision of an unsure supervisor is not recorded before its approval.", "conformance-orchestrator-low-confidence.", "waiting-approval, node.suspended, no decision.", _held),
    row("workflows.ancestry", "13.8", "A child knows its parent.", "GET …/ancestry of a parent and of its child.", "null and the parent; 404 if it is not advertised.", _ancestry),
]  # fmt: skip
