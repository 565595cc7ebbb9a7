"""AgentManifest as published and a little more (openwop-contract §7.1), its files, and models that call tools."""

import json

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.backends.agents.manifest import open_manifest
from assay.backends.models.completions import ToolNames
from assay.backends.models.openai_compatible import OpenAICompatibleModel
from assay.backends.models.provider_client import ProviderClient
from assay.backends.models.scripted import ScriptedProvider
from assay.errors import ForeignFault, InvalidRequest, UsageError
from assay.ports import CompletionRequest, Message, Prices, Provider, ToolCall
from assay.protocol.agents import ToolSpec
from assay.protocol.manifest import read_manifest
from assay.testing import ScriptedModel
from support.models.provider_server import ProviderServer
from support.spec_files import SHARED, needs_shared

PLAIN = {"agentId": "vendor.acme.x.bot", "persona": "Bot", "modelClass": "writing", "systemPrompt": "Hi."}
words = st.text(max_size=4)
members = st.fixed_dictionaries(
    {},
    optional={
        "agentId": st.sampled_from(["vendor.acme.x.bot", "acme", "local.a.b", "local.A.b", "core.x"]),
        "persona": st.sampled_from(["Bot", "", "x" * 201]),
        "modelClass": st.sampled_from(["writing", "chat"]),
        "systemPrompt": words,
        "systemPromptRef": words,
        "evalSuiteRef": words,
        "toolAllowlist": st.lists(words, max_size=2) | words,
        "requiresCapabilities": st.lists(st.sampled_from(["a", "b", ""]), max_size=2),
        "memoryShape": st.sampled_from([{}, {"longTerm": True}, {"longTerm": 1}, {"other": True}, []]),
        "confidence": st.sampled_from([{}, {"defaultThreshold": 0.5}, {"defaultThreshold": 2}, {"x": 1}]),
        "handoff": st.sampled_from([{}, {"taskSchemaRef": "a"}, {"taskSchemaRef": ""}, {"x": "a"}]),
        "label": st.sampled_from(["L", "", "x" * 101]),
        "description": st.sampled_from(["", "x" * 501]),
        "promptLibraryRef": st.sampled_from(["lib.a", "Lib"]),
        "other": words,
    },
)


@needs_shared
@given(changes=members, dropped=st.sets(st.sampled_from(sorted(PLAIN)), max_size=1))
def test_a_manifest_is_what_the_published_schema_says(changes, dropped):
    document = {name: value for name, value in (PLAIN | changes).items() if name not in dropped}
    manifest, problems = read_manifest(document)
    assert (manifest is not None) == published().is_valid(document), problems
    assert (manifest is None) == bool(problems)


def published(kept=[]):  # noqa: B006  # made once
    if not kept:
        schema = json.loads((SHARED / "openwop" / "schemas" / "agent-manifest.schema.json").read_text())
        del schema["properties"]["promptOverrides"]  # refers to another file
        kept.append(jsonschema_rs.validator_for(schema))
    return kept[0]


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"role": "assistant"}, []),
        ({"role": "skill", "handoff": {}}, []),
        ({"role": "skill"}, ["handoff"]),
        ({"role": "skill", "handoff": {}, "memoryShape": {"longTerm": True}}, ["memoryShape.longTerm"]),
        ({"role": "boss"}, ["role"]),
        ({"persona": "", "modelClass": "chat", "x": 1}, ["x", "persona", "modelClass"]),  # all at once
        ({"confidence": {"defaultThreshold": 2}}, ["confidence.defaultThreshold"]),
    ],
    ids=str,
)
def test_a_problem_of_a_manifest_has_its_place(changes, places):
    assert [problem.place for problem in read_manifest(PLAIN | changes)[1]] == places


def written(folder, **changes):
    document = {name: value for name, value in (PLAIN | changes).items() if value is not None}
    (folder / "manifest.json").write_text(json.dumps(document))
    return open_manifest(folder / "manifest.json", "here")


def test_prompt_and_schemas_are_read_from_files(tmp_path):
    (tmp_path / "prompt.md").write_text("You are kind.")
    (tmp_path / "task.json").write_text('{"type": "object"}')
    manifest = written(
        tmp_path,
        systemPrompt=None,
        systemPromptRef="prompt.md",
        handoff={"taskSchemaRef": "task.json"},
        toolAllowlist=["shop:orders"],
        memoryShape={"scratchpad": True},
        confidence={"defaultThreshold": 0.75},
    )
    card = manifest.card()
    assert (manifest.prompt, card.task_schema, card.return_schema) == (
        "You are kind.",
        {"type": "object"},
        None,
    )
    assert (card.tools, card.takes_tools, card.takes_memory, card.threshold) == (
        ("shop:orders",),
        True,
        True,
        0.75,
    )
    plain = written(tmp_path).card()
    assert (plain.tools, plain.takes_tools, plain.takes_memory) == ((), False, False)


