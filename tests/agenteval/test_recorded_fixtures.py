"""Recorded fixtures: live tools are called once, and their answers are replayed to an agent without any live tool."""

import asyncio
import json

import pytest
import yaml

import assay as library
from assay.agenteval.results.recorded_fixtures import recorded_fixtures
from assay.errors import InvalidRequest, UsageError
from assay.ports.agents import ToolFailure
from assay.protocol.agents import ToolSpec
from support.evals import FunctionAgent, eval_host, golden, suite_of

KEY = "sk-0123456789abcdefghij"
TOOLS = """
[tools."shop:orders"]
kind = "python"
target = "shop_tools:orders"

[tools."shop:login"]
kind = "python"
target = "shop_tools:login"

[agents."local.shop.agent"]
kind = "callable"
target = "shop_agent:act"
free = true
tools = ["shop:orders", "shop:login"]
"""
TOOLS_CODE = f"""
from pathlib import Path

def orders(id: int, deep: bool = False):
    with Path("calls.log").open("a") as log:
        log.write(f"{{id}}\\n")
    if id == 404:
        raise LookupError("no such order")
    return {{"id": id, "call": len(Path("calls.log").read_text().split()), "key": "{KEY}"}}

def login(token: str):
    return {{"in": True}}
"""
AGENT_CODE = f"""
import assay

def act(task, ctx):
    ctx.tool("shop:login", token="{KEY}")
    got = [ctx.tool("shop:orders", id=17), ctx.tool("shop:orders", id=17), ctx.tool("shop:orders", id=task)]
    try:
        ctx.tool("shop:orders", id=404)
    except assay.ToolFailure as failure:
        got.append(failure.code)
    memory = [one.content for one in ctx.memory.list()]
    return [one["call"] if isinstance(one, dict) else one for one in got] + memory
"""
SEEDS = {"memorySeed": [{"id": "m", "content": "gold"}]}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "assay.toml").write_text(TOOLS)
    (tmp_path / "shop_tools.py").write_text(TOOLS_CODE)
    (tmp_path / "shop_agent.py").write_text(AGENT_CODE)
    suite = suite_of(golden("t", [1, 2, 3, "tool_error", "gold"], 18, fixtures=SEEDS, strategy="json-match"))
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    return tmp_path


def test_a_recording_is_replayed_without_a_live_call_and_has_no_secret(command, project):
    recorded = command(
        "run", "suite.yaml", "--agent", "local.shop.agent", "--record", "f.yaml", folder=project
    )
    assert recorded.code == 0, recorded.out + recorded.err
    assert "written to f.yaml: 5 fixtures of 1 task" in recorded.out
    live = (project / "calls.log").read_text()
    text = (project / "f.yaml").read_text()
    assert KEY not in text
    rules = yaml.safe_load(text)["x-assay"]["tasks"]["t"]["fixtures"]
    assert [(one["tool"], one.get("call")) for one in rules] == [
        ("shop:login", None), ("shop:orders", 1), ("shop:orders", None), ("shop:orders", None), ("shop:orders", None),
    ]  # fmt: skip
    assert rules[-1]["error"]["code"] == "tool_error"
    replayed = command(
        "run", "suite.yaml", "--agent", "local.shop.agent", "--fixtures", "f.yaml", folder=project
    )
    assert replayed.code == 0, replayed.out + replayed.err
    assert (project / "calls.log").read_text() == live
    # the library replays the same file, and its content
    document = yaml.safe_load(text)
    run = asyncio.run(library.run_suite(read(project), replays, fixtures=document, free=True))
    assert (run.passed, run.reasons) == (True, [])
    again = command("run", "suite.yaml", "--agent", "local.shop.agent", "--record", "f.yaml", folder=project)
    assert (again.code, "--record f.yaml: expected a new file" in again.err) == (2, True)
    assert (project / "calls.log").read_text() == live


def read(project):
    return yaml.safe_load((project / "suite.yaml").read_text())


def replays(task, ctx):
    """The same calls in another order: the answers are those of the arguments."""
    last = ctx.tool("shop:orders", id=task)["call"]
    got = [ctx.tool("shop:orders", id=17)["call"], ctx.tool("shop:orders", id=17)["call"], last]
    with pytest.raises(ToolFailure) as failure:
        ctx.tool("shop:orders", id=404)
    with pytest.raises(ToolFailure, match="fits this call"):
        ctx.tool("shop:orders", id=17, deep=True)  # a recorded call has no other arguments
    return [*got, failure.value.code, *(one.content for one in ctx.memory.list())]


