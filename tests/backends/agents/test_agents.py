"""What every agent promises, whatever it is (openwop-contract §3.3, §6.3), and what each kind has of its own."""

import asyncio
import gc
import json
import os
import re
import socket
import urllib.error
import urllib.request
import warnings
from pathlib import Path

import httpx
import pytest
from aiohttp import ClientSession

from assay.agents.fixtures import FixtureTools, SeededMemory, read_seeds
from assay.agents.invocation import Invocation, invoke
from assay.backends.agents.callable import CallableAgent
from assay.backends.agents.http import Callbacks, HttpAgent
from assay.backends.agents.recorded import RecordedAgent
from assay.concurrency.threads import MAX_ABANDONED, source
from assay.errors import ForeignFault, InvalidRequest, NotMeasured, Refusal, UsageError
from assay.host import parts
from assay.ports.agents import ModelOverrides
from assay.protocol.agent_evals import ToolResponse
from assay.protocol.agents import InvocationResult, Usage, UsageStep
from assay.settings import load
from support.agents.fake_agents import (
    ACTS,
    COMMAND,
    KINDS,
    LET_GO,
    acting,
    card,
    command,
    on_model,
    plain,
    serving,
)
from support.servers.thread_server import served_in_thread
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.anyio


def stage_for(agent, *, seconds=PATIENCE, task_id="", seeds=()):
    tools = FixtureTools([ToolResponse(tool="shop:orders", response={"rows": [1]})])
    return Invocation(agent.card, tools, SeededMemory(read_seeds(seeds)), seconds=seconds, task_id=task_id)


async def invoke_on_stage(agent, task, **more):
    stage = stage_for(agent, **more)
    return await invoke(agent, task, stage), stage


def rows(*acts):
    return [pytest.param(kind, id=kind) for kind in KINDS if ACTS[kind] >= set(acts)]


@pytest.fixture
async def agent(request, tmp_path):
    LET_GO.clear()
    async with acting(request.param, tmp_path) as agent:
        yield agent
        await agent.close()
    LET_GO.set()


def every(*acts):
    return pytest.mark.parametrize("agent", rows(*acts), indirect=True)


@every("say")
async def test_a_result_is_any_json_value(agent):
    finish, stage = await invoke_on_stage(agent, {"do": "say", "value": [1, "é", None]})
    assert (finish.outcome, finish.result, finish.error) == ("completed", [1, "é", None], None)
    assert [step for step in stage.steps if not isinstance(step, UsageStep)] == []


@every("tool")
async def test_tools_answer_and_are_recorded(agent):
    finish, stage = await invoke_on_stage(
        agent, {"do": "tool", "tool": "shop:orders", "arguments": {"id": 3}}
    )
    assert finish.result == {"rows": [1]}
    called, returned = (step for step in stage.steps if not isinstance(step, UsageStep))
    assert (called.tool, called.inputs, returned.status, returned.outcome) == (
        "shop:orders",
        {"id": 3},
        "ok",
        {"rows": [1]},
    )


@every("tool")
@pytest.mark.parametrize(("tool", "code"), [("shop:lost", "fixture_missing"), ("shop:secret", "not_allowed")])
async def test_an_agent_may_continue_after_a_failed_tool_call(agent, tool, code):
    finish, stage = await invoke_on_stage(agent, {"do": "tool", "tool": tool, "arguments": {}})
    assert (finish.outcome, finish.result) == ("completed", code)
    steps = [type(step).__name__ for step in stage.steps if not isinstance(step, UsageStep)]
    assert steps == (["ToolCalled", "ToolReturned"] if code == "fixture_missing" else [])


@every("remember")
async def test_memory_seeds_are_read_and_writes_are_recorded(agent):
    finish, stage = await invoke_on_stage(agent, {"do": "remember"}, seeds=[{"content": "tier: gold"}])
    assert finish.result == ["tier: gold"]
    (wrote,) = (step for step in stage.steps if type(step).__name__ == "MemoryWriteStep")
    assert wrote.tags == ("t",)


