"""The invariant `verifier-no-content-leak` (RFC 0090): canaries wherever a verified run has content, and looked for wherever it has none."""

import json
from contextlib import suppress

import msgspec
import pytest

from assay.errors import ForeignFault
from assay.ports import RunQuery
from assay.ports.agents import ToolFailure
from assay.protocol.agents import InvocationResult, ToolSpec
from assay.workflow.verification_report import verification_of
from support.canaries import Canaries, record_telemetry
from support.workflows import ScriptedAgent, WorkflowHost, loop

pytestmark = pytest.mark.anyio


class Box:
    """One tool, which answers in other words each time, and fails at last."""

    def __init__(self, canary):
        self._canary, self._calls = canary, 0

    def static_specs(self, tools):
        return [ToolSpec(id=tool, description=self._canary("a tool's description")) for tool in tools]

    async def specs(self, tools):
        return self.static_specs(tools)

    async def call(self, tool, arguments):
        self._calls += 1
        if self._calls == 3:
            raise ToolFailure("tool_error", self._canary("a tool's error"))
        return self._canary(f"a tool's answer {self._calls}")

    async def close(self): ...


def actor_with(canary):
    async def works(task, scene):
        turn = task.get("turn", 1)
        scene.reason(canary("a reasoning"))
        scene.hand_off("local.tests.other", canary("why it was handed off"))
        await scene.memory.write(canary("a memory"), tags=[canary("a memory's tag")])
        with suppress(ToolFailure):
            await scene.tool("shop:price", item=canary("a tool's argument"))
        if turn == 2:
            raise ValueError(canary("an actor's error"))
        result = {canary("a result's key"): canary(f"a result of turn {turn}")}
        return InvocationResult(outcome="completed", result=result, confidence=0.1 if turn == 5 else 0.9)

    return ScriptedAgent("test.actor", works, tools=("shop:price",))


def critic_with(canary):
    """About tools a pass, about work each time something else."""
    verdicts = [
        {"verdict": "revise", "notes": canary("a critic's notes")},
        RuntimeError(canary("a critic's error")),
        {"verdict": canary("a verdict that is none")},
        {"verdict": "pass", "notes": canary("a critic's praise")},
    ]
    return ScriptedAgent(
        "test.critic", lambda about, _: "pass" if "tool" in about["task"] else verdicts.pop(0)
    )


def boss_with(canary):
    def decides(task, scene):
        if task["task"] == "nonsense":
            return {"kind": canary("a decision that is none")}
        if task["task"] == "nobody":
            return {"kind": "next-worker", "nextWorkerIds": [canary("a worker that is none")]}
        if task["answer"] is None:
            return {"kind": "ask-user", "prompt": canary("a question")}
        return {"kind": "terminate", "reason": canary("a reason to end")}

    return ScriptedAgent("test.boss", decides)


async def test_verifier_no_content_leak():
    canary = Canaries()
    rule = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": [canary("a phrase")]}}
    judged = {
        "type": "llm_judge",
        "arguments": {
            "prompt": f"{canary('a prompt')} {{{{$.output.value}}}}",
            "response_format": {
                "type": "object", "required": ["passed"], "properties": {"passed": {"type": "boolean"}},
            },
        },
    }  # fmt: skip
    loops = {
        "loop": loop(verify="tools", criteria=["good"], max_turns=6),
        "checked": loop("test.plain", (), criteria={"says-it": rule, "is-judged": judged}),
        "asking": loop("test.plain", (), supervisor="test.boss"),
        "away": loop("test.away", ()),
        "outer": loop("workflow:inner", (), approve=True),
        "inner": loop("test.plain", ()),
    }
    plain = ScriptedAgent("test.plain", lambda task, _: canary("a plain result"))
    away = ScriptedAgent("test.away", [ForeignFault(canary("why it could not be asked"))])
    agents = (actor_with(canary), critic_with(canary), boss_with(canary), plain, away)
    judge = lambda _: canary("a judge's answer")  # noqa: E731
    with record_telemetry() as seen:
        async with WorkflowHost(*agents, loops=loops, tools=Box(canary), judge=judge) as host:
            task = {"task": {canary("a task's key"): canary("a task")}}
            run = await host.run("loop", task)
            for _ in range(4):  # a crash, nonsense, and a result that its actor is not sure of
                if run.status == "waiting-approval":
                    answer = {"action": "accept", "comment": canary("a person's comment")}
                    run = await host.answer(run, "actor", answer)
            assert run.status == "completed"
            assert len((await verification_of(host.store, run, host.workflows.environment)).failures) == 3
            assert (await host.run("checked", task)).status == "waiting-approval"
            asked = await host.run("asking", task)
            await host.answer(asked, "actor", canary("a person's answer"))
            for what in ("nonsense", "nobody"):
                assert (await host.run("asking", {"task": what})).status == "failed"
            assert (await host.run("away", task)).status == "failed"
            outer = await host.run("outer", task)
            edit = {"action": "edit-accept", "outputs": {"result": canary("an edited output")}}
            assert (await host.answer(outer, "actor", edit)).status == "completed"
            events_text, owned = await everything(host)
    assert not canary.found_in(events_text)
    assert not canary.found_in(seen[0])
    private = {
        "a phrase",
        "a prompt",
        "a judge's answer",
        "a tool's description",
        "a memory",
        "a memory's tag",
    }
    private |= {"a critic's notes", "a critic's praise"}  # which are the actor's
    assert set(canary.planted) - canary.found_in(owned) == private  # all the rest its owner reads


