"""What an agent has around it: tools behind an allow-list, seeds, a record without secrets, an end that holds (openwop-contract §6.2)."""

import asyncio
import json
import math
import re
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from assay.agents.fixtures import FixtureTools, SeededMemory, read_seeds
from assay.agents.handoff import task_problems, validate_result
from assay.agents.invocation import Invocation, invoke
from assay.agents.usage import usage_of, valid_usage
from assay.backends.agents.frames import apply_note, handle, read_end, read_frame
from assay.errors import EnvironmentFailure, ForeignFault, InvalidRequest, TimeFault
from assay.ports import Completion
from assay.ports.agents import ToolFailure
from assay.protocol.agent_evals import ToolResponse
from assay.protocol.agents import (
    AgentCard,
    InvocationResult,
    MemoryWriteStep,
    ReasoningStep,
    ToolCalled,
    ToolSpec,
    Usage,
    UsageStep,
)
from assay.protocol.redaction import HIDDEN, TELLING, redact, redact_json, redact_text
from assay.protocol.secret_patterns import SHAPES

pytestmark = pytest.mark.anyio
CARD = AgentCard(agent_id="local.test.agent", tools=("shop:orders", "shop:refund"))
OPEN = AgentCard(agent_id="local.test.open")
KEY = "sk-0123456789abcdefghij"


def untimed(step):
    """A step without its time."""
    assert step.at_ms >= 0
    return msgspec.structs.replace(step, at_ms=UNSET)


class Live:
    """A toolbox that remembers who called."""

    def __init__(self):
        self.called = []

    def static_specs(self, tools):
        return [ToolSpec(id=tool, transport="mcp") for tool in tools]

    async def specs(self, tools):
        return self.static_specs(tools)

    async def call(self, tool, arguments):
        self.called.append((tool, arguments))
        if tool == "shop:refund":
            raise ToolFailure("rate_limited", f"not so fast, {KEY}")
        return {"tool": tool, **arguments}

    async def close(self): ...


class Acts:
    """An agent that is a function of its task and scene."""

    def __init__(self, act, card=OPEN):
        self.card, self._act = card, act

    async def invoke(self, task, scene):
        return await self._act(task, scene)

    async def close(self): ...


def responses(*pairs):
    return FixtureTools([msgspec.convert(dict(pair), ToolResponse) for pair in pairs])


async def staged(card=CARD, tools=None, **more):
    stage = Invocation(card, tools, **more)
    await stage.open()
    return stage


async def failure(call):
    with pytest.raises(ToolFailure) as caught:
        await call
    return caught.value.code


async def test_answers_come_in_order_the_last_repeats_and_without_a_response_it_is_null():
    stage = await staged(
        tools=responses({"tool": "shop:orders", "response": 1}, {"tool": "shop:orders"}),
    )
    assert [await stage.tool("shop:orders", id=at) for at in range(4)] == [1, None, None, None]
    assert [step.call_id for step in stage.steps[::2]] == ["call-1", "call-2", "call-3", "call-4"]
    assert untimed(stage.steps[0]) == ToolCalled(call_id="call-1", tool="shop:orders", inputs={"id": 0})
    assert (stage.steps[1].status, stage.steps[1].outcome, stage.steps[3].outcome) == ("ok", 1, None)


@pytest.mark.parametrize("tool", ["shop:refund", "refund", "shop.orders", "x"])
async def test_a_call_without_a_fixture_is_an_error_step_and_reaches_nobody(tool):
    stage = await staged(OPEN, tools=responses({"tool": "shop:orders", "response": 1}))
    assert await failure(stage.tool(tool, id=1)) == "fixture_missing"
    called, returned = stage.steps
    assert (called.tool, returned.status, returned.error["code"]) == (tool, "error", "fixture_missing")
    assert [(one.tool, one.outcome) for one in stage.attempts] == [(tool, "error")]
    assert returned.outcome is UNSET
    assert called.call_id == returned.call_id