@every("use")
async def test_usage_and_reasoning_are_recorded(agent):
    finish, stage = await invoke_on_stage(agent, {"do": "use"})
    assert finish.result == "used"
    usage = Usage(provider="acme", model="m-1", input_tokens=3, output_tokens=4, cost_usd=0.5)
    assert {step.usage for step in stage.steps if isinstance(step, UsageStep)} == {usage}
    assert [step.text for step in stage.steps if type(step).__name__ == "ReasoningStep"] == ["because"]


@every("refuse")
async def test_a_refusal_of_the_agent_is_measured(agent):
    finish, _ = await invoke_on_stage(agent, {"do": "refuse"})
    assert (finish.outcome, finish.error) == ("refused", "not that")


@every("raise")
async def test_a_failure_of_the_agent_is_measured(agent):
    finish, _ = await invoke_on_stage(agent, {"do": "raise"})
    assert finish.outcome == "failed"
    assert "bad day" in str(finish.error)


@every("nonsense")
async def test_an_invalid_answer_of_the_agent_is_measured(agent):
    finish, _ = await invoke_on_stage(agent, {"do": "nonsense"})
    assert finish.outcome == "failed"
    assert finish.error


@every("hang")
async def test_a_timeout_of_the_agent_is_measured_and_ends_the_record(agent):
    finish, stage = await invoke_on_stage(agent, {"do": "hang"}, seconds=0.9)
    assert finish.outcome == "failed"
    assert "no result within 0." in str(finish.error)
    before = list(stage.steps)
    LET_GO.set()
    await asyncio.sleep(0.01)
    assert stage.steps == before


@every("say", "tool")
async def test_concurrent_invocations_are_isolated(agent):
    async def one(number):
        finish, stage = await invoke_on_stage(
            agent, {"do": "tool", "tool": "shop:orders", "arguments": {"id": number}}
        )
        return finish.outcome, [step.inputs for step in stage.steps if type(step).__name__ == "ToolCalled"]

    assert await asyncio.gather(*map(one, range(4))) == [
        ("completed", [{"id": number}]) for number in range(4)
    ]


@every("hang")
async def test_a_cancel_reaches_the_agent(agent):
    running = asyncio.create_task(invoke_on_stage(agent, {"do": "hang"}))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_a_cancel_while_the_callback_server_starts_leaves_no_socket():
    async def cancel(steps):
        callbacks = Callbacks()
        opening = asyncio.create_task(callbacks.open(None))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        await callbacks.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for steps in range(8):
            asyncio.run(cancel(steps))
        gc.collect()
    assert [str(one.message) for one in caught] == []


# functions


async def test_hanging_threads_are_abandoned_and_bounded():
    LET_GO.clear()
    threads = source(os.getpid())
    lost = threads.abandoned  # by tests before this one
    agent = CallableAgent(card("callable"), plain)
    many = await asyncio.gather(
        *(invoke_on_stage(agent, {"do": "hang"}, seconds=0.01) for _ in range(MAX_ABANDONED))
    )
    assert {finish.outcome for finish, _ in many} == {"failed"}
    with pytest.raises(ForeignFault, match="hang in threads"):
        await invoke_on_stage(agent, {"do": "say", "value": 1})
    LET_GO.set()
    await until(lambda: threads.abandoned <= lost)
    assert (await invoke_on_stage(agent, {"do": "say", "value": 1}))[0].result == 1


class Object:
    def __call__(self, task, scene=None):
        return scene is not None

    async def method(self, task):
        return "method"


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda task: task, 1),
        (lambda task, temperature=0.5: temperature, 0.5),  # a default is not for the context
        (lambda task, ctx=None: ctx is not None, True),  # but by this name it is
        (lambda task, anything: anything.remaining_seconds > 0, True),
        (Object(), True),
        (Object().method, "method"),
        (lambda task: Object().method(task), "method"),  # a plain function that gives something to await
        (lambda task: InvocationResult(outcome="escalated", result=2, confidence=0.1), 2),
        (str, "1"),
    ],
    ids=["task", "default", "ctx", "second", "object", "method", "awaitable", "finish", "built-in"],
)
async def test_the_arguments_of_a_function(function, result):
    finish, _ = await invoke_on_stage(CallableAgent(card("callable"), function), 1)
    assert finish.result == result


