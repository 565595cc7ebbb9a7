"""Tasks with turns: fixed messages, a simulated user, what agents of each kind get, and that content stays inside."""

import asyncio
import dataclasses
import datetime
import json
import re
import sys
from types import SimpleNamespace

import msgspec
import pytest
import yaml

import assay as library
from assay.agenteval.results.report import failure_reason
from assay.agenteval.suites.suite import read_own_suite, read_suite
from assay.agents import invocation
from assay.agents.conversation import PROMPT
from assay.backends.agents.command import CommandAgent
from assay.errors import ForeignFault, InvalidRequest
from assay.ports import Services
from assay.protocol.agents import AgentCard, InvocationResult
from support.evals import FunctionAgent, Judges, eval_host, golden, rubric, run_suite, suite_of

CANARY = "canary-in-a-message"
FIXED = {"messages": ["for order 17", "thanks"]}
USER = {
    "user": {"persona": "Ada, in a hurry", "goal": "a refund of order 17", "stop": "it is refunded"},
    "max": 4,
}


def suite(turns=None, *, task=None, **extension):
    extension |= {"turns": turns} if turns is not None else {}
    return suite_of(task or golden("t", "3 turns", "hello"), **{"x-assay": {"tasks": {"t": extension}}})


def counting(task, ctx):
    """An agent whose answer is how many messages of the user it has seen."""
    seen = [one for one in ctx.messages if one["role"] == "user"]
    assert seen[-1]["content"] == task
    return f"{len(seen)} turns"


def agent(work=counting, **card):
    return FunctionAgent(work, **{"takes_turns": True, **card})


def say(text):
    return {"done": False, "message": text}


DONE = {"done": True, "message": ""}


def evidence(results):
    return [one["execution_context"]["output"] for one in results]


def test_fixed_messages_are_sent_in_order_and_the_last_answer_is_scored():
    run, events, summary, results = run_suite(agent(), suite(FIXED))
    assert (run.status, summary.aggregate_score) == ("completed", 1.0)
    (output,) = evidence(results)
    assert output["value"] == "3 turns"
    assert output["metadata"]["turns"] == [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "1 turns"},
        {"role": "user", "content": "for order 17"}, {"role": "assistant", "content": "2 turns"},
        {"role": "user", "content": "thanks"}, {"role": "assistant", "content": "3 turns"},
    ]  # fmt: skip
    turns = [one["payload"] for one in events if one["type"] == "assay.turn.message"]
    assert [(one["role"], one["turn"], one["message"]) for one in turns[:3]] == [
        ("user", 1, "hello"), ("assistant", 1, "1 turns"), ("user", 2, "for order 17"),
    ]  # fmt: skip


def test_a_simulated_user_speaks_until_it_is_done_and_has_its_own_usage():
    script = [say("for order 17"), say("yes"), DONE]
    run, events, summary, results = run_suite(agent(), suite(USER), judge=script)
    assert (run.status, summary.aggregate_score) == ("completed", 1.0)
    usage = [one for one in events if one["type"] == "provider.usage"]
    assert [one["nodeId"] for one in usage] == ["user:t"] * 3
    (output,) = evidence(results)
    assert output["metadata"]["user_usage"]["tokens"] >= 0
    assert [one["content"] for one in output["metadata"]["turns"]][::2] == ["hello", "for order 17", "yes"]


def test_a_simulated_user_gets_its_persona_and_the_conversation_as_data():
    asked = []

    def script(request):
        asked.append(request)
        return DONE

    async def run():
        async with eval_host(agent(), judge=script) as hosted:
            return await hosted.run(suite(USER, task=golden("t", "1 turns", "hello")))

    assert asyncio.run(run()).status == "completed"
    (request,) = asked
    system, user = request.messages
    assert system.content == PROMPT.format(
        persona="Ada, in a hurry", goal="a refund of order 17", stop="it is refunded"
    )
    assert json.loads(user.content.partition("\n")[2])[-1] == {"role": "assistant", "content": "1 turns"}


def test_the_last_turn_ends_a_conversation_that_would_go_on():
    task = golden("t", "4 turns", "hello")
    summary = run_suite(agent(), suite(USER, task=task), judge=lambda _: say("more"))[2]
    assert summary.aggregate_score == 1.0


