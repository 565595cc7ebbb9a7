"""Verdicts that gate: critics that pass, revise, fail and break, limits of turns, self-verification, giving up."""

from itertools import islice
from typing import Any

from assay.conform.check import Host, NotOffered, NotTried, at_once, document_of, expect
from assay.conform.http_client import Unanswered
from assay.conform.json_values import Document, object_in, objects_in, shown
from assay.conform.openwop.event_laws import EVENT_LAWS, gated
from assay.conform.openwop.runs import ENDED, log, payloads, snapshot
from assay.conform.openwop.surface import capability, play, row

CANARY = "conform-canary-verdict"
WORKERS = 3  # loops at the same time
LAWS = {"envelope", "sequence", "causes", "terminal", "no-content", "usage", "brackets"}
VERIFIED = {"agentId", "target", "verdict", "criteria", "confidence", "causationHostId"}


def _verified(host: Host, verdict: str, **more: Any) -> Document:
    """What a verifier loop of the host came to, with a critic that does this."""
    capability(host, "multiAgent.executionModel.verifier")
    body = {"simulateVerdict": verdict, "task": {"text": CANARY}} | more
    return host.once(f"verdict {verdict} {more}", lambda: play(host, "/agents/verify-run", body))


def _success(found: Document) -> bool:
    return (
        found.get("status") == "completed"
        or found.get("outcome") == "completed"
        or found.get("committed") is True
    )


def _gates(host: Host) -> None:
    if capability(host, "multiAgent.executionModel.verifier").get("gating") is not True:
        raise NotOffered("discovery does not advertise verifier.gating")
    expect(_success(_verified(host, "pass")), "the verdict pass: expected a commit")
    for verdict in ("fail", "revise"):
        found = _verified(host, verdict)
        expect(not _success(found), f"the verdict {verdict}: the result is committed")
        seen = [one.get("verdict") for one in objects_in(found, "events")]
        expect(verdict in seen, f"the verdict {verdict}: events have {seen}")


def _bad_critics(host: Host) -> None:
    for critic in ("crash", "garbage"):
        expect(not _success(_verified(host, critic)), f"a critic that does {critic}: the result is committed")


def _hanging_critic(host: Host) -> None:
    try:
        found = _verified(host, "hang")
    except Unanswered:
        raise NotTried("the time limit of a critic is longer than that of a request: --timeout") from None
    expect(not _success(found), "a critic that hangs: the result is committed")


def _log_of(host: Host, verdict: str) -> tuple[Document, list[Document]]:
    run = _verified(host, verdict).get("runId")
    if not isinstance(run, str):
        raise NotTried("the test-only route does not say which run it made")
    shot = snapshot(host, run)
    return shot, log(host, run, status=shot["status"])


def _bound(host: Host) -> None:
    """An actor that must always revise stops at the limit of turns."""
    shot, events = _log_of(host, "revise")
    found = payloads(events, "cap.breached")
    expect(found, "a loop without an end: expected cap.breached")
    cap = found[-1]
    expect(cap.get("kind") == "loop-iterations", f"cap.breached: kind: got {shown(cap.get('kind'))}")
    limit, observed = cap.get("limit", 0), cap.get("observed", 0)
    expect(observed == limit + 1, f"cap.breached: observed: expected {limit + 1}, got {observed}")
    many = len(payloads(events, "agent.verified"))
    expect(many == limit, f"a limit of {limit} turns: expected as many verdicts, got {many}")
    code = object_in(shot, "error").get("code")
    expect(code == "loop_limit_exceeded", f"the run: expected loop_limit_exceeded, got {shown(code)}")


def _turns(host: Host) -> None:
    """A critic that passes at the last turn that is allowed, and one that would pass at the turn after it."""
    first = _verified(host, "revise", passAtTurn=2, maxTurns=3)
    seen = [one.get("verdict") for one in objects_in(first, "events")]
    if seen[:1] != ["revise"] or len(seen) > 2:
        raise NotTried("the test-only route has no passAtTurn and maxTurns")
    rows = [(most, turn) for most in (1, 2, 3) for turn in (most, most + 1)]
    loops = at_once(lambda one: _verified(host, "revise", maxTurns=one[0], passAtTurn=one[1]), rows, WORKERS)
    for (most, turn), found in zip(rows, loops, strict=True):
        what = f"a critic that passes at turn {turn} of {most}"
        seen = [one.get("verdict") for one in objects_in(found, "events")]
        wanted = ["revise"] * (most - 1) + ["pass" if turn == most else "revise"]
        expect(seen == wanted, f"{what}: expected the verdicts {wanted}, got {seen}")
        committed = "a commit" if turn == most else "no commit"
        expect(_success(found) == (turn == most), f"{what}: expected {committed}")


