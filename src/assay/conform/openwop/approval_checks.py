"""Approvals of promotions: they wait, are granted, denied and cancelled, one answer wins, and scopes hold."""

import secrets
from typing import Any, NamedTuple

from assay.conform.check import (
    Failed,
    Host,
    NotOffered,
    NotTried,
    at_once,
    document_of,
    expect,
    expect_status,
    refused_as,
)
from assay.conform.http_client import Answer
from assay.conform.json_values import Document, object_in, shown
from assay.conform.openwop.event_laws import EVENT_LAWS
from assay.conform.openwop.promotion_checks import deployments_path, promote, state_of, tested
from assay.conform.openwop.runs import any_run, log, payloads, poll, ran, snapshot, wait_for_end
from assay.conform.openwop.surface import advertises, capability, row, run_path

LAWS = ("envelope", "sequence", "causes", "terminal", "no-content")
PARALLEL = 6
ACCEPT, REJECT = {"action": "accept"}, {"action": "reject"}
ANSWERED = (404, 409, 410)  # of an answer to a question that is not open any more


class Waiting(NamedTuple):
    """A promotion that waits for an approval: its run, the node to answer, and the states before and after it."""

    version: str
    run: str
    node: str
    before: str
    after: str


class Step(NamedTuple):
    """A promotion that the policy of the host lets nobody make without an approval."""

    version: str
    before: str
    after: str
    more: Document


def _step(host: Host) -> Step:
    """
    A new version of the agent, one step before a state that needs an approval.

    NotOffered: no state needs one.
    """
    tested(host)
    version = f"1.{secrets.randbelow(10**6)}.0"
    expect_status(promote(host, version, "test"), 200, f"POST {deployments_path(host)}: draft to test")
    more = {"evalRunId": ran(host, "score-met", evalModes=["golden"], agentVersion=version).id}
    before = "test"
    for after in ("staged", "active"):
        answer = promote(host, version, after, **more)
        expect_status(answer, (200, 202), f"POST {deployments_path(host)}: {before} to {after}")
        if answer.status == 202:
            _cancel(host, _waiting(host, Step(version, before, after, more), answer))
            return Step(version, before, after, more)
        before = after
    host.send("POST", deployments_path(host), {"version": version, "transition": "deprecate"})
    raise NotOffered("no promotion of this agent needs an approval: the policy of the host decides that")


def _asked(host: Host, *, anew: bool = False) -> Waiting:
    """A promotion that waits. `anew`: of a version that no other check uses."""
    step = host.once("step to approve", lambda: _step(host))
    if anew:
        step = _step(host)
    return _waiting(host, step, promote(host, step.version, step.after, **step.more))


def _waiting(host: Host, step: Step, answer: Answer) -> Waiting:
    expect_status(answer, 202, "a promotion that needs an approval")
    found = document_of(answer, "a promotion that needs an approval")
    run = found.get("runId")
    if not isinstance(run, str):
        raise Failed("a promotion that needs an approval: expected a text in runId")
    node = found.get("nodeId") or snapshot(host, run).get("currentNodeId")
    expect(isinstance(node, str), "a promotion that needs an approval: no nodeId to answer")
    return Waiting(step.version, run, str(node), step.before, step.after)


def _answer(host: Host, asked: Waiting, value: Any, *, key: str | None = None, node: str = "") -> Answer:
    """What the host says to an answer with the key of the approver, or with this one."""
    path = run_path(asked.run, f"/interrupts/{node or asked.node}")
    return host.send("POST", path, {"resumeValue": value}, key=host.approver_key if key is None else key)


def _resolved(host: Host, asked: Waiting, value: Document) -> None:
    """Answer. NotTried: this key may not."""
    answer = _answer(host, asked, value)
    if answer.status == 403:
        _cancel(host, asked)
        raise NotTried("the policy of the host does not let this key answer: --approver-key")
    expect_status(answer, 200, f"the answer {shown(value)}")


def _cancel(host: Host, asked: Waiting) -> None:
    host.send("POST", run_path(asked.run, "/cancel"), {})