async def everything(host):
    """The content-free events of all runs, and what an owner reads: the events whole, and why an agent failed."""
    events_text, owned = [], []
    for run in await host.store.runs(RunQuery(limit=100)):
        events = await host.store.events(run.id, limit=10_000)
        events_text += [event.data.decode() for event in events]
        events_text.append(json.dumps(run.metadata))
        events_text.append(msgspec.json.encode(await host.workflows.report(run.id, run.tenant)).decode())
        owned.append(json.dumps(await host.events(run)))
        came = await verification_of(host.store, run, host.workflows.environment)
        owned.append(msgspec.json.encode(came).decode())
    return "\n".join(events_text), "\n".join(owned)


SECRET = "sk-0123456789abcdefgh1234"
KEYS = [
    # what an agent calls a criterion; what is configured; what its settings declare; what an event holds
    ("sounds-right", ["sounds-right"], (), "sounds-right"),
    ("Says How!", ["Says How!"], (), "Says How!"),  # an operator's own words
    ("sounds-right", [], ("sounds-right",), "sounds-right"),
    ("sounds-right", ["other"], ("sounds-right",), "sounds-right"),
    ("sounds-right", [], (), "undeclared"),
    ("sounds-right", ["other"], (), "undeclared"),
    ("Sounds Right", [], ("Sounds Right",), "undeclared"),  # declared by no settings that are read
    ("the-password-is-hunter2", ["other"], ("another",), "undeclared"),
    (SECRET, [], (), "undeclared"),
    ("the task said so", [], (), "undeclared"),
    ("x" * 65, [], ("x" * 65,), "undeclared"),
]


@pytest.mark.parametrize(("criteria", "configured", "declared", "recorded"), KEYS, ids=range(len(KEYS)))
async def test_8_1_the_keys_of_criteria_are_a_closed_vocabulary(criteria, configured, declared, recorded):
    critic = ScriptedAgent(
        "test.critic", lambda about, _: {"verdict": "pass", "criteria": [criteria]}, criteria=declared
    )
    boss = ScriptedAgent("test.boss", [{"kind": "next-worker", "nextWorkerIds": ["test.plain"]}, {
        "kind": "terminate", "reason": "done",
        "successCriteria": [{"key": criteria, "met": True}, {"key": f"{criteria} too", "met": True}],
    }], criteria=declared)  # fmt: skip
    plain = ScriptedAgent("test.plain", lambda task, _: "done")
    loops = {
        "judged": loop("test.plain", criteria=configured),
        "ended": loop("test.plain", (), criteria=configured, supervisor="test.boss"),
    }
    async with WorkflowHost(critic, boss, plain, loops=loops) as host:
        judged = await host.run("judged", {"task": "t"})
        (one,) = (await host.workflows.report(judged.id, "t")).verdicts
        assert (judged.status, one.verdict, one.criteria) == ("completed", "pass", (recorded,))
        ended = await host.run("ended", {"task": "t"})
        decided = [one for one in await host.events(ended) if one["type"] == "runOrchestrator.decided"]
        keys = [one["key"] for one in decided[-1]["payload"]["decision"]["successCriteria"]]
        assert (ended.status, keys) == ("completed", list(dict.fromkeys([recorded, "undeclared"])))
        _, owned = await everything(host)
        steps = b"".join(one.data for one in await host.store.chunks(judged.id, "step"))
    assert recorded in configured or recorded == criteria or criteria not in owned
    assert (b"REDACTED" if criteria == SECRET else criteria.encode()) in steps  # the evidence has its text


@pytest.mark.parametrize("met", [(True, True), (True, False), (False, True)])
async def test_8_5_unnamed_criteria_are_met_if_all_are(met):
    boss = ScriptedAgent("test.boss", [{"kind": "next-worker", "nextWorkerIds": ["test.plain"]}, {
        "kind": "terminate", "successCriteria": [{"key": f"my own {at}", "met": one} for at, one in enumerate(met)],
    }])  # fmt: skip
    plain = ScriptedAgent("test.plain", lambda task, _: "done")
    async with WorkflowHost(
        boss, plain, loops={"loop": loop("test.plain", (), supervisor="test.boss")}
    ) as host:
        report = await host.workflows.report((await host.run("loop", {"task": "t"})).id, "t")
    assert report.success_criteria == ({"key": "undeclared", "met": all(met)},)
    assert report.goal_satisfied is all(met)
