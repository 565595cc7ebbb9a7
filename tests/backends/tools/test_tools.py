"""What every live tool promises, whatever it is: an answer as JSON, or a ToolFailure with a code."""

import asyncio
import contextlib
import shlex
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest
from aiohttp import web

from assay.agents.invocation import Invocation, invoke
from assay.backends.agents.command import CommandAgent
from assay.backends.agents.http import HttpAgent
from assay.backends.tools.from_settings import ConfiguredTools
from assay.errors import ForeignFault, UsageError
from assay.ports.agents import ToolFailure
from assay.ports.config import McpServer, ToolConfig
from assay.ports.telemetry import trace_context
from assay.protocol.agents import AgentCard
from support.agents import tool_servers
from support.runner import forkserver
from support.servers.thread_server import served_in_thread
from support.waiting import PATIENCE

pytestmark = pytest.mark.anyio
KINDS = ("python", "waiting", "http", "get", "stdio", "mcp-http")


async def endpoint(request):
    arguments = dict(request.query) if request.method == "GET" else await request.json()
    name = request.match_info["name"]
    if name == "slow":
        await asyncio.sleep(3600)
    if name.isdigit():
        return web.Response(status=int(name), text="no such customer")
    if name == "trace":
        return web.json_response(request.headers.get("traceparent", ""))
    if name == "agent":
        return web.json_response({"result": request.headers.get("traceparent", "")})
    if name.startswith("echo"):
        key = request.headers["Authorization"].removeprefix("Bearer ")
        status = int(name.removeprefix("echo") or 200)
        return web.json_response({"result": f"a unit test with {key}", key: [key]}, status=status)
    if name == "text":
        return web.Response(text="plain words")
    customer = int(arguments["customer"])
    if request.headers.get("X-Key") != "k-1":
        return web.Response(status=403)
    return web.json_response([{"customer": customer, "state": arguments.get("state", "sent")}])


@contextlib.asynccontextmanager
async def serving():
    """The address of the HTTP endpoint."""
    app = web.Application()
    app.router.add_route("*", "/{name}", endpoint)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture(scope="module")
def address():
    with served_in_thread(serving()) as address:
        yield address