@pytest.mark.parametrize("tool", ["", "a b", f"key:{KEY}", "x" * 257, "a\u202eb"])
async def test_a_name_that_may_not_stand_in_an_event_is_refused_and_leaves_no_step(tool):
    stage = await staged(OPEN, tools=responses({"tool": "shop:orders", "response": 1}))
    assert await failure(stage.call(tool, {})) == "invalid_arguments"
    assert (stage.steps, [one.outcome for one in stage.attempts]) == ([], ["refused"])


@pytest.mark.parametrize("live", [False, True], ids=["fixtures", "live"])
async def test_a_tool_outside_the_allow_list_is_refused_before_anything_and_leaves_no_trace(live):
    box = Live()
    stage = await staged(tools=box, live=live)
    assert await failure(stage.call("shop:wipe", {})) == "not_allowed"
    assert (stage.steps, box.called) == ([], [])


@pytest.mark.parametrize(
    ("card", "live", "code", "specs"),
    [
        (OPEN, False, None, ["shop:orders"]),  # without a list: what the fixtures have
        (OPEN, True, "not_allowed", []),  # and of the world, nothing
        (CARD, False, None, ["shop:orders", "shop:refund"]),
        (AgentCard(agent_id="local.test.none", tools=()), False, "not_allowed", []),
    ],
    ids=["open-fixtures", "open-live", "listed", "empty"],
)
async def test_the_tools_that_an_agent_may_use(card, live, code, specs):
    box = responses({"tool": "shop:orders", "response": 7})
    stage = await staged(card, box, live=live)
    assert [spec.id for spec in stage.tools] == specs
    if code:
        assert await failure(stage.tool("shop:orders")) == code
    else:
        assert await stage.tool("shop:orders") == 7


async def test_live_calls_are_recorded_as_the_others_with_how_they_went():
    box = Live()
    stage = await staged(tools=box, live=True)
    assert await stage.tool("shop:orders", id=3) == {"tool": "shop:orders", "id": 3}
    assert await failure(stage.tool("shop:refund")) == "rate_limited"
    assert [step.transport for step in stage.steps if isinstance(step, ToolCalled)] == ["mcp", "mcp"]
    last = stage.steps[-1]
    assert (last.status, last.error["message"]) == ("rate_limited", "not so fast, [REDACTED:openai-key]")


@pytest.mark.parametrize(
    "arguments",
    [{"n": math.nan}, {"when": object()}, [1], {"deep": [{1: {2}}, object()]}],
    ids=["nan", "object", "list", "inside"],
)
async def test_arguments_are_json(arguments):
    stage = await staged(tools=responses({"tool": "shop:orders"}))
    assert await failure(stage.call("shop:orders", arguments)) == "invalid_arguments"
    assert stage.steps == []


@pytest.mark.parametrize("ttl", [1e300, -1e300, math.inf, math.nan])
async def test_an_invalid_ttl_of_a_memory_write_is_refused(ttl):
    stage = await staged()
    assert await failure(stage.memory.write("x", ttl=ttl)) == "invalid_arguments"
    if 0 < ttl < math.inf:
        frame = read_frame({"type": "memory.write", "content": "x", "ttl": ttl, "id": 7})
        answer = await handle(frame, stage)
        assert (answer["id"], answer["error"]["code"]) == (7, "invalid_arguments")
    assert stage.steps == []


class Away(SeededMemory):
    async def get(self, id):
        raise EnvironmentFailure("the database is away")


async def test_a_failed_request_of_an_agent_is_answered_with_an_error():
    answer = await handle(read_frame({"type": "memory.get", "memoryId": "m"}), await staged(memory=Away()))
    assert "the database is away" in answer["error"]["message"]