@pytest.mark.parametrize("ref", ["/etc/passwd", "../secret.md", "a/../../b", "none.md", "a\\b"])
def test_a_file_reference_stays_in_its_folder_and_exists(tmp_path, ref):
    with pytest.raises(InvalidRequest, match=r"here: .*manifest.json: systemPromptRef: "):
        written(tmp_path, systemPrompt=None, systemPromptRef=ref)


# tools on the wire

ORDERS = ToolSpec(id="shop:orders", description="Orders.", input_schema={"type": "object"})
pytestmark = pytest.mark.anyio


async def test_tools_are_sent_and_calls_are_returned():
    asked = CompletionRequest(
        messages=(
            Message("user", "Where is it?"),
            Message("assistant", "", (ToolCall(id="c0", tool="shop:orders", arguments={"id": 1}),)),
            Message("tool", "[]", tool_call_id="c0"),
        ),
        model="calls",
        tools=(ORDERS,),
        schema={"type": "object"},
    )
    with ProviderServer() as server:
        provider = Provider(name="local", base_url=server.base_url, prices=Prices(input=1.0))
        model = OpenAICompatibleModel(ProviderClient(provider))
        reply = await model.complete(asked)
        await model.close()
        body = server.seen[-1].body
    assert reply.tool_calls == (
        ToolCall(id="c1", tool="shop:orders", arguments={"id": 17}),
        ToolCall(id="call-2", tool="nowhere", problem=reply.tool_calls[1].problem),
        ToolCall(id="c3", tool="shop:orders"),
    )
    assert reply.tool_calls[1].problem.startswith("is not JSON")
    assert (reply.finish_reason, reply.problem) == ("tool_calls", None)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "shop_orders", "description": "Orders.", "parameters": {"type": "object"}},
        }
    ]
    assert body["messages"][1]["tool_calls"][0]["function"] == {
        "name": "shop_orders",
        "arguments": '{"id":1}',
    }
    assert body["messages"][2] == {"role": "tool", "content": "[]", "tool_call_id": "c0"}


@given(ids=st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=6))
@settings(max_examples=50)
def test_names_of_tools_are_mapped_and_mapped_back(ids):
    names = ToolNames([ToolSpec(id=id) for id in ids])
    assert len(names.back) == len(ids)
    assert all(len(name) <= 64 and names.back[names.of[id]] == id for id, name in names.of.items())


# scripts


def scripted(folder, replies, **more):
    (folder / "script.json").write_text(json.dumps({"replies": replies}))
    return ScriptedProvider(
        Provider(name="demo", kind="scripted", script=str(folder / "script.json"), **more)
    )


def asking(*texts, **more):
    messages = [Message("system", "order"), *(Message(role, text) for role, text in texts)]
    return CompletionRequest(messages=tuple(messages), model="any", **more)


async def test_a_script_answers_with_the_first_match_and_is_marked(tmp_path):
    model = scripted(
        tmp_path,
        [
            {"when": ["order", "17"], "turn": 1, "say": "Let me look.", "call": [{"tool": "shop:orders"}]},
            {"when": "order", "turn": 2, "say": {"state": "sent"}},
            {"when": "down", "fail": "503"},
            {"when": "bad", "refuse": "No."},
            {"say": "I do not know."},
        ],
    )
    first = await model.complete(asking(("user", "order 17")))
    assert (first.tool_calls[0].tool, first.text, first.provider) == (
        "shop:orders",
        "Let me look.",
        "scripted",
    )
    second = await model.complete(asking(("user", "order 17"), ("assistant", ""), ("tool", "[]"), schema={}))
    assert (second.value, second.cost_usd, second.model) == ({"state": "sent"}, 0.0, "scripted:any")
    assert (
        await model.complete(asking(("user", "hello")))
    ).text == "I do not know."  # the system message is not heard
    assert (await model.complete(asking(("user", "bad")))).refusal == "No."
    with pytest.raises(ForeignFault, match="503"):
        await model.complete(asking(("user", "down")))


async def test_a_script_has_the_cost_of_its_table(tmp_path):
    model = scripted(tmp_path, [{"say": "one two"}], prices=Prices(input=1.0, output=1.0))
    reply = await model.complete(asking(("user", "three words here")))
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (4, 2, pytest.approx(6e-6))


async def test_a_script_without_a_match_is_not_measured(tmp_path):
    with pytest.raises(ForeignFault, match="has no reply that matches"):
        await scripted(tmp_path, [{"when": "x", "say": "y"}]).complete(asking(("user", "hello")))


@pytest.mark.parametrize("replies", [[], [{"sya": 1}], [{"turn": 0}]], ids=["empty", "unknown", "turn"])
def test_an_invalid_script_is_refused_with_its_place(tmp_path, replies):
    with pytest.raises(UsageError, match=r"settings: providers.demo.script: .*script.json"):
        scripted(tmp_path, replies)


async def test_a_scripted_model_asks_for_tools():
    model = ScriptedModel([ToolCall(id="c", tool="shop:orders"), "done"])
    assert (await model.complete(asking())).tool_calls[0].tool == "shop:orders"
    assert (await model.complete(asking())).text == "done"