@pytest.mark.parametrize(
    "script",
    [
        lambda _: {"done": False, "message": " "},
        lambda _: "no JSON",
        ForeignFault("no model", recoverable=True),
    ],
    ids=["empty", "nonsense", "unreachable"],
)
def test_a_simulated_user_that_cannot_answer_is_not_measured_and_no_failure_of_the_agent(script):
    def answer(request):
        if isinstance(script, Exception):
            raise script
        return script(request)

    run, events, summary, _ = run_suite(agent(), suite(USER), judge=answer)
    assert (run.status, summary) == ("failed", None)
    ended = [one["payload"] for one in events if one["type"] == "assay.trial.ended"]
    assert [one.get("score") for one in ended] == [None]


def test_an_answer_that_is_none_ends_the_conversation_and_is_measured():
    def refuses(task, ctx):
        if len(ctx.messages) > 1:
            return InvocationResult(outcome="refused", error="enough")
        return "1 turns"

    run, _, summary, results = run_suite(agent(refuses), suite(FIXED))
    assert (run.status, summary.aggregate_score) == ("completed", 0.0)
    assert len(evidence(results)[0]["metadata"]["turns"]) == 3


class Word(str):
    """As the text of a message of LangChain."""


@dataclasses.dataclass
class Shape:
    state: str


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (Word("which?"), "which?"),
        (Shape("open"), {"state": "open"}),
        ({"at": datetime.date(2026, 1, 2)}, {"at": "2026-01-02"}),
    ],
    ids=["text", "dataclass", "date"],
)
def test_an_answer_of_any_turn_is_json_as_the_last_one_is(answer, content):
    _, _, summary, results = run_suite(
        agent(lambda task, ctx: answer if len(ctx.messages) == 1 else counting(task, ctx)), suite(FIXED)
    )
    assert summary.aggregate_score == 1.0
    assert evidence(results)[0]["metadata"]["turns"][1] == {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    "answer",
    [object(), float("nan"), InvocationResult(outcome="completed")],
    ids=["object", "nan", "nothing"],
)
def test_an_answer_of_a_turn_that_is_no_json_is_measured_and_ends_the_conversation(answer):
    run, _, summary, results = run_suite(agent(lambda task, ctx: answer), suite(FIXED))
    assert (run.status, summary.aggregate_score) == ("completed", 0.0)
    assert len(evidence(results)[0]["metadata"]["turns"]) == 1


def test_what_an_agent_keeps_is_of_one_trial():
    def act(task, ctx):
        seen = ctx.state.setdefault("seen", [])
        seen.append(task)
        return f"{len(seen)} turns"

    async def run():
        async with eval_host(agent(act)) as hosted:
            run = await hosted.run(suite(FIXED), trials=3)
            return await hosted.service.summary(run)

    assert asyncio.run(run()).aggregate_score == 1.0


def test_trials_are_independent_and_an_agent_cannot_change_the_conversation():
    def tampers(task, ctx):
        ctx.messages.append({"role": "user", "content": "invented"})
        ctx.messages[0]["content"] = "changed"
        return counting(task, ctx)

    async def run():
        async with eval_host(agent(tampers)) as hosted:
            run = await hosted.run(suite(FIXED), trials=3)
            return run, await hosted.results(run)

    ended, results = asyncio.run(run())
    assert ended.status == "completed"
    assert [len(one["metadata"]["turns"]) for one in evidence(results)] == [6, 6, 6]
    assert {one["metadata"]["turns"][0]["content"] for one in evidence(results)} == {"hello"}


def test_the_time_of_the_user_is_none_of_the_agents(monkeypatch):
    now = 0.0
    monkeypatch.setattr(invocation, "time", SimpleNamespace(monotonic=lambda: now, perf_counter=lambda: now))

    def waits(_):
        nonlocal now
        now += 300
        return DONE

    task = golden("t", "1 turns", "hello")
    _, _, summary, results = run_suite(agent(), suite(USER, task=task), judge=waits, request={"seconds": 5})
    assert summary.aggregate_score == 1.0
    assert evidence(results)[0]["metadata"]["latency_ms"] == 0


