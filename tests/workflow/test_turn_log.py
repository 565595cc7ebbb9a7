"""A verifier loop turn by turn: candidates, verdicts by criterion, questions and their answers, a give-up as such."""

import pytest

from assay.protocol.agents import InvocationResult
from assay.workflow.turn_log import turn_log
from support.workflows import ScriptedAgent, verifier_host

REVISE = {"verdict": "revise", "notes": "say how", "met": {"how": False, "short": True}, "confidence": 0.7}
PASS = {"verdict": "pass", "confidence": 0.9}


async def turns_of(host, run, first=0, limit=50):
    found = await host.store.run(run.id)
    return await turn_log(host.store, found, host.kind.environment, first, limit)


@pytest.mark.anyio
async def test_each_turn_has_its_candidate_and_the_verdict_by_criterion():
    actor, critic = ScriptedAgent("test.actor", ["one", "two"]), ScriptedAgent("test.critic", [REVISE, PASS])
    async with verifier_host(actor, critic, criteria=["how", "short"]) as host:
        run = await host.run("loop", {"task": "write"})
        log = await turns_of(host, run)
        later = await turns_of(host, run, first=1)
    first, second = log.turns
    assert (first.candidate, first.state, second.candidate, second.state) == (
        "one",
        "withheld",
        "two",
        "committed",
    )
    (verdict,) = first.verdicts
    assert (verdict.verdict, verdict.notes, verdict.confidence) == ("revise", "say how", 0.7)
    assert {one.key: one.met for one in verdict.criteria} == {"how": False, "short": True}
    assert {one.key: one.met for one in second.verdicts[0].criteria} == {"how": True, "short": True}
    assert (log.task, log.result, log.total, log.max_turns) == ("write", "two", 2, 5)
    assert log.end is not None
    assert (log.end.gave_up, log.end.reason) == (False, "goal-reached")
    assert ([one.iteration for one in later.turns], later.total) == ([2], 2)


@pytest.mark.anyio
async def test_a_question_waits_then_has_its_answer():
    actor = ScriptedAgent("test.actor", ["bad", "good"])
    critic = ScriptedAgent("test.critic", [{"verdict": "fail", "notes": "wrong"}, PASS])
    async with verifier_host(actor, critic, approval_seconds=600) as host:
        run = await host.run("loop", {"task": "write"})
        waiting = await turns_of(host, run)
        await host.answer(run, "actor", {"action": "accept"})
        done = await turns_of(host, run)
    (turn,) = waiting.turns
    (question,) = turn.questions
    assert (turn.state, question.node_id, question.about, question.action) == (
        "waiting",
        "actor",
        "retry",
        None,
    )
    assert question.actions == ("accept", "reject")
    assert question.subject["artifactData"] == {"result": "bad"}
    assert question.deadline is not None
    (answered,) = done.turns[0].questions
    assert (answered.action, answered.answered_by) == ("accept", "key-me")
    assert [one.state for one in done.turns] == ["withheld", "committed"]


@pytest.mark.anyio
async def test_a_give_up_and_a_failed_turn_are_shown():
    actor = ScriptedAgent("test.actor", ["bad"])
    async with verifier_host(
        actor, ScriptedAgent("test.critic", ["fail"]), on_fail="give-up", criteria=["right"]
    ) as host:
        log = await turns_of(host, await host.run("loop", {"task": "write"}))
    assert log.end is not None
    assert (log.end.gave_up, log.result, log.turns[0].state) == (True, None, "withheld")
    assert [(one.key, one.met) for one in log.end.criteria] == [("right", False)]
    assert not log.report.goal_satisfied
    broken = ScriptedAgent("test.actor", [InvocationResult(outcome="failed", error="no disk"), "good"])
    async with verifier_host(broken, ScriptedAgent("test.critic", [PASS])) as host:
        log = await turns_of(host, await host.run("loop", {"task": "write"}))
    assert [(one.state, one.has_candidate) for one in log.turns] == [("failed", False), ("committed", True)]
    assert [one.reason for one in log.turns[0].failures] == ["no disk"]