async def test_later_changes_of_a_value_do_not_change_the_record():
    fixtures = [ToolResponse(tool="shop:orders", response={"rows": [1]})]
    stage = await staged(tools=FixtureTools(fixtures))
    arguments = {"ids": [1]}
    answer = await stage.call("shop:orders", arguments)
    arguments["ids"].append(2)
    answer["rows"].append(2)
    assert (stage.steps[0].inputs, stage.steps[1].outcome) == ({"ids": [1]}, {"rows": [1]})
    assert await stage.call("shop:orders", {}) == {"rows": [1]}


async def test_steps_are_in_the_order_they_happened():
    stage = await staged(tools=responses({"tool": "shop:orders", "response": []}), memory_ref="mem:run-1")
    stage.reason("look it up")
    await stage.tool("shop:orders")
    stage.usage(provider="openai", model="m", input_tokens=3, output_tokens=4, cost_usd=0.1)
    entry = await stage.memory.write("gold", tags=["tier"])
    stage.reason("done", full=True)
    stage.hand_off("local.test.other", "not mine")
    kinds = [type(step).__name__ for step in stage.steps]
    assert kinds == [
        "ReasoningStep",
        "ToolCalled",
        "ToolReturned",
        "UsageStep",
        "MemoryWriteStep",
        "ReasoningStep",
        "HandoffStep",
    ]
    assert untimed(stage.steps[3]) == UsageStep(
        usage=Usage(provider="openai", model="m", input_tokens=3, output_tokens=4, cost_usd=0.1)
    )
    assert untimed(stage.steps[4]) == MemoryWriteStep(
        memory_ref="mem:run-1", memory_id=entry.id, tags=("tier",)
    )
    assert untimed(stage.steps[5]) == ReasoningStep(text="done", verbosity="full")


async def test_an_async_agent_may_await_its_reports_and_need_not(recwarn):
    """The same steps; and a report that is not awaited is no forgotten coroutine."""
    usage = {"provider": "p", "model": "m", "input_tokens": 1, "output_tokens": 2}
    awaited, plain = await staged(), await staged()
    assert await awaited.reason("why") is None
    assert await awaited.usage(**usage) is None
    assert await asyncio.create_task(gathered(awaited.reason("again"))) is None
    assert await awaited.hand_off("local.test.other") is None
    plain.reason("why")
    plain.usage(**usage)
    plain.reason("again")
    plain.hand_off("local.test.other")
    assert [*map(untimed, awaited.steps)] == [*map(untimed, plain.steps)]
    assert not recwarn.list


async def gathered(report):
    return await report


async def test_after_its_end_an_invocation_records_and_calls_nothing():
    box = Live()
    stage = await staged(tools=box, live=True)
    stage.close()
    assert await failure(stage.tool("shop:orders")) == "over"
    assert await failure(stage.memory.write("late")) == "over"
    stage.reason("late")
    stage.usage(provider="p", model="m", input_tokens=1, output_tokens=1)
    assert (stage.steps, box.called) == ([], [])


NAMES = [
    ("openai", "openai"),
    ("acme/llama-3:8b@2026.01", "acme/llama-3:8b@2026.01"),
    ("m" * 128, "m" * 128),
    ("m" * 129, "unknown"),
    ("", "unknown"),
    ("What is the capital of France?", "unknown"),
    ("line\nbreak", "unknown"),
    ("name\n", "unknown"),
    ("名前", "unknown"),
    (KEY, "unknown"),
    (f"openai/{KEY}", "unknown"),
]


