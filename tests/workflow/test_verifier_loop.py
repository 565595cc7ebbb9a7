"""The verified loop (RFC 0090, openwop-contract §8): what is committed, what is not, who is asked, and what the record says of it."""

import asyncio
import json

import pytest

from assay.agents.invocation import invoke
from assay.errors import InvalidRequest, TimeFault
from assay.ports.agents import ToolFailure
from assay.ports.config import ConfidenceFloors, VerifierLoopConfig
from assay.protocol.agents import InvocationResult, ToolSpec
from assay.seams.sample_workflows import samples
from assay.workflow.loop_settings import library, loop_problems, read_loop, workflow_of
from assay.workflow.state.children import attestation
from assay.workflow.state.definition import document_of, read
from assay.workflow.verification_report import verification_of
from support.workflows import ScriptedAgent, WorkflowHost, loop, verifier_host

pytestmark = pytest.mark.anyio

CRITIC = "test.critic"


def critic(*verdicts, id=CRITIC):
    return ScriptedAgent(id, list(verdicts))


def actor(*results, id="test.actor", **card):
    return ScriptedAgent(id, list(results), **card)


async def ran(actor, *critics, task="the task", configurable=None, **more):
    async with verifier_host(actor, *critics, **more) as host:
        run = await host.run("loop", {"task": task}, configurable)
        return run, await host.events(run), await host.workflows.report(run.id, "t")


def decisions(events):
    return [event["payload"] for event in events if event["type"] == "runOrchestrator.decided"]


async def test_verifier_gating_a_pass_is_committed():
    run, events, report = await ran(actor("R"), critic("pass"), criteria=["good"])
    assert (run.status, report.committed, report.goal_satisfied) == ("completed", True, True)
    assert [one["decision"]["kind"] for one in decisions(events)] == ["next-worker", "terminate"]
    assert [one["iteration"] for one in decisions(events)] == [1, 2]
    assert report.success_criteria == ({"key": "good", "met": True},)
    assert events[-1]["payload"]["outputs"]["result"] == "R"


async def test_a_verdict_points_at_the_decision_it_is_about_in_the_critics_own_bracket():
    _, events, report = await ran(
        actor("R"), critic({"verdict": "pass", "confidence": 0.9, "criteria": ["a"]}), criteria=["a"]
    )
    (decided,) = [event for event in events if event["type"] == "agent.decided"]
    (at,) = [at for at, event in enumerate(events) if event["type"] == "agent.verified"]
    verified = events[at]
    assert verified["payload"] == {
        "agentId": CRITIC, "target": decided["eventId"], "verdict": "pass", "criteria": ["a"], "confidence": 0.9,
    }  # fmt: skip
    assert verified["causationId"] == decided["eventId"]
    assert (events[at - 1]["type"], events[at + 1]["type"]) == (
        "agent.invocation.started",
        "agent.invocation.completed",
    )
    assert events[at - 1]["payload"]["invocationId"] == events[at + 1]["payload"]["invocationId"]
    agents = [event["type"] for event in events if event["type"].startswith("agent.")]
    assert (agents[0], agents[-1]) == ("agent.invocation.started", "agent.invocation.completed")
    assert report.verdicts[0].actor_id == "test.actor"
    assert not report.verdicts[0].self_verified


async def test_verifier_gating_a_fail_is_never_committed_and_waits_for_a_person():
    run, events, report = await ran(actor("R"), critic("fail"))
    assert (run.status, report.committed, report.goal_satisfied) == ("waiting-approval", False, False)
    assert "variable.changed" not in [event["type"] for event in events]


async def test_verifier_gating_a_revise_is_another_turn_with_the_critics_notes():
    worker = actor("bad", "good")
    run, events, report = await ran(worker, critic({"verdict": "revise", "notes": "say Paris"}, "pass"))
    assert (run.status, report.goal_satisfied, report.turns) == ("completed", True, 3)
    assert worker.tasks == ["the task", {"task": "the task", "notes": ["say Paris"], "turn": 2}]
    assert [one.verdict for one in report.verdicts] == ["revise", "pass"]
    assert [one.iteration for one in report.verdicts] == [1, 2]
    assert events[-1]["payload"]["outputs"]["result"] == "good"