def _expect_open(host: Host, asked: Waiting, what: str) -> None:
    """Failed: the promotion does not wait any more, or has happened."""
    status, state = snapshot(host, asked.run)["status"], state_of(host, asked.version)
    expect(status == "waiting-approval", f"{what}: the run: expected waiting-approval, got {status}")
    expect(state == asked.before, f"{what}: the state: expected {asked.before}, got {state}")


def _ended(host: Host, asked: Waiting, *, promoted: bool, what: str) -> list[Document]:
    """The log of a promotion that has ended. Failed: it came to something else."""
    status = wait_for_end(host, asked.run)["status"]
    expect((status == "completed") == promoted, f"{what}: the run is {status}")
    events = log(host, asked.run)
    for law in (one for one in EVENT_LAWS if one.name in LAWS):
        for problem in law.find(events, status):
            raise Failed(f"{what}: {problem}")
    many = len(payloads(events, "deployment.promoted"))
    expect(many == promoted, f"{what}: expected {int(promoted)} deployment.promoted, got {many}")
    state, wanted = state_of(host, asked.version), asked.after if promoted else asked.before
    expect(state == wanted, f"{what}: the state: expected {wanted}, got {state}")
    return events


def _pending(host: Host) -> None:
    asked = _asked(host)
    _expect_open(host, asked, "a promotion that needs an approval")
    events = poll(host, asked.run, -1)
    kinds = [one.get("kind") for one in payloads(events, "interrupt.requested")]
    expect(kinds == ["approval"], f"interrupt.requested: expected one approval, got {shown(kinds)}")
    expect(not payloads(events, "deployment.promoted"), "deployment.promoted comes before the approval")
    for value in ({"action": "vibes"}, {}):
        expect_status(_answer(host, asked, value), (400, 403, 422), f"the answer {shown(value)}")
    expect_status(_answer(host, asked, ACCEPT, node="nothing"), 404, "an answer to a node that does not ask")
    _expect_open(host, asked, "after bad answers")
    _cancel(host, asked)


def _granted(host: Host) -> None:
    asked = _asked(host, anew=True)
    _resolved(host, asked, ACCEPT)
    events = _ended(host, asked, promoted=True, what="an approved promotion")
    for value in (ACCEPT, REJECT):
        expect_status(_answer(host, asked, value), ANSWERED, f"a second answer, {shown(value)}")
    again = _ended(host, asked, promoted=True, what="after a second answer")
    expect(len(again) == len(events), "a second answer changed the log")


def _denied(host: Host) -> None:
    asked = _asked(host)
    _resolved(host, asked, REJECT)
    _ended(host, asked, promoted=False, what="a promotion that was denied")
    expect_status(_answer(host, asked, ACCEPT), ANSWERED, "accept after reject")
    _ended(host, asked, promoted=False, what="accept after reject")


def _cancelled(host: Host) -> None:
    asked = _asked(host)
    answer = host.send("POST", run_path(asked.run, "/cancel"), {})
    expect_status(answer, 200, "a cancel of a promotion that waits")
    _ended(host, asked, promoted=False, what="a promotion that was cancelled")
    expect_status(_answer(host, asked, ACCEPT), ANSWERED, "accept after a cancel")
    _ended(host, asked, promoted=False, what="accept after a cancel")