def holds_itself():
    value = [1.5]
    value.append(value)
    return value


@pytest.mark.parametrize(
    "function",
    [
        lambda task: holds_itself(),
        lambda task: {"again": holds_itself()},
        lambda task, ctx: ctx.tool("shop:orders", of=holds_itself()),
    ],
    ids=["result", "member", "argument"],
)
async def test_a_cyclic_value_is_not_json(function):
    finish, _ = await invoke_on_stage(CallableAgent(card("callable"), function), 1)
    assert finish.outcome == "failed"
    assert "JSON" in str(finish.error)


def tells(task):
    raise OSError("postgres://me:hunter2@db refused sk-0123456789abcdefgh")


def tells_no(task):
    return InvocationResult(outcome="refused", error="not with sk-0123456789abcdefgh")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (
            tells,
            r"OSError: postgres://me:\[REDACTED:password\]@db refused \[REDACTED:openai-key\] \(\S+\.py:\d+ in tells\)",
        ),
        (tells_no, r"not with \[REDACTED:openai-key\]"),
    ],
    ids=["raised", "refused"],
)
async def test_the_error_of_an_agent_has_its_type_and_no_secret(function, error):
    finish, _ = await invoke_on_stage(CallableAgent(card("callable"), function), 1)
    assert re.fullmatch(error, str(finish.error))


async def waits(task):
    return task


async def forgets_to_wait(task):
    return waits(task)


def hands_on(task):
    return forgets_to_wait(task)


@pytest.mark.parametrize("function", [waits, forgets_to_wait, hands_on])
async def test_an_awaitable_result_is_awaited(function):
    finish, _ = await invoke_on_stage(CallableAgent(card("callable"), function), 1)
    assert (finish.outcome, finish.result) == ("completed", 1)


def exits(task):
    raise SystemExit(3)


async def exits_too(task):
    raise SystemExit(3)


async def swallows(task):
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if LET_GO.is_set():
                raise


@pytest.mark.parametrize("function", [exits, exits_too], ids=["plain", "waiting"])
async def test_a_function_that_exits_ends_only_itself(function):
    finish, _ = await invoke_on_stage(CallableAgent(card("callable"), function), 1)
    assert finish.outcome == "failed"
    assert re.fullmatch(rf"SystemExit: 3 \(\S+\.py:\d+ in {function.__name__}\)", str(finish.error))


async def test_an_agent_that_ignores_its_cancel_is_abandoned():
    finish, _ = await invoke_on_stage(CallableAgent(card("callable"), swallows), 1, seconds=0.01)
    assert finish.outcome == "failed"
    LET_GO.set()


# addresses


@pytest.fixture(scope="module")
def url():
    """One server for the tests of statuses, in a thread of its own."""
    with served_in_thread(serving()) as address:
        yield address


@pytest.fixture
async def http(url):
    agent = HttpAgent(card("http"), url, wait=0.001)
    yield agent
    await agent.close()


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405, 429, 502, 503, 504])
async def test_an_error_status_that_is_not_of_the_agent_is_not_measured(http, status):
    with pytest.raises(ForeignFault, match=f"answered {status}") as fault:
        await invoke_on_stage(http, {"do": "status", "status": status, "headers": {"Retry-After": "0"}})
    assert fault.value.recoverable == (status in (429, 502, 503, 504))


@pytest.mark.parametrize("status", [400, 422, 500, 501])
async def test_an_agent_that_answers_with_an_error_was_measured(http, status):
    finish, _ = await invoke_on_stage(http, {"do": "status", "status": status, "text": "division by zero"})
    assert (finish.outcome, finish.error) == ("failed", f"it answered {status}: division by zero")


async def test_an_unreachable_address_is_not_measured(http):
    agent = HttpAgent(card("http"), "http://127.0.0.1:9/agent?key=hidden", wait=0.001)
    with pytest.raises(ForeignFault, match=r"http://127.0.0.1:9/agent could not be reached"):
        await invoke_on_stage(agent, {"do": "say", "value": 1})
    await agent.close()


async def test_a_throttled_request_is_tried_again(http):
    finish, _ = await invoke_on_stage(http, {"do": "once"})
    assert finish.result == "at last"