REFUSED = [
    (["--record", "f.txt"], "--record f.txt: expected a file that ends in .yaml or .yml"),
    (["--record", "no/f.yaml"], "--record no/f.yaml: there is no folder no"),
    (["--record", "f.yaml", "--trials", "2"], "--record: expected one trial of each task, got 2"),
    (["--record", "f.yaml", "--agent", "shop_agent:act"], "agent local.shop_agent.act may call no live tool: list"),
    (["--record", "f.yaml", "--agent", "plain:act"], "agent local.plain.act takes no tools: add a parameter `ctx`"),
    (["--fixtures", "none.yaml"], "none.yaml"),
    (["--fixtures", "suite.yaml"], "suite.yaml: expected the member x-assay alone"),
    (["--fixtures", "other.yaml"], "other.yaml: x-assay.tasks.u: the suite has no task with this id"),
    (["--fixtures", "calls.yaml"], "calls.yaml: x-assay.tasks.t: expected fixtures alone, got must_call"),
    (["--fixtures", "f.yaml", "--server", "http://127.0.0.1:1", "--key-file", "k"], "--fixtures and --server: expected one of them"),
    (["--record", "f.yaml", "--resume", "latest"], "--resume: expected no suite, fixtures"),
]  # fmt: skip


def test_what_cannot_be_recorded_or_replayed_is_refused_before_a_live_call(command, project):
    (project / "plain.py").write_text("def act(task):\n    return task\n")
    (project / "k").write_text("ak_x")
    rule = {"tool": "shop:orders", "response": 1}
    for name, tasks in (
        ("other", {"u": {"fixtures": [rule]}}),
        ("calls", {"t": {"must_call": ["a"], "fixtures": [rule]}}),
    ):
        (project / f"{name}.yaml").write_text(yaml.safe_dump({"x-assay": {"tasks": tasks}}))
    for options, message in REFUSED:
        agent = [] if "--agent" in options else ["--agent", "local.shop.agent"]
        refused = command("run", "suite.yaml", *agent, *options, folder=project)
        message_on_one_line = " ".join(refused.err.split())
        assert (refused.code, message in message_on_one_line) == (2, True), (options, refused.err)
    assert not (project / "calls.log").exists()
    assert not (project / "f.yaml").exists()


class Live:
    """A toolbox whose answers cannot be guessed."""

    def __init__(self):
        self.calls = []

    def static_specs(self, tools):
        return [ToolSpec(id=tool) for tool in tools]

    async def specs(self, tools):
        return self.static_specs(tools)

    async def call(self, tool, arguments):
        self.calls.append((tool, arguments))
        if tool == "a:gone":
            raise ToolFailure("unknown_tool", "it is gone")
        return len(self.calls)

    async def close(self): ...


def test_a_recording_is_read_from_the_log_of_every_store(disk):
    async def act(task, ctx):
        await asyncio.gather(*(ctx.call("a:b", {"n": at % 2}) for at in range(4)))
        try:
            await ctx.call("a:gone", {})
        except ToolFailure:
            return "done"

    async def run():
        tools = Live()
        agent = FunctionAgent(act, tools=("a:b", "a:gone"))
        async with eval_host(agent, disk, tools=tools) as hosted:
            run = await hosted.run(suite_of(golden("t", "done"), golden("u", "done")), record=True)
            for order in (["t", "u"], ["u", "t"]):  # of the suite, whichever ended first
                assert [*(await recorded_fixtures(hosted.store, run, order)).tasks] == order
            return tools, await recorded_fixtures(hosted.store, run, {"t"})

    tools, found = asyncio.run(run())
    assert len(tools.calls) == 10
    assert (set(found.tasks), found.left_out) == ({"t"}, (("a:gone", "unknown_tool"),))
    rules = found.tasks["t"]
    assert [(one["match"]["arguments"]["n"], one.get("call")) for one in rules] == [
        (0, 1),
        (0, None),
        (1, 1),
        (1, None),
    ]
    assert json.dumps(rules) == json.dumps(
        yaml.safe_load(found.as_yaml())["x-assay"]["tasks"]["t"]["fixtures"]
    )


def test_the_library_refuses_a_file_that_exists(tmp_path):
    (tmp_path / "f.yaml").write_text("")
    with pytest.raises(UsageError, match=r"record .*: expected a new file"):
        asyncio.run(library.run_suite(suite_of(golden("t", 1)), replays, record=str(tmp_path / "f.yaml")))
    with pytest.raises(InvalidRequest, match="fixtures: expected the member x-assay alone"):
        asyncio.run(library.run_suite(suite_of(golden("t", 1)), replays, fixtures={"tasks": []}))