def _one_winner(host: Host) -> None:
    """Half of the answers accept, and half reject."""
    asked = _asked(host, anew=True)
    values = [ACCEPT, REJECT] * (PARALLEL // 2)
    answers = at_once(lambda value: _answer(host, asked, value), values)
    statuses = [one.status for one in answers]
    if 403 in statuses:
        _cancel(host, asked)
        raise NotTried("the policy of the host does not let this key answer: --approver-key")
    won = [value for value, status in zip(values, statuses, strict=True) if status == 200]
    expect(len(won) == 1, f"{PARALLEL} answers at once: expected one 200, got {statuses}")
    rest = {*statuses} - {200, *ANSWERED}
    expect(not rest, f"{PARALLEL} answers at once: the statuses {sorted(rest)}")
    what = f"{PARALLEL} answers at once, of which {won[0]['action']} won"
    events = _ended(host, asked, promoted=won[0] is ACCEPT, what=what)
    decided = [one.get("type") for one in events if str(one.get("type")).startswith("approval.")]
    wanted = "approval.granted" if won[0] is ACCEPT else "approval.rejected"
    expect(decided == [wanted], f"{what}: expected one {wanted}, got {shown(decided)}")


def _without_scope(host: Host) -> None:
    capability(host, "agents.deployment")
    key = host.reader_key
    asked = _asked(host)
    for value in (ACCEPT, REJECT):
        answer = _answer(host, asked, value, key=key)
        found = refused_as(answer, 403, f"the answer {shown(value)} with a key that may only read")
        scope = object_in(found, "details").get("scopeRequired")
        expect(
            scope == "approvals:respond",
            f"details.scopeRequired: expected approvals:respond, got {shown(scope)}",
        )
    body = {"version": asked.version, "transition": "promote", "toState": asked.after}
    refused = host.send("POST", deployments_path(host), body, key=key)
    refused_as(refused, 403, "a promotion with a key that may only read")
    _expect_open(host, asked, "after a key without the scope")
    _cancel(host, asked)


def _scopes(host: Host) -> None:
    """A key that may read runs may do nothing else, and a refusal names what it takes."""
    run, key = any_run(host).id, host.reader_key
    reads = host.send("GET", run_path(run), key=key)
    if reads.status in (401, 403):
        raise NotTried(f"--reader-key: the key is refused with {reads.status}")
    expect_status(reads, 200, f"GET {run_path(run)} with a key that may only read")
    creates = ["runs:create"]
    requests: list[tuple[str, Document, list[str]]] = [
        ("/v1/runs", {"workflowId": "x"}, creates),
        (run_path(run, "/cancel"), {}, ["runs:cancel"]),
    ]
    if advertises(host, "replay"):
        requests.append((run_path(run, ":fork"), {"mode": "replay"}, creates))
    for path, body, scopes in requests:
        what = f"POST {path} with a key that may only read"
        found = refused_as(host.send("POST", path, body, key=key), 403, what)
        scope = object_in(found, "details").get("scopeRequired")
        expect(scope in scopes, f"{what}: details.scopeRequired: expected {scopes[0]}, got {shown(scope)}")


APPROVAL_CHECKS = [
    row("auth.scopes", "2.1", "A key does what its scopes name and nothing else; a refusal names the scope.", "A read, a create, a cancel and a fork with a key that may only read.", "200; 403 with details.scopeRequired.", _scopes),
    row("promotion.approval-pending", "9.3", "A promotion that needs an approval waits for it, and nothing has changed.", "Such a promotion; answers with another action and to another node.", "202, a run that is waiting-approval, the state of before; 400 or 422; 404.", _pending),
    row("promotion.approval-granted", "9.3", "An approval makes the transition, once.", "accept, then a second answer.", "200, deployment.promoted, the new state; 409, 404 or 410, and the same log.", _granted),
    row("promotion.approval-denied", "9.3", "A promotion that is denied does not happen.", "reject, then accept.", "200, a run that failed, the state of before; 409, 404 or 410.", _denied),
    row("promotion.approval-cancelled", "9.3", "A promotion that is cancelled while it waits does not happen.", "A cancel, then accept.", "run.cancelled, the state of before; 409, 404 or 410.", _cancelled),
    row("promotion.approval-one-winner", "9.3", "Of answers at the same time one counts, and the state follows from it.", f"accept and reject, {PARALLEL} answers at once.", "One 200; one approval.granted or approval.rejected; the state of the winner.", _one_winner),
    row("promotion.approval-scope", "9.3", "Without the scope nobody approves, denies or promotes.", "accept, reject and a promotion with a key that may only read.", "403 with details.scopeRequired; the promotion waits.", _without_scope),
]  # fmt: skip