@pytest.mark.parametrize(
    ("frame", "outcome", "message"),
    [
        ({"result": None}, "completed", None),
        ({"result": 1, "confidence": 0.75}, "completed", None),
        ({"result": 1, "confidence": 0.25}, "escalated", None),  # below 0.7, where nobody says another
        ({"result": 1, "escalated": "unsure"}, "escalated", "unsure"),
        ({"escalated": "unsure"}, "escalated", "unsure"),
        ({"error": "no"}, "failed", "no"),
        ({"error": {"code": 3}}, "failed", '{"code":3}'),
        ({"error": "no", "result": 1}, "failed", "exactly one of"),
        ({}, "failed", "exactly one of"),
        ([], "failed", "expected an object"),
        ({"reslut": 1}, "failed", "reslut"),
        ({"result": 1, "confidence": 2}, "failed", "confidence"),
        ({"result": 1, "usage": {"provider": "p"}}, "failed", "usage"),
        (
            {"result": 1, "usage": {"provider": "p", "model": "m", "inputTokens": -1, "outputTokens": 0}},
            "failed",
            "usage",
        ),
    ],
    ids=lambda row: json.dumps(row)[:24] if isinstance(row, dict | list) else None,
)
async def test_the_final_frame_of_an_agent(http, frame, outcome, message):
    finish, _ = await invoke_on_stage(http, {"do": "as-is", "reply": frame})
    assert finish.outcome == outcome
    assert (message or "") in (finish.error or "")


async def test_a_callback_is_for_one_invocation_and_gone_with_it(http):
    finish, _ = await invoke_on_stage(http, {"do": "where"})
    address = finish.result["callback"]
    assert address.startswith("http://127.0.0.1:")
    assert finish.result["tools"] == [
        {"id": id, "description": "", "inputSchema": {}} for id in ("shop:lost", "shop:orders")
    ]
    async with ClientSession() as session:
        async with session.post(address, json={"type": "memory.list"}) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (404, "over")
        place = http._sessions.state().callbacks
        address, _ = await place.open(stage_for(http))
        rows = [
            ({"type": "memory.list"}, 200),
            ({"type": "memory.get", "memoryId": "none"}, 200),
            ({"type": "usage", "provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1}, 200),
            ({"type": "reason", "text": "so"}, 200),
            ({"type": "dance"}, 400),
            ({"type": "tool"}, 400),
            ([], 400),
        ]
        for frame, status in rows:
            async with session.post(address, json=frame) as response:
                assert (response.status, frame) == (status, frame)
        async with session.get(address) as response:
            assert response.status == 405


async def test_an_agent_without_callbacks_gets_no_address(url):
    agent = HttpAgent(card("http", takes_tools=False, takes_memory=False), url)
    finish, _ = await invoke_on_stage(agent, {"do": "where"})
    assert finish.result == {"callback": None, "tools": None, "memory": None}
    await agent.close()


# commands


async def test_a_command_gets_its_tools_and_limits(tmp_path):
    agent = command(tmp_path)
    finish, stage = await invoke_on_stage(agent, {"do": "first"})
    assert finish.result == {
        "type": "task",
        "task": {"do": "first"},
        "invocationId": stage.invocation_id,
        "tools": [{"id": id, "description": "", "inputSchema": {}} for id in ("shop:lost", "shop:orders")],
        "memory": True,
    }


async def test_a_command_is_ended_with_all_its_processes(tmp_path):
    file = tmp_path / "pids"
    agent = command(tmp_path)
    stage = stage_for(agent)
    running = asyncio.create_task(invoke(agent, {"do": "family", "file": str(file)}, stage))
    await until(lambda: file.exists() and " " in file.read_text())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await until(lambda: not any(map(alive, file.read_text().split())))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_the_stderr_of_a_command_is_bounded(tmp_path):
    finish, _ = await invoke_on_stage(command(tmp_path), {"do": "noisy"})
    assert finish.error.startswith("it ended with exit code 3 and gave no result: xxx")
    assert finish.error.endswith("the end")
    assert len(finish.error) < 2_100


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"type": "dance"}, "an invalid frame"),
        ({"type": "result"}, "exactly one of"),
        ({"type": "usage", "provider": "p"}, "an invalid frame"),
        ({"type": "error"}, "an error without a message"),
    ],
    ids=["unknown", "empty", "usage", "error"],
)
async def test_an_invalid_frame_ends_the_command(tmp_path, frame, message):
    finish, _ = await invoke_on_stage(command(tmp_path), {"do": "frame", "frame": frame})
    assert finish.outcome == "failed"
    assert message in finish.error