@pytest.mark.parametrize(
    ("max_turns", "configurable", "cap"),
    [(2, {}, "actor.max_turns"), (5, {"maxLoopIterations": 2}, "configurable.maxLoopIterations")],
)
async def test_a_loop_that_never_converges_ends_at_its_bound(max_turns, configurable, cap):
    run, events, report = await ran(
        actor("bad"), critic("revise"), max_turns=max_turns, configurable=configurable
    )
    assert (run.status, run.metadata["error"]["code"]) == ("failed", "loop_limit_exceeded")
    assert run.metadata["error"]["details"] == {"cap": cap}
    (breach,) = [event["payload"] for event in events if event["type"] == "cap.breached"]
    assert {name: breach[name] for name in ("kind", "limit", "observed")} == {
        "kind": "loop-iterations", "limit": 2, "observed": 3,
    }  # fmt: skip
    assert (report.committed, len(report.verdicts)) == (False, 2)


async def test_the_last_turn_may_be_the_good_one():
    run, _, report = await ran(actor("a", "b"), critic("revise", "pass"), max_turns=2)
    assert (run.status, report.goal_satisfied) == ("completed", True)


class Silent(Exception): ...


async def sleep(task, scene):
    await asyncio.sleep(60)


NONSENSE = [
    "ok", "PASS", "", None, 1, [], {}, {"verdict": "ok"}, {"verdict": "pass", "result": "R"},
    {"verdict": "pass", "target": "ev-of-another-run"}, {"verdict": "pass", "criteria": ["a", "a"]},
    {"verdict": "pass", "criteria": [""]},
    {"verdict": "pass", "confidence": 2}, Silent("crashed"), InvocationResult(outcome="failed", error="no"),
    InvocationResult(outcome="refused", error="no"), {"verdict": ["pass"]},
]  # fmt: skip


@pytest.mark.parametrize("message", NONSENSE, ids=range(len(NONSENSE)))
async def test_a_critic_that_crashes_or_answers_nonsense_counts_as_fail(message):
    run, events, report = await ran(actor("R"), critic(message), criteria=["a"])
    assert (run.status, report.committed) == ("waiting-approval", False)
    assert [one.verdict for one in report.verdicts] == ["fail"]
    done = [event["payload"]["outcome"] for event in events if event["type"] == "agent.invocation.completed"]
    assert done == ["completed", "failed"]


async def test_a_critic_that_does_not_end_counts_as_fail(monkeypatch):
    monkeypatch.setitem(invoke.__kwdefaults__, "grace", 0.05)
    slow = ScriptedAgent(CRITIC, sleep)
    async with WorkflowHost(actor("R"), slow, loops={"loop": loop()}, seconds=0.05) as host:
        host.critics._seconds = 0.05
        run = await host.run("loop", {"task": 1})
        report = await host.workflows.report(run.id, "t")
    assert [one.verdict for one in report.verdicts] == ["fail"]


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (("pass", "pass"), "completed"),
        (("pass", "revise"), "failed"),  # at the bound of one turn
        (("revise", "fail"), "waiting-approval"),
        (("pass", "fail"), "waiting-approval"),
    ],
)
async def test_several_critics_the_strictest_counts(verdicts, status):
    critics = [critic(verdict, id=f"test.critic-{at}") for at, verdict in enumerate(verdicts)]
    run, _, report = await ran(actor("R"), *critics, max_turns=1)
    assert run.status == status
    assert len(report.verdicts) == 2