@pytest.mark.parametrize(("name", "kept"), NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("way", ["context", "end", "frame", "noted", "judge"])
async def test_the_model_of_a_usage_is_a_name_and_no_text(way, name, kept):
    stage = await staged()
    wire = {"provider": name, "model": name, "inputTokens": 1, "outputTokens": 2}
    if way == "context":
        stage.usage(provider=name, model=name, input_tokens=1, output_tokens=2)
    elif way == "end":  # of an http agent, a command and a record
        read_end({"result": 1, "usage": wire}, stage)
    elif way == "frame":  # of a callback
        await handle(read_frame({"type": "usage", **wire}), stage)
    elif way == "noted":  # of a command
        assert apply_note(read_frame({"type": "usage", **wire}), stage)
    else:
        stage.note(
            UsageStep(
                usage=usage_of(
                    Completion(
                        text="",
                        finish_reason="stop",
                        model=name,
                        provider=name,
                        input_tokens=1,
                        output_tokens=2,
                    )
                )
            )
        )
    (step,) = stage.steps
    assert isinstance(step, UsageStep)
    assert step.usage == Usage(provider=kept, model=kept, input_tokens=1, output_tokens=2)


@pytest.mark.parametrize(
    "message",
    [
        {"input_tokens": -1},
        {"output_tokens": 1.5},
        {"cost_usd": -0.1},
        {"cost_usd": math.inf},
        {"model": None},
    ],
    ids=str,
)
def test_an_invalid_usage_is_refused(message):
    with pytest.raises(ValueError, match="usage: "):
        valid_usage({"provider": "p", "model": "m", "input_tokens": 1, "output_tokens": 1} | message)


# memory


SEED = {"id": "m1", "content": "tier: gold", "tags": ["customer"], "createdAt": "2026-06-01T00:00:00Z"}


class At:
    def now(self):
        return datetime(2026, 7, 1, tzinfo=UTC)


async def test_memory_seeds_are_read_and_writes_are_visible_later():
    seeds = read_seeds([SEED, {"content": "vip"}, {**SEED, "id": "m3", "expiresAt": "2026-06-30T00:00:00Z"}])
    memory = SeededMemory(seeds, At())
    assert [entry.id for entry in await memory.list()] == ["m1", "seed-2"]  # an expired one never surfaces
    assert [entry.id for entry in await memory.list(tag="customer")] == ["m1"]
    assert await memory.list(limit=0) == []
    written = await memory.write("likes tea", tags=["taste", ""], ttl=60)
    assert await memory.get(written.id) is None
    assert memory.written == [written]
    assert (written.tags, written.createdAt, written.expiresAt) == (
        ("taste",),
        "2026-07-01T00:00:00.000Z",
        "2026-07-01T00:01:00.000Z",
    )
    assert await SeededMemory((), At()).list() == []  # another run sees none of it


async def test_memory_writes_are_redacted():
    assert read_seeds([{"content": f"key {KEY}"}])[0].content == "key [REDACTED:openai-key]"
    stage = await staged()
    entry = await stage.memory.write(f"key {KEY}", tags=[KEY])
    assert (entry.content, entry.tags) == ("key [REDACTED:openai-key]", ("[REDACTED:openai-key]",))


def test_all_problems_of_seeds_are_reported_at_once():
    with pytest.raises(InvalidRequest) as refused:
        read_seeds(
            [{"id": 1}, SEED, SEED | {"tags": "x", "createdAt": "soon"}], "tasks[0].fixtures.memorySeed"
        )
    assert [
        problem.place.removeprefix("tasks[0].fixtures.memorySeed") for problem in refused.value.problems
    ] == [
        "[0].id",
        "[0].content",
        "[2].tags",
        "[2].createdAt",
        "[2].id",
    ]


# secrets

SECRETS = {
    "private-key": "-----BEGIN PRIVATE KEY-----\nMIIE",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.abc",
    "anthropic-key": "sk-ant-api03-abcdefghijklmnop",
    "openai-key": "sk-0123456789abcdefgh",
    "stripe-key": "rk_test_0123456789abcdef",
    "aws-key": "AIDAIOSFODNN7EXAMPLE",
    "google-key": f"AIza{'x' * 35}",
    "github-token": f"gho_{'x' * 30}",
    "gitlab-token": f"glpat-{'x' * 20}",
    "slack-token": "xoxs-1234567890",
    "npm-token": f"npm_{'x' * 36}",
    "huggingface-token": f"hf_{'x' * 30}",
    "assay-key": f"assay_{'x' * 24}",
    "bearer": "bearer 0123456789abcdef",
    "basic": "Basic 0123456789abcdef",
    "password": "a://:b@",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"use {KEY}!", "use [REDACTED:openai-key]!"),
        ("sk-proj-abcdefghijklmnop_123", "[REDACTED:openai-key]"),
        ("sk-ant-api03-abcdefghijklmnop", "[REDACTED:anthropic-key]"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [REDACTED:aws-key]."),
        ("ghp_0123456789abcdefghijABCDEFGHIJ", "[REDACTED:github-token]"),
        ("xoxb-1234567890-abcdef", "[REDACTED:slack-token]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.abc-DEF_1", "[REDACTED:jwt]"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [REDACTED:bearer]"),
        ("postgres://me:hunter2@db/x", "postgres://me:[REDACTED:password]@db/x"),
        ("assay_k1a2b3_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG", "[REDACTED:assay-key]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----.", "[REDACTED:private-key]."),
        (
            "see https://example.com/a:b and a task-0123456789abcdefgh",
            None,
        ),  # no secret, though it looks about
        ("the bearer of this letter; a basic question", None),
        ("risk-0123456789abcdefgh", None),
    ],
    ids=lambda row: (row or "as-it-is")[:14],
)
def test_secrets_are_found_by_their_shape(text, shown):
    assert redact_text(text) == (text if shown is None else shown)


def test_secrets_are_found_by_the_names_of_members():
    assert redact(
        {
            "api_key": "x",
            "accessToken": "y",
            "password": "z",
            "key": "order-1",
            "next_token": "2",
            "tokens": 3,
        }
    ) == {
        "api_key": "[REDACTED:api_key]",
        "accessToken": "[REDACTED:accessToken]",
        "password": "[REDACTED:password]",
        "key": "order-1",
        "next_token": "2",
        "tokens": 3,
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    max_leaves=8,
)


telling = st.one_of(
    st.text(max_size=8),
    st.from_regex(re.compile(HIDDEN.pattern, HIDDEN.flags)),
    st.from_regex(re.compile(TELLING.pattern, TELLING.flags)),
    *(st.from_regex(shape.replace(r"\Z", "") if "BEGIN" in shape else shape) for _, shape in SHAPES),
)


@settings(max_examples=40, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.integers(-9, 9) | telling,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(telling, below, max_size=3),
        max_leaves=4,
    ),
    spaced=st.booleans(),
)
def test_json_text_is_redacted_like_its_value(value, spaced):
    line = json.dumps(value).encode() if spaced else msgspec.json.encode(value)
    kept = redact_json(line)
    assert msgspec.json.decode(kept) == redact(value)
    assert redact(value) != value or kept == line