CHECKS = [
    (
        {
            "type": "contains",
            "arguments": {"text": "$.output.metadata.turns[1].content", "phrases": ["1 turns"]},
        },
        1.0,
    ),
    (
        {"type": "contains", "arguments": {"text": "$.output.metadata.turns[1].content", "phrases": ["no"]}},
        0.0,
    ),
    ({"type": "max_steps", "arguments": {"limit": 0}}, 1.0),
    ({"type": "tool_calls", "arguments": {"expected": ["find"]}}, 0.0),
]


@pytest.mark.parametrize(("check", "score"), CHECKS)
def test_checks_of_a_task_look_at_any_turn_and_each_must_hold(check, score):
    assert run_suite(agent(), suite(FIXED, checks=[check]))[2].aggregate_score == score


JUDGED = {
    "type": "llm_judge",
    "arguments": {
        "prompt": "Is it polite? {{$.output.metadata.turns}}",
        "response_format": {"type": "object", "required": ["passed"], "properties": {"passed": {"type": "boolean"}}},
    },
}  # fmt: skip


def test_a_judge_among_the_checks_of_a_task_decides():
    for passed in (True, False):
        ended = run_suite(agent(), suite(FIXED, checks=[JUDGED]), judge=lambda _, one=passed: {"passed": one})
        assert ended[2].aggregate_score == float(passed)


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (
            {"type": "tool_calls", "arguments": {"expected": ["find"]}},
            "expected a call of find; it called no tool",
        ),
        (
            {"type": "regex", "arguments": {"text": "$.output.metadata.turns[1].content", "pattern": "^Bye"}},
            "expected a match of '^Bye', got ",
        ),
        (
            {"type": "threshold", "arguments": {"value": 4, "min_value": 5}},
            "expected a number at least 5, got 4",
        ),
        (
            {"type": "json_schema", "arguments": {"value": "$.output.value", "schema": {"type": "object"}}},
            "does not match the schema: $: ",
        ),
        (JUDGED, "failed"),
    ],
    ids=lambda one: one["type"] if isinstance(one, dict) else "",
)
def test_a_task_that_a_check_of_its_own_fails_has_the_reason_of_this_check(check, reason):
    results = run_suite(agent(), suite(FIXED, checks=[check]), judge=lambda _: {"passed": False})[3]
    assert failure_reason(results[0], 0.7).startswith(reason)


@pytest.mark.parametrize("turns", [FIXED, None], ids=["conversation", "one message"])
def test_the_judge_of_a_rubric_reads_the_whole_conversation_and_who_spoke(turns):
    asked = []

    def judge(request):
        asked.append("\n".join(str(message.content) for message in request.messages))
        return {"criterion_1": {"reason": "it is", "met": True}}

    task = rubric("t", ("It asks which order it is.", 1), input="hello")
    document = suite(turns, task=task) if turns else suite_of(task)
    speaks = agent(lambda task, ctx: counting(task, ctx) if turns else "1 turns")
    _, _, summary, _ = run_suite(speaks, document | {"modes": ["rubric"]}, judge=judge)
    assert summary.aggregate_score == 1.0
    (prompt,) = asked
    lines = [
        f'"role":"{one["role"]}","content":"{one["content"]}"'
        for one in conversation_of("hello", *FIXED["messages"])
    ]
    assert [line in prompt.replace(", ", ",").replace(": ", ":") for line in lines] == [turns is not None] * 6
    assert ("<task>" in prompt) is (turns is None)


def conversation_of(*messages):
    for number, message in enumerate(messages, 1):
        yield {"role": "user", "content": message}
        yield {"role": "assistant", "content": f"{number} turns"}


REFUSED = [
    ({"turns": {}}, "x-assay.tasks.t.turns", "expected messages or a user, got neither"),
    ({"turns": {**FIXED, **USER}}, "x-assay.tasks.t.turns", "expected messages or a user, got both"),
    ({"turns": {**FIXED, "max": 2}}, "x-assay.tasks.t.turns.max", "expected a user with it"),
    ({"turns": {"user": {"persona": "Ada"}}}, "x-assay.tasks.t.turns.user", "goal"),
    ({"turns": {**USER, "max": 0}}, "x-assay.tasks.t.turns.max", ""),
]