@pytest.mark.parametrize("held", [(True, False), (False, True)])
async def test_a_criterion_that_any_critic_finds_unmet_is_not_met(held):
    verdicts = [{"verdict": "pass", "met": {"a": one, "b": True}} for one in held]
    critics = [critic(one, id=f"test.critic-{at}") for at, one in enumerate(verdicts)]
    run, _, report = await ran(actor("R"), *critics, criteria=["a", "b"])
    assert report.success_criteria == ({"key": "a", "met": False}, {"key": "b", "met": True})
    assert (run.status, report.goal_satisfied) == ("completed", False)


async def test_without_a_verdict_the_candidate_is_committed():
    run, events, report = await ran(actor("R"))
    assert (run.status, report.committed, report.goal_satisfied) == ("completed", True, True)
    assert "successCriteria" not in decisions(events)[-1]["decision"]


@pytest.mark.parametrize("verdict", ["fail", "revise"])
async def test_with_gating_off_a_verdict_is_only_recorded_and_no_success_is_claimed(verdict):
    run, events, report = await ran(actor("R"), critic(verdict), gating=False)
    assert (run.status, report.committed) == ("completed", True)
    assert not report.goal_satisfied
    assert run.metadata["goalSatisfied"] is False
    last = decisions(events)[-1]["decision"]
    assert (last["successCriteria"], last["reason"]) == ([{"key": "verified", "met": False}], "gave-up")


async def test_giving_up_completes_and_is_no_success():
    run, events, report = await ran(actor("R"), critic("fail"), on_fail="give-up", criteria=["a", "b"])
    assert (run.status, report.committed, report.goal_satisfied) == ("completed", False, False)
    assert decisions(events)[-1]["decision"]["reason"] == "gave-up"
    assert {one["met"] for one in report.success_criteria} == {False}


async def test_a_person_may_grant_another_turn_after_a_fail_and_may_refuse():
    async with verifier_host(actor("bad", "good"), critic("fail", "pass")) as host:
        run = await host.run("loop", {"task": "t"})
        run = await host.answer(run, "actor", {"action": "accept"})
        assert run.status == "completed"
        assert (await host.workflows.report(run.id, "t")).committed
        events = await host.events(run)
        assert [one["iteration"] for one in decisions(events)] == [1, 2, 3]
    async with verifier_host(actor("bad"), critic("fail")) as host:
        run = await host.run("loop", {"task": "t"})
        run = await host.answer(run, "actor", {"action": "reject"})
        assert (run.status, run.metadata["error"]["code"]) == ("failed", "decision_rejected")


async def test_on_fail_retry_takes_turns_up_to_the_bound():
    run, _, report = await ran(actor("R"), critic("fail"), on_fail="retry", max_turns=3)
    assert (run.status, run.metadata["error"]["code"], len(report.verdicts)) == (
        "failed",
        "loop_limit_exceeded",
        3,
    )
    run, _, report = await ran(actor("a", "b"), critic("fail", "pass"), on_fail="retry")
    assert (run.status, report.goal_satisfied) == ("completed", True)


# confidence


@pytest.mark.parametrize(
    ("confidence", "judged", "unsure"),
    [
        (InvocationResult(outcome="completed", result="R", confidence=0.4), "pass", "test.actor"),
        (
            InvocationResult(outcome="completed", result="R", confidence=0.9),
            {"verdict": "pass", "confidence": 0.3},
            CRITIC,
        ),
        (
            InvocationResult(outcome="completed", result="R", confidence=0.9),
            {"verdict": "pass", "confidence": 0.9},
            None,
        ),
        ("R", "pass", None),
    ],
    ids=["actor", "critic", "both sure", "no opinion"],
)
async def test_a_confidence_below_its_floor_escalates(confidence, judged, unsure):
    async with verifier_host(
        actor(confidence), critic(judged), floors=ConfidenceFloors(actor=0.5, critic=0.5)
    ) as host:
        run = await host.run("loop", {"task": "t"})
        if unsure is None:
            assert run.status == "completed"
            return
        assert run.status == "waiting-approval"
        (suspended,) = await host.events(run, "node.suspended")
        payload = suspended["payload"]
        assert payload["kind"] == payload["reason"] == "low-confidence"
        assert (payload["agentId"], payload["observed"] < 0.5) == (unsure, True)
        assert not (await host.workflows.report(run.id, "t")).committed
        run = await host.answer(run, "actor", {"action": "accept"})
        assert run.status == "completed"