@pytest.mark.parametrize("end", ["key", "keys", "Key", "token", "tokens", "Token"])
@pytest.mark.parametrize("between", ["", "_", "-", " "])
def test_a_member_is_redacted_by_its_name_in_json_text(between, end):
    words = [
        "api",
        "access",
        "private",
        "secret",
        "auth",
        "bearer",
        "refresh",
        "session",
        "id",
        "input",
        "next",
        "x",
    ]
    for name in [f"{word}{between}{end}" for word in [*words, *map(str.title, words)]]:
        line = msgspec.json.encode({name: "hunter2", "more": f"{name}"})
        assert redact_json(line) == msgspec.json.encode(redact(msgspec.json.decode(line))), name


@pytest.mark.parametrize("name", [name for name, _ in SHAPES])
@pytest.mark.parametrize(
    "before", ["", "\n", "task ", "/", "é "], ids=["", "line", "word", "slash", "letter"]
)
def test_a_secret_is_redacted_in_json_text(name, before):
    secret = SECRETS[name]
    line = msgspec.json.encode({"text": [before + secret]})
    assert redact_json(line) == msgspec.json.encode(redact(msgspec.json.decode(line))) != line


def planted(value, at, secret):
    """The value with a secret in the text of every leaf, or in a member beside."""
    if isinstance(value, list):
        return [planted(one, at, secret) for one in value]
    if isinstance(value, dict):
        return {name: planted(one, at, secret) for name, one in value.items()}
    return f"{value} {secret} {at}"