async def test_a_command_that_cannot_be_started_is_not_measured():
    agent = parts.resolve_agent("cmd:./there-is-no-such-thing --at all", load({}))
    with pytest.raises(ForeignFault, match="could not be started"):
        await invoke_on_stage(agent, 1)


# manifests


@pytest.mark.parametrize(
    ("task", "outcome", "message"),
    [
        ("again", "failed", "no answer after 3 calls of its model"),
        ("cut", "failed", "cut off"),
        ("garbled", "completed", None),
    ],
)
async def test_the_tool_loop_of_a_model_is_bounded(task, outcome, message):
    finish, _ = await invoke_on_stage(on_model(max_rounds=3), {"do": task})
    assert finish.outcome == outcome
    assert (message or "") in (finish.error or "")
    assert finish.result == "invalid_arguments" if outcome == "completed" else True


async def test_a_model_that_cannot_be_called_is_not_measured():
    with pytest.raises(ForeignFault, match="401"):
        await invoke_on_stage(on_model(), {"do": "down"})


# records


async def test_a_record_is_found_by_task_id_first(tmp_path):
    async with acting("recorded", tmp_path) as agent:
        assert (await invoke_on_stage(agent, {"do": "refuse"}, task_id="by-id"))[0].result == "by its id"
        with pytest.raises(ForeignFault, match="no answer for unknown"):
            await invoke_on_stage(agent, {"do": "else"}, task_id="unknown")


@pytest.mark.parametrize(
    ("name", "text", "result"),
    [
        ("a.json", '{"t-1": {"queue": "a"}}', {"queue": "a"}),
        ("a.json", '[{"taskId": "t-1", "result": 1}]', 1),
        ("a.jsonl", '{"input": 5, "result": 2}\n\n', 2),
    ],
)
async def test_records_come_in_three_forms(tmp_path, name, text, result):
    (tmp_path / name).write_text(text)
    agent = RecordedAgent(card("recorded"), str(tmp_path / name))
    assert (await invoke_on_stage(agent, 5, task_id="t-1"))[0].result == result


@pytest.mark.parametrize("text", ["3", "nonsense", '[{"result": 1}]', "[1]"])
def test_an_invalid_file_of_records_is_refused_with_its_place(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=r"local.test.recorded: .*a.json: "):
        RecordedAgent(card("recorded"), str(tmp_path / "a.json"))