async def test_an_unanswered_escalation_is_a_rejection():
    result = InvocationResult(outcome="completed", result="R", confidence=0.1)
    async with verifier_host(actor(result), critic("pass"), approval_seconds=0.01) as host:
        run = await host.run("loop", {"task": "t"})
        await asyncio.sleep(0.02)
        assert await host.workflows.expire_waits() == 1
        ended = await host.executor.wait(run.id)
        assert (ended.status, ended.metadata["error"]["code"]) == ("failed", "decision_rejected")
        assert not (await host.workflows.report(run.id, "t")).committed


# who verifies


async def test_self_verification_is_allowed_and_shown():
    both = ScriptedAgent("test.actor", lambda task, scene: {"verdict": "pass"})
    async with WorkflowHost(both, loops={"loop": loop("test.actor", ["test.actor"])}) as host:
        run = await host.run("loop", {"task": "t"})
        assert (await host.workflows.report(run.id, "t")).verdicts[0].self_verified


async def test_self_verification_through_workflows_is_shown():
    both = ScriptedAgent("test.actor", lambda task, scene: {"verdict": "pass"})
    other = ScriptedAgent("test.critic", lambda task, scene: {"verdict": "pass"})
    loops = {
        "inner": loop("test.actor", ["test.critic"]),
        "between": loop("workflow:inner", []),
        "outer": loop("workflow:between", ["test.critic", "test.actor"]),
        "fair": loop("workflow:between", ["test.critic"]),  # it judged inside, and did no work there
    }
    async with WorkflowHost(both, other, loops=loops) as host:
        run = await host.run("outer", {"task": "t"})
        verdicts = (await host.workflows.report(run.id, "t")).verdicts
        assert [(one.agent_id, one.actor_id, one.self_verified) for one in verdicts] == [
            ("test.critic", "between", False),
            ("test.actor", "between", True),
        ]
        assert run.metadata["selfVerified"]
        came = await verification_of(host.store, run, host.workflows.environment)
        assert [one.self_verified for one in came.verdicts] == [False, True]
        fair = await host.run("fair", {"task": "t"})
        assert not (await host.workflows.report(fair.id, "t")).verdicts[0].self_verified
        assert "selfVerified" not in fair.metadata


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"critics": ["a.b"], "actor": "a.b", "allow_self": False}, "critics"),
        ({"criteria": ["a", "a"]}, "criteria"),
        ({"criteria": ["a", ""]}, "criteria"),
        ({"criteria": {" ": {"type": "exists"}}}, "criteria"),
        ({"critics": ["x.y", "x.y"]}, "critics"),
        ({"critics": ["checks"]}, "critics"),
    ],
)
def test_an_invalid_loop_is_refused(more, place):
    with pytest.raises(InvalidRequest) as refused:
        read_loop("loop", {"actor": "test.actor"} | more)
    assert [problem.place for problem in refused.value.problems] == [f'workflows."loop".{place}']


@pytest.mark.parametrize(("critic", "allowed"), [("a.b", False), ("c.d", True)])
def test_an_agent_does_not_verify_itself_through_a_workflow(critic, allowed):
    loops = {
        "inner": VerifierLoopConfig(actor="a.b"),
        "between": VerifierLoopConfig(actor="workflow:inner"),
        "outer": VerifierLoopConfig(actor="workflow:between", critics=[critic], allow_self=False),
        "round": VerifierLoopConfig(actor="workflow:round", critics=[critic], allow_self=False),
    }
    if allowed:
        assert library(loops)
        return
    with pytest.raises(InvalidRequest) as refused:
        library(loops)
    assert [problem.place for problem in refused.value.problems] == ['workflows."outer".critics']