@settings(max_examples=50, deadline=None)
@given(value=json_values, secret=st.from_regex(r"\Ask-[A-Za-z0-9]{20,40}\Z"))
def test_no_secret_reaches_a_step_wherever_it_hides(value, secret):
    async def acts():
        stage = await staged(
            tools=FixtureTools([ToolResponse(tool="shop:orders", response=planted(value, 1, secret))])
        )
        await stage.tool("shop:orders", given=planted(value, 2, secret))
        stage.reason(f"because of {secret}")
        await stage.memory.write(f"mind {secret}", tags=[secret])
        return msgspec.json.encode(stage.steps)

    assert secret.encode() not in asyncio.run(acts())


@settings(max_examples=50)
@given(value=json_values)
def test_redacting_twice_is_redacting_once_and_plain_values_stay(value):
    assert redact(redact(value)) == redact(value)


# the end


def raises(error):
    async def act(task, scene):
        raise error

    return act


def says(**finish):
    async def act(task, scene):
        return InvocationResult(**{"outcome": "completed", "result": task} | finish)

    return act


async def hangs(task, scene):
    await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("act", "outcome", "error"),
    [
        (says(), "completed", None),
        (says(outcome="refused", result=UNSET, error="no"), "refused", "no"),
        (raises(ValueError("bad day")), "failed", "ValueError: bad day"),
        (raises(ToolFailure("not_allowed", "no")), "failed", "ToolFailure: no"),
        (says(result={1, 2}), "completed", None),  # a set is a list in JSON
        (says(result=object()), "failed", "the result is not JSON"),
        (says(result=math.nan), "failed", "the result is not JSON"),
    ],
    ids=["completed", "refused", "raised", "uncaught-tool", "set", "object", "nan"],
)
async def test_the_outcomes_of_an_agent_are_measured(act, outcome, error):
    finish = await invoke(Acts(act), {"q": 1}, Invocation(OPEN))
    assert finish.outcome == outcome
    assert (finish.error or "").startswith(error or "")


async def test_an_agent_that_does_not_end_times_out():
    stage = Invocation(OPEN, seconds=0.01)
    finish = await invoke(Acts(hangs), None, stage, grace=0.01)
    assert (finish.outcome, finish.error) == ("failed", "the agent did not end in time")
    assert await failure(stage.tool("shop:orders")) == "over"


@pytest.mark.parametrize("fault", [ForeignFault("401"), TimeFault("late")], ids=["foreign", "time"])
async def test_an_agent_that_could_not_be_called_is_not_measured(fault):
    with pytest.raises(type(fault)):
        await invoke(Acts(raises(fault)), None, Invocation(OPEN))


RETURNS = {"type": "object", "required": ["queue"], "properties": {"queue": {"type": "string"}}}