# who is meant


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "agent.py").write_text(COMMAND)
    (tmp_path / "answers.json").write_text("{}")
    manifest = {
        "agentId": "local.shop.writer",
        "persona": "Writer",
        "modelClass": "writing",
        "systemPrompt": "Hi.",
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/greeter.py").write_text("def greet(task): return task")
    (tmp_path / "sub/json.py").write_text("def f(task): return task")
    (tmp_path / "script.json").write_text('{"replies": [{"say": "Done."}]}')
    (tmp_path / "assay.toml").write_text(
        '[agents."local.shop.bot"]\nkind = "callable"\ntarget = "support.agents.fake_agents:plain"\nversion = "1.2.0"\nfree = true\n'
        '[models]\nwriting = "demo:any"\n[providers.demo]\nkind = "scripted"\nscript = "script.json"\n'
    )
    return tmp_path


@pytest.mark.parametrize(
    ("what", "kind", "id"),
    [
        ("support.agents.fake_agents:plain", "callable", "local.support.agents.fake_agents.plain"),
        ("./sub/greeter.py:greet", "callable", "local.greeter.greet"),
        ("http://localhost:8000/agent", "http", "local.http.localhost-8000-b0e97f"),
        ("http://127.0.0.1:8000/", "http", "local.http.at-127-0-0-1-8000"),  # not that of another port
        ("https://me:pw@shop.example", "http", "local.http.shop-example"),  # without the password
        ("cmd:python -m my.bot --fast", "command", "local.command.fast"),
        ("./agent.py", "command", "local.command.agent"),
        ("recorded:answers.json", "recorded", "local.recorded.answers"),
        ("manifest.json", "manifest", "local.shop.writer"),
        ("./manifest.json", "manifest", "local.shop.writer"),
        ("local.shop.bot", "callable", "local.shop.bot"),
    ],
)
def test_the_forms_of_an_agent_option(folder, what, kind, id):
    agent = parts.resolve_agent(what, load({}))
    assert (agent.card.kind, agent.card.agent_id) == (kind, id)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nobody", r"agent='nobody': expected module:function, .*; configured are local.shop.bot"),
        (
            "support.agents.fake_agents:nothing",
            "agent='support.agents.fake_agents:nothing'.target: 'support.agents.fake_agents:nothing': expected code that can be loaded, got AttributeError",
        ),
        ("support.agents.fake_agents:KINDS", "expected a function"),
        ("nowhere:f", "ModuleNotFoundError"),
        ("nowhere.py:f", "ImportError: there is no file nowhere.py"),
        ("sub/json.py:f", "another module is called 'json' already: rename sub/json.py"),
        ("cmd:", "expected a command"),
        ("recorded:none.json", "none.json: expected a file that can be read"),
        ("none.json", "none.json: expected a file that can be read"),
        ("answers.json", "persona: is required"),
        ("support.agents.fake_agents:acting", None),
    ],
)
def test_an_unknown_agent_is_refused(folder, what, message):
    if message is None:
        assert parts.resolve_agent(what, load({})).card.takes_tools
    else:
        with pytest.raises(Refusal, match=message):
            parts.resolve_agent(what, load({}))


async def test_a_manifest_on_a_script_is_marked_as_scripted(folder):
    agent = parts.resolve_agent("manifest.json", load({}))
    finish, stage = await invoke_on_stage(agent, "Say something.")
    assert finish.result == "Done."
    assert [(one.usage.provider, one.usage.model, one.usage.cost_usd) for one in stage.steps] == [
        ("scripted", "scripted:any", 0.0)
    ]
    await agent.close()


async def test_a_run_may_override_the_model_of_a_manifest(folder):
    agent = parts.resolve_agent("manifest.json", load({}))
    tuned = agent.with_overrides(ModelOverrides(model="demo:other", temperature=0.5, max_tokens=7))
    finish, stage = await invoke_on_stage(tuned, "Say something.")
    assert (finish.result, [one.usage.model for one in stage.steps]) == ("Done.", ["scripted:other"])
    _, ask = agent._choose(ModelOverrides(temperature=0.5, max_tokens=7))
    assert (ask.model, ask.parameters) == ("any", {"temperature": 0.5, "max_tokens": 7})
    with pytest.raises(InvalidRequest, match="has only embeddings"):
        agent.with_overrides(ModelOverrides(model="wordllama:any"))
    await agent.close()


def test_a_class_without_a_model_is_refused_before_anything_runs(folder):
    (folder / "assay.toml").write_text("")
    with pytest.raises(UsageError, match=r"no model of class 'writing': set writing = \"PROVIDER:MODEL\""):
        parts.resolve_agent("manifest.json", load({}))


def test_the_agents_of_the_settings_are_listed_sorted(folder):
    (card,) = parts.agents(load({})).cards()
    assert (card.agent_id, card.version, card.free, card.persona) == ("local.shop.bot", "1.2.0", True, "bot")
    assert parts.agents(load({})).get("local.shop.nobody") is None


def test_every_problem_of_agent_settings_has_its_place(folder):
    (folder / "assay.toml").write_text(
        '[agents."local.a.b"]\nkind = "psychic"\ntarget = ""\nversion = "one"\ncolour = "red"\ntools = ["x"]\n'
        '[agents."local.a.c"]\n[tools.orders]\nkind = "http"\n'
    )
    with pytest.raises(UsageError) as refused:
        load({})
    assert [
        line.removeprefix("settings: ").removeprefix('agents."local.a.').split(": ")[0]
        for line in str(refused.value).splitlines()
    ] == [
        'b".colour',
        'b".kind',
        'b".target',
        'b".version',
        'b".tools[0]',
        'c".kind',
        'c".target',
        'tools."orders"',
        'tools."orders".target',
    ]