@pytest.mark.parametrize(
    "table", [{}, {"actor": ""}, {"actor": "a", "max_turns": 0}, {"actor": "a", "x": 1}, 3]
)
def test_an_invalid_table_of_a_loop_is_refused(table):
    with pytest.raises(InvalidRequest):
        read_loop("loop", table)
    assert loop_problems("Loop!", VerifierLoopConfig(actor="a.b"))


async def test_an_unknown_agent_is_refused_before_anything_runs():
    async with WorkflowHost(actor("R"), loops={"loop": loop(critics=["test.nobody"])}) as host:
        with pytest.raises(InvalidRequest) as refused:
            await host.workflows.start(house_me(), "loop", {"task": 1})
        assert [problem.place for problem in refused.value.problems] == ['workflows."loop".critics']
        assert not host.store._runs


def house_me():
    from support.workflows import ME

    return ME


# checks as critics


CONTAINS = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}}


async def test_checks_are_a_critic_with_a_verdict_by_criterion():
    criteria = {"names-it": CONTAINS, "is-there": {"type": "exists", "arguments": {"path": "$.output.value"}}}
    worker = actor("Lyon", "Paris")
    async with WorkflowHost(worker, loops={"loop": loop(critics=(), criteria=criteria)}) as host:
        run = await host.run("loop", {"task": "capital?"})
        report = await host.workflows.report(run.id, "t")
    assert run.status == "completed"
    assert [one.verdict for one in report.verdicts] == ["revise", "pass"]
    assert report.verdicts[0].criteria == ("names-it", "is-there")
    assert worker.tasks[1]["notes"] == ["names-it did not pass"]
    assert report.success_criteria == ({"key": "names-it", "met": True}, {"key": "is-there", "met": True})


async def test_a_check_that_errs_is_a_fail_never_a_pass():
    criteria = {
        "broken": {"type": "contains", "arguments": {"text": "$.output.value.nowhere", "phrases": ["x"]}}
    }
    run, _, report = await ran(actor("R"), criteria=criteria)
    assert (run.status, [one.verdict for one in report.verdicts]) == ("waiting-approval", ["fail"])