@pytest.mark.parametrize(("extension", "place", "message"), REFUSED)
def test_wrong_turns_are_refused_with_their_place(extension, place, message):
    with pytest.raises(InvalidRequest) as refused:
        read_own_suite(suite(**extension))
    (problem,) = refused.value.problems
    assert problem.place.startswith(place)
    assert message in str(problem)


def plan_refusal(document, subject, **more):
    with pytest.raises(InvalidRequest) as refused:
        run_suite(subject, document, **more)
    (problem,) = refused.value.problems
    return str(problem)


def test_what_a_host_or_an_agent_cannot_do_is_refused_before_the_run():
    with pytest.raises(InvalidRequest, match="turns of t that only assay"):
        read_suite(suite(FIXED))
    assert "x-assay.tasks.t.turns.user.model: a simulated user needs a model" in plan_refusal(
        suite(USER), agent()
    )
    odd = suite(FIXED, checks=[{"type": "vibes", "arguments": {}}])
    assert "x-assay.tasks.t.checks[0].type: there is no check 'vibes'" in plan_refusal(odd, agent())
    code = suite(
        FIXED, checks=[{"type": "python_code", "arguments": {"code": "def check(output): return True"}}]
    )
    assert "x-assay.tasks.t.checks[0].arguments: expected a host that runs code" in plan_refusal(
        code, agent()
    )


class Single:
    """An object whose method takes the task alone."""

    def run(self, task):
        raise AssertionError("no task may run")


MANIFEST = {
    "agentId": "local.tests.single",
    "persona": "Single",
    "modelClass": "general",
    "systemPrompt": "You answer.",
}
ONE_MESSAGE = (
    "answers one message; turns work with a function of the task and `ctx`, an endpoint, a command, or an"
)


@pytest.mark.parametrize(
    ("made", "possible"),
    [
        (lambda task: task, "add a parameter `ctx` to its function, and read ctx.messages"),
        (Single(), "add a parameter `ctx` to its method, and read ctx.messages"),
        ("recorded:answers.jsonl", f"an agent of the kind recorded {ONE_MESSAGE}"),
        ("manifest.json", f"an agent of the kind manifest {ONE_MESSAGE}"),
    ],
    ids=["function", "object", "recorded", "manifest"],
)
def test_an_agent_that_reads_no_conversation_is_refused_with_what_is_possible(
    made, possible, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers.jsonl").write_text('{"taskId": "t", "result": "1"}\n')
    (tmp_path / "manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "assay.toml").write_text('[models]\ngeneral = "openai:never-asked"\n')
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(InvalidRequest, match="does not read a conversation: " + re.escape(possible)):
        asyncio.run(library.run_suite(suite(FIXED), made))


def test_a_function_of_the_library_and_the_command_converse(command, tmp_path):
    run = asyncio.run(library.run_suite(suite(FIXED), counting, free=True))
    assert (run.passed, run.reasons) == (True, [])
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite(FIXED)))
    (tmp_path / "mine.py").write_text(
        "def act(task, ctx):\n"
        "    ctx.usage(provider='acme', model='m', input_tokens=1, output_tokens=1)\n"
        "    return f'{len(ctx.messages) // 2 + 1} turns'\n"
    )
    ran = command("run", "suite.yaml", "--agent", "mine:act", folder=tmp_path)
    assert ran.code == 0, ran.out + ran.err
    shown = command("show", "latest", folder=tmp_path).out
    assert "turn 2, user: for order 17" in shown
    assert "turn 2, agent: 2 turns" in shown
    assert "call 2: model acme:m" in shown
    assert "3 turns" in command("suite", "show", "suite.yaml", folder=tmp_path).out


COMMAND = """
import json, sys
frame = json.loads(sys.stdin.readline())
turns = sum(one["role"] == "user" for one in frame.get("messages", []))
print(json.dumps({"type": "result", "result": f"{turns} turns"}), flush=True)
"""