@pytest.mark.parametrize(
    ("card", "result", "outcome", "validated"),
    [
        ({"return_schema": RETURNS}, {"result": {"queue": "a"}}, "completed", True),
        ({"return_schema": RETURNS}, {"result": {"queue": 1}}, "failed", False),
        ({"return_schema": RETURNS}, {"result": "a"}, "failed", False),
        (
            {"return_schema": RETURNS},
            {"outcome": "failed"},
            "failed",
            None,
        ),  # there was nothing to hold against it
        ({}, {"result": "a"}, "completed", None),
        ({"threshold": 0.7}, {"result": "a", "confidence": 0.6}, "escalated", None),
        ({"threshold": 0.7}, {"result": "a", "confidence": 0.7}, "completed", None),
        ({"threshold": 0.7}, {"result": "a"}, "completed", None),  # no confidence: no escalation
    ],
    ids=["fits", "breaks", "text", "failed", "free", "below", "at", "silent"],
)
def test_a_result_is_validated_with_the_return_schema(card, result, outcome, validated):
    finish = validate_result(
        AgentCard(agent_id="local.a.b", **card), InvocationResult(**{"outcome": "completed"} | result)
    )
    assert (finish.outcome, finish.schema_validated) == (outcome, validated)


def test_a_task_is_validated_with_the_task_schema():
    card = AgentCard(agent_id="local.a.b", task_schema=RETURNS)
    assert task_problems(card, {"queue": "a"}) == []
    assert [str(problem) for problem in task_problems(card, {"queue": 1}, "tasks[3].input")] == [
        "tasks[3].input['queue']: 1 is not of type \"string\""
    ]
    assert task_problems(OPEN, object()) == []


# Tools that an agent brings itself, as agents of frameworks do.


async def own_orders():
    return {"rows": {1}}


@pytest.mark.parametrize(
    ("fixtures", "recorded"),
    [
        (["orders"], "orders"),
        (["shop:orders"], "shop:orders"),
        (["shop:orders", "orders"], "orders"),
        (["shop:orders", "mail:orders"], None),  # which of the two is not said
        (["shop:refund"], None),
        ([], None),
    ],
)
async def test_a_fixture_answers_a_tool_of_the_agents_own_by_its_name(fixtures, recorded):
    tools = FixtureTools([ToolResponse(tool=tool, response=tool) for tool in fixtures])
    stage = Invocation(OPEN, tools)
    await stage.open()
    if recorded is None:
        with pytest.raises(ToolFailure, match="no fixture answers orders"):
            await stage.call_own("orders", {"id": 1}, own_orders)
        assert stage.steps[-1].error["code"] == "fixture_missing"
    else:
        assert await stage.call_own("orders", {"id": 1}, own_orders) == recorded
        assert [step.tool for step in stage.steps] == [recorded] * 2
        assert stage.attempts[0].arguments == {"id": 1}


async def test_a_tool_of_the_agents_own_runs_with_live_tools_and_is_recorded_as_json():
    stage = Invocation(OPEN, Live(), live=True)
    await stage.open()
    assert await stage.call_own("orders", {"key": KEY}, own_orders) == {"rows": {1}}
    called, returned = stage.steps
    assert KEY not in str(called.inputs)
    assert (returned.status, returned.outcome) == ("ok", {"rows": [1]})


async def test_the_exception_of_a_tool_of_the_agents_own_passes_through_and_is_recorded():
    async def fail():
        raise KeyError(f"no {KEY}")

    stage = Invocation(OPEN, Live(), live=True)
    await stage.open()
    with pytest.raises(KeyError):
        await stage.call_own("orders", {}, fail)
    assert stage.steps[-1].error["code"] == "tool_error"
    assert "KeyError" in stage.steps[-1].error["message"]
    assert KEY not in stage.steps[-1].error["message"]


async def test_an_allow_list_and_critics_hold_for_tools_of_the_agents_own():
    stage = Invocation(CARD, Live(), live=True)
    await stage.open()
    assert await stage.call_own("orders", {}, own_orders) == {"rows": {1}}
    assert stage.steps[0].tool == "shop:orders"
    with pytest.raises(ToolFailure, match="weather is not among the tools"):
        await stage.call_own("weather", {}, own_orders)
    box = Live()
    checked = Invocation(CARD, box, live=True, runs_own=False)  # critics see the calls of live tools alone
    await checked.open()
    await checked.call_own("orders", {}, own_orders)
    assert [call[0] for call in box.called] == ["shop:orders"]