def _self(host: Host) -> None:
    """An actor that is its own critic: the log and the report both show it, and do not claim it of another critic."""
    for own in (True, False):
        run = _verified(host, "pass", selfVerify=own).get("runId")
        if not isinstance(run, str):
            raise NotTried("the test-only route does not say which run it made")
        events = log(host, run, status=snapshot(host, run)["status"])
        agents = {one.get("eventId"): object_in(one, "payload").get("agentId") for one in events}
        (verdict,) = payloads(events, "agent.verified") or [{}]
        critic, actor = verdict.get("agentId"), agents.get(verdict.get("target"))
        if own and critic != actor:
            raise NotTried("the test-only route has no selfVerify")
        expect(own or critic != actor, "a verdict of another agent has the agent that it is about")
        answer = host.send("GET", f"/v1/host/assay/runs/{run}/verification")
        if answer.status == 200:
            verdicts = objects_in(document_of(answer, "the report of a verification"), "verdicts")
            shows = [one.get("selfVerified", False) for one in verdicts]
            expect(shows == [own], f"the report: selfVerified: expected {[own]}, got {shown(shows)}")


def _targets(host: Host) -> None:
    """A verdict shows whether an agent judged itself: its target is an event, a call or a run with an agent."""
    _, events = _log_of(host, "pass")
    ids = {one.get("eventId"): one for one in events}
    for event in (one for one in events if one.get("type") == "agent.verified"):
        payload = object_in(event, "payload")
        more = payload.keys() - VERIFIED
        expect(not more, f"agent.verified has the members {sorted(more)}")
        expect(payload.get("verdict") in ("pass", "fail", "revise"), "agent.verified: verdict is another")
        target = ids.get(event.get("causationId"))
        expect(target is not None, "agent.verified: causationId is not the event that it is about")
        if payload.get("target") in ids:
            actor = object_in(ids[payload["target"]], "payload").get("agentId")
            expect(isinstance(actor, str), "agent.verified: its target has no agentId to compare with")


def _no_content(host: Host) -> None:
    for verdict in ("pass", "fail"):
        found = _verified(host, verdict)
        expect(CANARY not in shown(found.get("events"), None), "a verdict has content of the task")
        _, events = _log_of(host, verdict)
        for one in payloads(events, "agent.verified"):
            expect(CANARY not in shown(one, None), "agent.verified has content of the task")


def _iterations(host: Host) -> None:
    for verdict in ("pass", "revise"):
        _, events = _log_of(host, verdict)
        found = [one.get("iteration") for one in payloads(events, "runOrchestrator.decided")]
        expect(found == list(range(1, len(found) + 1)), f"iterations: expected 1, 2, …; got {found}")


def _give_up(host: Host) -> None:
    found = _verified(host, "fail", onFail="give-up")
    expect(found.get("committed") is not True, "an agent that gives up: the result is committed")
    run = found.get("runId")
    answer = host.send("GET", f"/v1/host/assay/runs/{run}/verification")
    if answer.status == 200:
        goal = document_of(answer, "the report of a verification").get("goalSatisfied")
        expect(goal is False, f"an agent that gives up: goalSatisfied: expected false, got {shown(goal)}")


def _laws_of_verdicts(host: Host) -> None:
    for verdict in ("pass", "fail", "revise"):
        shot, events = _log_of(host, verdict)
        problems = [*gated(events, str(shot["status"]))]
        for law in (one for one in EVENT_LAWS if one.name in LAWS):
            if law.name != "terminal" or shot["status"] in ENDED:
                problems += islice(law.find(events, str(shot["status"])), 1)
        expect(not problems, f"the verdict {verdict}: {'; '.join(problems[:3])}")


VERIFY_CHECKS = [
    row("verify.gates", "8.2", "pass commits; fail and revise never do.", "A verifier loop with each verdict.", "A commit after pass alone.", _gates),
    row("verify.bad-critics", "8.2", "A critic that crashes or answers with something else counts as fail.", "A verifier loop with such critics.", "No commit.", _bad_critics),
    row("verify.hanging-critic", "8.2", "A critic that hangs counts as fail.", "A verifier loop with such a critic.", "No commit, as soon as its time is up.", _hanging_critic),
    row("verify.bound", "8.2", "A loop stops at its limit of turns.", "A verifier loop whose critic always says revise.", "As many verdicts as the limit, cap.breached, loop_limit_exceeded.", _bound),
    row("verify.turns", "8.2", "The last turn that is allowed counts, and the one after it does not happen.", "Verifier loops of 1, 2 and 3 turns whose critic passes at the last turn, and one later.", "A commit; no commit, and no verdict more.", _turns),
    row("verify.self", "8.1", "An agent that judges itself can be seen to.", "A verifier loop whose actor is its critic, and one with another critic.", "agent.verified with the agent of its target; selfVerified in the report.", _self),
    row("verify.targets", "8.1", "A verdict has a target whose agent can be compared with the critic.", "The log of a verified run.", "agent.verified with known members, about an event with an agent.", _targets),
    row("verify.no-content", "8.1", "A verdict has no content.", "A task with a canary.", "Events without it.", _no_content),
    row("verify.iterations", "13.10", "Turns of a verifier loop count from 1 without gaps.", "The logs of verified runs.", "1, 2, ….", _iterations),
    row("verify.give-up", "8.5", "An agent that gives up did not reach its goal.", "A verifier loop that gives up.", "No commit; goalSatisfied false.", _give_up),
    row("verify.laws", "8.2", "Logs of verified runs keep the laws of events, and the verdict gates.", "The logs of three verdicts.", "Logs that keep the laws.", _laws_of_verdicts),
]  # fmt: skip