def test_hand_off_schemas_are_read_from_their_files(folder):
    (folder / "task.json").write_text('{"type": "object"}')
    (folder / "assay.toml").write_text(
        '[agents."local.a.b"]\nkind = "callable"\ntarget = "support.agents.fake_agents:plain"\ntask_schema = "task.json"\n'
    )
    assert parts.agents(load({})).cards()[0].task_schema == {"type": "object"}
    (folder / "task.json").write_text('{"type": "thing"}')
    with pytest.raises(
        InvalidRequest, match=r'agents."local.a.b".task_schema: task.json: not a JSON Schema: '
    ):
        parts.agents(load({})).cards()
    (folder / "task.json").write_text("[")
    with pytest.raises(InvalidRequest, match=r'agents."local.a.b".task_schema: task.json is not JSON'):
        parts.agents(load({})).cards()
    (folder / "task.json").write_text('{"type": "object", "type": "string"}')
    with pytest.raises(InvalidRequest, match=r"task_schema: task.json: type: this member is there twice"):
        parts.agents(load({})).cards()


def test_valid_ids_of_agents(folder):
    (folder / "assay.toml").write_text(
        '[agents.roster]\nkind = "callable"\ntarget = "support.agents.fake_agents:plain"\n'
    )
    with pytest.raises(UsageError, match="expected an agent id such as"):
        parts.agents(load({})).cards()


def client_error(package, name, base=Exception):
    """An error as an HTTP client defines it, for clients that are not installed here."""
    return type(name, (base,), {"__module__": f"{package}.exceptions"})("down")


async def by_httpx(address):
    async with httpx.AsyncClient(timeout=60) as client:
        await client.get(address)


async def by_aiohttp(address):
    async with ClientSession() as client, client.get(address):
        pass


async def by_urllib(address):
    await asyncio.to_thread(urllib.request.urlopen, address)


@pytest.mark.parametrize("client", [by_httpx, by_aiohttp, by_urllib])
async def test_an_agent_whose_own_client_cannot_connect_is_not_measured(client):
    with socket.socket() as unused:  # bound, and never listens
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/"

        async def answer(task):
            await client(address)

        agent = CallableAgent(card("callable"), answer)
        with pytest.raises(NotMeasured):
            await invoke(agent, "hello", stage_for(agent))


@pytest.mark.parametrize(
    ("error", "measured"),
    [
        (NotMeasured("overloaded"), False),
        (ConnectionResetError("gone"), False),
        (ExceptionGroup("", [ConnectionError("a"), ConnectionError("b")]), False),
        (ExceptionGroup("", [ConnectionError("a"), ValueError("b")]), True),  # the agent has a bug too
        (client_error("requests", "ConnectionError", OSError), False),
        (
            client_error("requests", "ConnectTimeout", type(client_error("requests", "ConnectionError"))),
            False,
        ),
        (client_error("requests", "ReadTimeout"), True),
        (client_error("openai", "APIConnectionError"), False),
        (client_error("openai", "RateLimitError"), True),
        (urllib.error.HTTPError("http://x", 500, "bad", {}, None), True),  # it was reached
        (client_error("mine", "ConnectionError"), True),  # a name alone says nothing
        (OSError("disk"), True),
        (ValueError("bad day"), True),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_exception_fails_the_agent_unless_it_could_not_be_called(error, measured, asynchronous):
    def plain_answer(task):
        raise error

    async def async_answer(task):
        raise error

    agent = CallableAgent(card("callable"), async_answer if asynchronous else plain_answer)
    if measured:
        finish = await invoke(agent, "hello", stage_for(agent))
        assert finish.outcome == "failed"
        assert finish.error.startswith(f"{type(error).__name__}: {error} (")  # and the line that raised it
    else:
        with pytest.raises(NotMeasured) as unmeasured:
            await invoke(agent, "hello", stage_for(agent))
        assert str(error) in str(unmeasured.value)