@pytest.fixture(scope="module")
def mcp_url():
    """The MCP server over streamable HTTP, as a process."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, tool_servers.__file__, "--port", str(port)], stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def box_of(kind, address, mcp_url):
    """One toolbox for a kind, where `shop:orders` answers and `shop:broken` fails."""
    headers = {"X-Key": "${SHOP_KEY}"}
    servers = {}
    match kind:
        case "python" | "waiting":
            targets = {"orders": f"support.agents.tool_servers:{'orders' if kind == 'python' else 'waiting'}"}
            tools = {
                name: {"kind": "python", "target": f"support.agents.tool_servers:{name}"}
                for name in ("broken", "odd", "slow")
            }
            tools = {"orders": {"kind": "python", "target": targets["orders"]}, **tools}
        case "http" | "get":
            method = {"method": "GET" if kind == "get" else "POST"}
            at = {"orders": "orders", "broken": "500", "slow": "slow", "trace": "trace"}
            tools = {
                name: {"kind": "http", "target": f"{address}/{to}", "headers": headers, **method}
                for name, to in at.items()
            }
        case _:
            tools = {}
            command = f"{forkserver.python()} {tool_servers.__file__}"
            where = {"command": command} if kind == "stdio" else {"url": mcp_url}
            servers["shop"] = McpServer(**where, timeout=PATIENCE)
            tools["slow"] = {"kind": "mcp", "server": "shop", "target": "dawdle"}
    quick = {"slow": {"timeout": 0.05}}
    declared = {f"shop:{name}": ToolConfig(**tool, **quick.get(name, {})) for name, tool in tools.items()}
    return ConfiguredTools(declared, servers, {"SHOP_KEY": "k-1"})


@pytest.fixture(params=KINDS)
async def box(request, address, mcp_url):
    box = box_of(request.param, address, mcp_url)
    yield box
    await box.close()


@pytest.mark.parametrize("box", ["http", "get", "stdio", "mcp-http"], indirect=True)
async def test_a_call_to_another_host_carries_the_trace_of_its_run(box):
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    assert await box.call("shop:trace", {}) == ""
    with trace_context(parent):
        assert await box.call("shop:trace", {}) == parent
    with trace_context("anything else"):
        assert await box.call("shop:trace", {}) == ""


async def test_a_request_to_an_agent_carries_the_trace_of_its_run(address):
    agent = HttpAgent(AgentCard(agent_id="local.tests.traced"), f"{address}/agent")
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with trace_context(parent):
        finish = await invoke(agent, {}, Invocation(agent.card))
    await agent.close()
    assert finish.result == parent


async def code(call):
    with pytest.raises(ToolFailure) as caught:
        await call
    return caught.value.code


async def test_every_kind_of_tool_has_the_same_outcomes(box):
    """One test a kind: a session of MCP is opened once and serves all of it."""
    assert await box.call("shop:orders", {"customer": 17}) == [{"customer": 17, "state": "sent"}]
    assert await code(box.call("shop:broken", {"customer": 17})) == "tool_error"
    assert await code(box.call("shop:slow", {"customer": 17})) == "timeout"
    assert await code(box.call("else:orders", {})) == "unknown_tool"
    many = await asyncio.gather(*(box.call("shop:orders", {"customer": at}) for at in range(5)))
    assert [rows[0]["customer"] for rows in many] == list(range(5))
    (spec,) = await box.specs(["shop:orders", "else:orders"])
    assert spec.id == "shop:orders"
    assert (await box.call("shop:orders", {"customer": 18}))[0]["customer"] == 18


# functions


@pytest.fixture
async def python():
    box = box_of("python", "", "")
    yield box
    await box.close()


async def test_the_schema_of_a_function_is_its_signature(python):
    (spec,) = python.static_specs(["shop:orders"])
    assert spec.description == "The orders of a customer."
    assert spec.input_schema == {
        "type": "object",
        "properties": {"customer": {"type": "integer"}, "state": {"type": "string"}},
        "required": ["customer"],
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        ("shop:orders", {}, "invalid_arguments"),
        ("shop:orders", {"customer": 1, "colour": "red"}, "invalid_arguments"),
        ("shop:odd", {"customer": 1}, "tool_error"),
    ],
    ids=["missing", "unknown", "no-json"],
)
async def test_a_function_is_called_with_keywords_and_returns_json(python, tool, arguments, wanted):
    assert await code(python.call(tool, arguments)) == wanted


# addresses


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        ("400", "invalid_arguments"),
        ("422", "invalid_arguments"),
        ("401", "forbidden"),
        ("429", "rate_limited"),
        ("302", "tool_error"),
        ("503", "tool_error"),
    ],
)
async def test_the_outcome_of_each_http_status_of_a_tool(address, at, wanted):
    box = ConfiguredTools({"a:b": ToolConfig(kind="http", target=f"{address}/{at}")}, {}, {})
    assert await code(box.call("a:b", {"customer": 1})) == wanted
    await box.close()


async def test_an_endpoint_may_return_text_or_nothing(address):
    tools = {
        "a:text": ToolConfig(kind="http", target=f"{address}/text"),
        "a:gone": ToolConfig(kind="http", target="http://127.0.0.1:9/"),
    }
    box = ConfiguredTools(tools, {}, {})
    assert await box.call("a:text", {}) == "plain words"
    assert await code(box.call("a:gone", {})) == "tool_error"
    await box.close()


# MCP


async def test_a_dead_mcp_server_is_restarted(address, mcp_url):
    box = box_of("stdio", address, mcp_url)
    (spec,) = await box.specs(["shop:orders"])
    assert (spec.transport, spec.description) == ("mcp", "The orders of a customer.")
    assert spec.input_schema["required"] == ["customer"]
    assert await code(box.call("shop:die", {"customer": 1})) == "tool_error"
    assert await box.call("shop:orders", {"customer": 1}) == [{"customer": 1, "state": "sent"}]
    assert await code(box.call("shop:nothing", {})) == "unknown_tool"
    await box.close()


@pytest.mark.parametrize(
    "server",
    [
        McpServer(command="/no/such/thing"),
        McpServer(url="http://127.0.0.1:9/mcp"),
        McpServer(command=f"{sys.executable} -c pass"),
    ],
    ids=["command", "url", "silent"],
)
async def test_a_missing_mcp_server_is_a_fault_at_the_start_and_a_failure_in_a_call(server):
    box = ConfiguredTools({}, {"shop": server}, {})
    stage = Invocation(AgentCard(agent_id="local.a.b", tools=("shop:orders",)), box, live=True)
    with pytest.raises(ForeignFault, match="the MCP server could not be used"):
        await stage.open()
    assert await code(box.call("shop:orders", {})) == "tool_error"
    await box.close()


async def test_a_described_mcp_tool_starts_no_server():
    box = ConfiguredTools({}, {"shop": McpServer(command="/no/such/thing")}, {})
    assert [spec.id for spec in box.static_specs(["shop:orders", "other:x"])] == ["shop:orders"]
    await box.close()


@pytest.mark.parametrize(
    ("tools", "servers", "message"),
    [
        (
            {"a:b": {"kind": "mcp", "target": "x", "server": "none"}},
            {},
            r"tools.'a:b'.server: expected a server of \[mcp\]",
        ),
        (
            {"a:b": {"kind": "python", "target": "nowhere:f"}},
            {},
            "settings: tools.'a:b'.target: 'nowhere:f': expected code that can be loaded",
        ),
        (
            {"a:b": {"kind": "http", "target": "http://x", "headers": {"K": "${NONE}"}}},
            {},
            r"tools.'a:b'.headers.K: \$\{NONE\}",
        ),
        ({}, {"a": {}}, "mcp.a: expected exactly one of command and url"),
    ],
    ids=["server", "module", "variable", "empty"],
)
async def test_an_invalid_tool_is_refused_with_its_place(tools, servers, message):
    box = ConfiguredTools(
        {id: ToolConfig(**table) for id, table in tools.items()},
        {name: McpServer(**table) for name, table in servers.items()},
        {},
    )
    with pytest.raises(UsageError, match=message):
        box.static_specs(["a:b"])


KEY = "q7f1c9b3e5a2d8x4"


@pytest.mark.parametrize(("key", "expected"), [(KEY, "[REDACTED]"), ("test", "test"), ("1", "1")])
async def test_a_key_in_the_answer_of_a_tool_is_removed(address, key, expected):
    """Of a tool, an agent behind an address and a command; a key that is a word changes nothing."""
    headers = {"Authorization": f"Bearer {key}"}
    tools = {
        f"shop:{name}": ToolConfig(kind="http", target=f"{address}/{name}", headers=headers)
        for name in ("echo", "echo500")
    }
    box = ConfiguredTools(tools, {}, {})
    whole = {"result": f"a unit test with {expected}", expected: [expected]}
    assert await box.call("shop:echo", {}) == whole
    with pytest.raises(ToolFailure) as failed:
        await box.call("shop:echo500", {})
    assert expected in str(failed.value)
    assert KEY not in str(failed.value)
    await box.close()
    code = "import json, os; print(json.dumps({'type': 'result', 'result': 'a unit test with ' + os.environ['SHOP_KEY']}))"
    crash = "import os, sys; sys.exit('no: ' + os.environ['SHOP_KEY'])"
    plain = AgentCard(agent_id="local.test.agent", takes_tools=False, takes_memory=False)
    command = [
        CommandAgent(plain, shlex.join([sys.executable, "-I", "-S", "-c", text]), env={"SHOP_KEY": key})
        for text in (code, crash)
    ]
    finishes = [await invoke(agent, {}, Invocation(plain)) for agent in command]
    assert finishes[0].result == f"a unit test with {expected}"
    assert f"no: {expected}" in (finishes[1].error or "")
    agent = HttpAgent(plain, f"{address}/echo500", headers=headers, wait=0.001)
    answered = await invoke(agent, {}, Invocation(plain))
    await agent.close()
    assert expected in (answered.error or "")
    assert KEY not in repr([finishes, answered])