JUDGED = {
    "type": "llm_judge",
    "arguments": {
        "prompt": "Is `{{$.output.value}}` an answer to {{$.test_case.input}}?",
        "response_format": {
            "type": "object", "required": ["passed"], "properties": {"passed": {"type": "boolean"}},
        },
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("judge", "status", "verdicts"),
    [
        ({"`Paris`": {"passed": True}, "`Lyon`": {"passed": False}}, "completed", ["revise", "pass"]),
        (lambda ask: "I would rather not say", "waiting-approval", ["fail"]),
        (lambda ask: TimeFault("too slow"), "waiting-approval", ["fail"]),
    ],
    ids=["a verdict", "nonsense", "too slow"],
)
async def test_a_judge_is_a_critic(judge, status, verdicts):
    """An `llm_judge` among the criteria; its prompt holds the candidate, and its events do not."""
    declared = loop(critics=(), criteria={"answers": JUDGED})
    async with WorkflowHost(actor("Lyon", "Paris"), loops={"loop": declared}, judge=judge) as host:
        run = await host.run("loop", {"task": "the capital?"})
        report = await host.workflows.report(run.id, "t")
        verified = [event["payload"] for event in await host.events(run, "agent.verified")]
    assert (run.status, [one.verdict for one in report.verdicts]) == (status, verdicts)
    assert {one.criteria for one in report.verdicts} == {("answers",)}
    assert not [one for one in verified if "Lyon" in json.dumps(one)]


async def test_every_call_of_a_judge_is_in_the_bracket_of_its_critic():
    """The one whose answer had to be repaired too; and what it says is not counted for the actor."""
    answers = iter(["no form at all", {"passed": True}])
    declared = loop(critics=(), criteria={"answers": JUDGED})
    async with WorkflowHost(
        actor("Paris"), loops={"loop": declared}, judge=lambda ask: next(answers)
    ) as host:
        run = await host.run("loop", {"task": "the capital?"})
        types = [event["type"] for event in await host.events(run)]
    assert run.status == "completed"
    at = types.index("agent.verified")
    assert types[at - 3 : at + 2] == [
        "agent.invocation.started", "provider.usage", "provider.usage", "agent.verified", "agent.invocation.completed",
    ]  # fmt: skip
    assert types.count("provider.usage") == 2


async def test_a_judge_without_a_model_is_refused_before_anything_runs():
    criteria = {"is-there": {"type": "exists", "arguments": {"path": "$.output"}}, "answers": JUDGED}
    async with WorkflowHost(actor("R"), loops={"loop": loop(critics=(), criteria=criteria)}) as host:
        with pytest.raises(InvalidRequest) as refused:
            await host.workflows.start(house_me(), "loop", {"task": 1})
        (problem,) = refused.value.problems
        assert problem.place.startswith('workflows."loop".criteria.answers')


# supervisors


async def test_an_agent_may_supervise_and_cannot_end_in_success_on_a_fail():
    ends = ScriptedAgent("test.boss", lambda task, scene: go_or_end(task))
    declared = loop(supervisor="test.boss", on_fail="retry")
    async with WorkflowHost(actor("R"), critic("fail"), ends, loops={"loop": declared}) as host:
        run = await host.run("loop", {"task": "t"})
        assert (run.status, run.metadata["error"]["code"]) == ("failed", "decision_rejected")
        assert run.metadata["supervisor"] == "test.boss"
    async with WorkflowHost(actor("R"), critic("pass"), ends, loops={"loop": declared}) as host:
        assert (await host.run("loop", {"task": "t"})).status == "completed"


REACHED = {"kind": "terminate", "reason": "goal-reached"}
GIVEN_UP = REACHED | {"successCriteria": [{"key": "a", "met": False}]}
WORKS = {"kind": "next-worker", "nextWorkerIds": ["test.actor"]}


@pytest.mark.parametrize("gating", [True, False])
@pytest.mark.parametrize(
    ("critics", "decides", "works", "status", "reason"),
    [
        (["test.critic"], [REACHED], True, "failed", None),  # no critic has spoken
        (["test.critic"], [WORKS, REACHED], False, "failed", None),  # nor of work that came to nothing
        (["test.critic"], [WORKS, REACHED], True, "completed", "goal-reached"),
        (["test.critic"], [GIVEN_UP], True, "completed", "gave-up"),
        ([], [REACHED], True, "completed", "goal-reached"),
        ([], [WORKS, GIVEN_UP], True, "completed", "gave-up"),
    ],
)
async def test_8_5_no_success_is_reported_without_a_verdict(gating, critics, decides, works, status, reason):
    made = (
        InvocationResult(outcome="completed", result="R")
        if works
        else InvocationResult(outcome="failed", error="no")
    )
    agents = ScriptedAgent("test.actor", [made]), critic("pass"), ScriptedAgent("test.boss", decides)
    declared = loop(critics=critics, supervisor="test.boss", gating=gating)
    async with WorkflowHost(*agents, loops={"loop": declared}) as host:
        run = await host.run("loop", {"task": "t"})
        last = decisions(await host.events(run))[-1]["decision"]
        assert (run.status, last.get("reason") if reason else None) == (status, reason)
        assert run.metadata["goalSatisfied"] is (reason == "goal-reached")
        if status == "failed":
            assert run.metadata["error"]["code"] == "decision_rejected"


@pytest.mark.parametrize("verdict", ["fail", "revise"])
async def test_8_5_a_supervisor_cannot_claim_a_goal_that_a_critic_denies(verdict):
    agents = actor("R"), critic(verdict), ScriptedAgent("test.boss", [WORKS, REACHED])
    declared = loop(supervisor="test.boss", gating=False)
    async with WorkflowHost(*agents, loops={"loop": declared}) as host:
        run = await host.run("loop", {"task": "t"})
        last = decisions(await host.events(run))[-1]["decision"]
    assert (run.status, run.metadata["goalSatisfied"], last["reason"]) == ("completed", False, "gave-up")


def go_or_end(task):
    if task["last"] is None:
        return {"kind": "next-worker", "nextWorkerIds": task["workers"]}
    return {"kind": "terminate", "reason": "I am done", "successCriteria": [{"key": "a", "met": True}]}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("terminate", "validation_error"),
        ({"kind": "next-worker", "nextWorkerIds": []}, "validation_error"),
        ({"kind": "terminate", "successCriteria": [{"key": "", "met": True}]}, "validation_error"),
        (
            {"kind": "terminate", "successCriteria": [{"key": "a", "met": True}, {"key": "a", "met": True}]},
            "validation_error",
        ),
        ({"kind": "next-worker", "nextWorkerIds": ["somebody.else"]}, "unknown_child_workflow"),
        (InvocationResult(outcome="failed", error="x"), "supervisor_failed"),
    ],
)
async def test_a_supervisor_that_decides_nothing_fails_the_run(answer, code):
    boss = ScriptedAgent("test.boss", [answer])
    async with WorkflowHost(
        actor("R"), boss, loops={"loop": loop(critics=(), supervisor="test.boss")}
    ) as host:
        run = await host.run("loop", {"task": "t"})
        assert (run.status, run.metadata["error"]["code"]) == ("failed", code)