def test_a_command_gets_the_conversation_and_a_single_turn_has_none(tmp_path):
    (tmp_path / "act.py").write_text(COMMAND)
    card = AgentCard(agent_id="local.tests.agent", kind="command", free=True, takes_turns=True)
    made = CommandAgent(card, f"{sys.executable} {tmp_path / 'act.py'}")
    assert run_suite(made, suite(FIXED))[2].aggregate_score == 1.0
    assert run_suite(made, suite_of(golden("t", "0 turns", "hello")))[2].aggregate_score == 1.0


def test_an_endpoint_gets_the_conversation(tmp_path):
    from aiohttp import web

    from assay.backends.agents.http import HttpAgent

    bodies = []

    async def answer(request):
        bodies.append(body := await request.json())
        turns = sum(one["role"] == "user" for one in body.get("messages", []))
        return web.json_response({"result": f"{turns} turns"})

    async def run():
        app = web.Application()
        app.router.add_post("/", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        card = AgentCard(agent_id="local.tests.agent", kind="http", free=True, takes_turns=True)
        made = HttpAgent(card, url)
        try:
            async with eval_host(made) as hosted:
                run = await hosted.run(suite(FIXED))
                summary = await hosted.service.summary(run)
                single = await hosted.run(suite_of(golden("t", "0 turns", "hello")))
                return summary, await hosted.service.summary(single)
        finally:
            await made.close()
            await runner.cleanup()

    several, one = asyncio.run(run())
    assert (several.aggregate_score, one.aggregate_score) == (1.0, 1.0)
    assert [body["task"] for body in bodies] == ["hello", "for order 17", "thanks", "hello"]
    assert ["messages" in body for body in bodies] == [True, True, True, False]


def test_messages_are_in_no_event_and_in_no_scorecard(disk):
    """Of every database: the messages cross as bytes, and stand in the evidence alone."""
    turns = {**USER, "user": {"persona": CANARY, "goal": CANARY, "stop": CANARY}}

    async def run():
        task = golden("t", CANARY, "hello", "contains")
        speaks = agent(lambda task, ctx: f"{CANARY} {task}")
        async with eval_host(speaks, disk, judge=[say(CANARY), DONE]) as hosted:
            run = await hosted.run(suite(turns, task=task))
            summary, stored = await hosted.service.summary(run), await hosted.store.run(run.id)
            return summary, stored, await hosted.store.events(run.id), await hosted.results(run)

    summary, stored, events, results = asyncio.run(run())
    assert summary.aggregate_score == 1.0
    assert [one["content"] for one in evidence(results)[0]["metadata"]["turns"]][2] == CANARY
    assert [event.type for event in events].count("assay.turn.message") == 4
    assert not [event.data for event in events if CANARY.encode() in event.data]
    assert CANARY not in repr(summary) + repr(stored)


def test_the_cost_limit_counts_the_simulated_user():
    class Dear(Judges):
        """Each answer costs a dollar."""

        def model(self, provider_config, model_config):  # pyright: ignore[reportIncompatibleMethodOverride]
            model, ask = super().model(provider_config, model_config)

            class Priced:
                async def complete(self, request):
                    return msgspec.structs.replace(await model.complete(request), cost_usd=1.0)

                async def close(self): ...

            return Priced(), ask

    async def run():
        async with eval_host(agent(), concurrency=1) as hosted:
            services = Services(providers=Dear(lambda _: DONE))
            hosted.kind._dependencies = hosted.service.dependencies = hosted.dependencies = _with(
                hosted.dependencies, services
            )
            tasks = [golden(f"t{at}", "1 turns", "hello") for at in range(4)]
            document = suite_of(
                *tasks, **{"x-assay": {"tasks": {one["taskId"]: {"turns": USER} for one in tasks}}}
            )
            run = await hosted.run(document, max_cost=1.5)
            return run, await hosted.service.summary(run)

    ended, summary = asyncio.run(run())
    assert (ended.status, summary) == ("failed", None)
    assert "cost" in ended.metadata["error"]


def _with(dependencies, services):
    return msgspec.structs.replace(dependencies, services=services)