async def test_a_supervisor_may_ask_a_person_and_gets_the_answer():
    def boss(task, scene):
        if task["answer"] is None:
            return {"kind": "ask-user", "prompt": "which country?"}
        return {"kind": "terminate", "reason": f"it is {task['answer']}"}

    agent = ScriptedAgent("test.boss", boss)
    async with WorkflowHost(
        actor("R"), agent, loops={"loop": loop(critics=(), supervisor="test.boss")}
    ) as host:
        run = await host.run("loop", {"task": "t"})
        assert run.status == "waiting-input"
        run = await host.answer(run, "actor", "France")
        assert run.status == "completed"
        assert agent.tasks[-1]["answer"] == "France"


# tools and children as targets


class Box:
    """One tool."""

    def __init__(self, answers):
        self._answers = list(answers)

    def static_specs(self, tools):
        return [ToolSpec(id=tool) for tool in tools]

    async def specs(self, tools):
        return self.static_specs(tools)

    async def call(self, tool, arguments):
        return self._answers.pop(0)

    async def close(self): ...


async def test_a_tool_call_is_verified_before_its_answer_is_used():
    refused = []

    async def works(task, scene):
        for _ in range(2):
            try:
                return await scene.tool("shop:price", item="tea")
            except ToolFailure as failure:
                refused.append(failure.code)
        return "none"

    def judge(task, scene):
        about_a_tool = isinstance(task["task"], dict)
        return "pass" if not about_a_tool or task["result"] == 3 else "fail"

    worker = ScriptedAgent("test.actor", works, tools=("shop:price",))
    declared = loop(verify="tools")
    async with WorkflowHost(
        worker, ScriptedAgent(CRITIC, judge), loops={"loop": declared}, tools=Box([-1, 3])
    ) as host:
        run = await host.run("loop", {"task": "price of tea"})
        events = await host.events(run)
    returned = {
        event["payload"]["callId"]: event["eventId"]
        for event in events
        if event["type"] == "agent.toolReturned"
    }
    verified = [event for event in events if event["type"] == "agent.verified"]
    assert [event["payload"]["verdict"] for event in verified] == ["fail", "pass", "pass"]
    assert [event["payload"]["target"] for event in verified[:2]] == list(returned)
    assert [event["causationId"] for event in verified[:2]] == list(returned.values())
    assert (run.status, refused) == ("completed", ["withheld"])
    assert events[-1]["payload"]["outputs"]["result"] == 3


def parent_of(child, **config):
    shown = document_of(samples()["conformance-subworkflow-parent"])
    shown["nodes"][1]["config"] |= {"workflowId": child} | config
    return read(shown | {"id": "sub-parent"})


async def test_a_sub_run_is_harvested_attested_verified_and_then_merged():
    parent = parent_of(
        "conformance-subworkflow-child", outputAttestation={"checksum": True}, critics=[{"agent": CRITIC}]
    )
    async with WorkflowHost(critic("pass"), workflows=[parent]) as host:
        run = await host.run("sub-parent")
        events = await host.events(run)
        assert (await host.workflows.snapshot(run))["variables"] == {"childOutcome": "child-completed"}
    phases = [event for event in events if event["type"] == "core.workflowChain.event"]
    assert [event["payload"]["phase"] for event in phases] == [
        "dispatch.began", "dispatch.succeeded", "child.completed", "output.harvested",
    ]  # fmt: skip
    harvested = phases[-1]
    proof = attestation({"childResult": "child-completed"})
    assert harvested["payload"]["attestation"] == {"checksum": proof.checksum, "algorithm": "sha256"}
    (verified,) = [event for event in events if event["type"] == "agent.verified"]
    assert verified["payload"]["target"] == harvested["payload"]["childRunId"]
    assert verified["causationId"] == harvested["eventId"]
    types = [event["type"] for event in events]
    assert types.index("agent.verified") < types.index("variable.changed")


@pytest.mark.parametrize(
    ("verdicts", "answer", "merged", "status"),
    [
        (["fail"], "reject", False, "failed"),
        (["fail", "pass"], "accept", True, "completed"),  # the person grants another run of the child
        (["revise", "pass"], None, True, "completed"),
    ],
)
async def test_a_rejected_sub_run_is_not_merged(verdicts, answer, merged, status):
    parent = parent_of("conformance-subworkflow-child", critics=[{"agent": CRITIC}])
    async with WorkflowHost(critic(*verdicts), workflows=[parent]) as host:
        run = await host.run("sub-parent")
        if answer is not None:
            assert run.status == "waiting-approval"
            assert (await host.workflows.snapshot(run))["variables"] == {}
            run = await host.answer(run, "subwf-call", {"action": answer})
        assert run.status == status
        assert ("childOutcome" in (await host.workflows.snapshot(run))["variables"]) is merged


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ({"action": "accept"}, {"childOutcome": "child-completed"}),
        ({"action": "edit-accept", "outputs": {"childResult": "mended"}}, {"childOutcome": "mended"}),
        ({"action": "reject"}, {}),
    ],
)
async def test_subrun_output_approval(value, result):
    parent = parent_of(
        "conformance-subworkflow-child", outputAttestation={"checksum": True, "requireApproval": True}
    )
    async with WorkflowHost(workflows=[parent]) as host:
        run = await host.run("sub-parent")
        assert run.status == "waiting-approval"
        run = await host.answer(run, "subwf-call", value)
        assert (run.status, (await host.workflows.snapshot(run))["variables"]) == ("completed", result)


async def test_a_child_run_may_be_the_actor():
    child = workflow_of("inner", loop(critics=()))
    declared = loop("workflow:inner", ["test.critic"])
    async with WorkflowHost(
        actor("R"), critic("revise", "pass"), workflows=[child], loops={"outer": declared}
    ) as host:
        run = await host.run("outer", {"task": "t"})
        report = await host.workflows.report(run.id, "t")
        events = await host.events(run)
    assert (run.status, report.committed) == ("completed", True)
    children = [event["payload"]["childRunId"] for event in events if event["type"] == "node.dispatched"]
    assert [one.target for one in report.verdicts] == children
    assert len(set(children)) == 2
