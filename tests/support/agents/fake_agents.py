"""Agents that do as their task says, one for each kind: what the contract of agents is put to."""

import asyncio
import json
import sys
import threading
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web

from assay.backends.agents.callable import CallableAgent
from assay.backends.agents.command import CommandAgent
from assay.backends.agents.http import HttpAgent
from assay.backends.agents.manifest import ManifestAgent
from assay.backends.agents.recorded import RecordedAgent
from assay.errors import ForeignFault
from assay.ports import Completion, CompletionRequest, ToolCall
from assay.ports.agents import AgentRefusal, ToolFailure
from assay.protocol.agents import AgentCard, MemoryShape

USED = {"provider": "acme", "model": "m-1", "inputTokens": 3, "outputTokens": 4, "costUsd": 0.5}
LET_GO = threading.Event()


def card(kind: str, **more: Any) -> AgentCard:
    return AgentCard(agent_id=f"local.test.{kind}", kind=kind, tools=("shop:orders", "shop:lost"), **more)


def plain(task, ctx):
    match task["do"]:
        case "say":
            return task["value"]
        case "tool":
            try:
                return ctx.tool(task["tool"], **task["arguments"])
            except ToolFailure as failure:
                return failure.code
        case "remember":
            ctx.memory.write("seen", tags=["t"])
            return [entry.content for entry in ctx.memory.list()]
        case "use":
            ctx.reason("because")
            ctx.usage(provider="acme", model="m-1", input_tokens=3, output_tokens=4, cost_usd=0.5)
            return "used"
        case "refuse":
            raise AgentRefusal("not that")
        case "hang":
            LET_GO.wait(60)
            return ctx.reason("too late")
        case "nonsense":
            return object()
        case _:
            raise ValueError("bad day")


async def waiting(task, ctx):
    match task["do"]:
        case "tool":
            try:
                return await ctx.tool(task["tool"], **task["arguments"])
            except ToolFailure as failure:
                return failure.code
        case "remember":
            await ctx.memory.write("seen", tags=["t"])
            return [entry.content for entry in await ctx.memory.list()]
        case "hang":
            return await asyncio.sleep(3600)
        case _:
            return plain(task, ctx)


# over HTTP


SEEN = web.AppKey("seen", list)


async def endpoint(request):  # noqa: C901  # one case an act
    asked = await request.json()
    task = asked["task"]

    async def call(frame):
        async with ClientSession() as session, session.post(asked["callback"], json=frame) as response:
            return await response.json()

    match task["do"]:
        case "say":
            reply: Any = {"result": task["value"]}
        case "tool":
            answer = await call({"type": "tool", "tool": task["tool"], "arguments": task["arguments"]})
            reply = {"result": answer["result"] if "result" in answer else answer["error"]["code"]}
        case "remember":
            await call({"type": "memory.write", "content": "seen", "tags": ["t"]})
            entries = (await call({"type": "memory.list"}))["result"]
            reply = {"result": [entry["content"] for entry in entries]}
        case "use":
            reply = {"result": "used", "usage": USED, "reasoning": "because"}
        case "refuse":
            reply = {"refused": "not that"}
        case "hang":
            await asyncio.sleep(3600)
            reply = None
        case "nonsense":
            return web.Response(text="<html>")
        case "status":
            return web.Response(status=task["status"], text=task.get("text", ""), headers=task.get("headers"))
        case "once":  # throttled the first time
            seen = request.app[SEEN]
            seen.append(asked["invocationId"])
            if seen.count(asked["invocationId"]) < 2:
                return web.Response(status=429, headers={"Retry-After": "0"})
            reply = {"result": "at last"}
        case "where":
            reply = {"result": {name: asked.get(name) for name in ("callback", "tools", "memory")}}
        case "as-is":
            reply = task["reply"]
        case _:
            reply = {"error": {"code": "x", "message": "ValueError: bad day"}}
    return web.json_response(reply)


@asynccontextmanager
async def serving():
    app = web.Application()
    app[SEEN] = []
    app.router.add_post("/agent", endpoint)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/agent"
    finally:
        await runner.cleanup()


# as a command

COMMAND = """
import json, sys, time, os, subprocess
def send(**frame): print(json.dumps(frame), flush=True)
def ask(**frame):
    send(**frame)
    return json.loads(sys.stdin.readline())
first = json.loads(sys.stdin.readline())
task = first["task"]
do = task["do"]
if do == "say": send(type="result", result=task["value"])
elif do == "tool":
    answer = ask(type="tool", id=7, tool=task["tool"], arguments=task["arguments"])
    assert answer["type"] == "answer" and answer["id"] == 7
    send(type="result", result=answer["result"] if "result" in answer else answer["error"]["code"])
elif do == "remember":
    ask(type="memory.write", content="seen", tags=["t"])
    send(type="result", result=[entry["content"] for entry in ask(type="memory.list")["result"]])
elif do == "use":
    send(type="reason", text="because")
    send(type="usage", provider="acme", model="m-1", inputTokens=3, outputTokens=4, costUsd=0.5)
    send(type="result", result="used")
elif do == "refuse": send(type="result", refused="not that")
elif do == "hang": time.sleep(60)
elif do == "family":
    child = subprocess.Popen(["sleep", "60"])
    open(task["file"], "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(60)
elif do == "nonsense": print("hello")
elif do == "noisy":
    sys.stderr.write("x" * 500_000 + "the end")
    sys.exit(3)
elif do == "first": send(type="result", result=first)
elif do == "frame": send(**task["frame"])
else: send(type="error", message="ValueError: bad day")
"""


# on a model


class Model:
    """Does as the user's message says, by tools where there are any."""

    async def complete(self, request: CompletionRequest) -> Completion:  # noqa: C901  # one case an act
        task = json.loads(next(message.content for message in request.messages if message.role == "user"))
        answers = [message.content for message in request.messages if message.role == "tool"]
        fields: dict[str, Any] = {"value": None, "text": ""}
        match task["do"]:
            case "say":
                fields = {"value": task["value"]}
            case "tool" if not answers:
                call = ToolCall(id="c", tool=task["tool"], arguments=task["arguments"])
                fields = {"tool_calls": (call,)}
            case "tool":
                answer = json.loads(answers[-1])
                failed = isinstance(answer, dict) and "error" in answer
                fields = {"value": answer["error"]["code"] if failed else answer}
            case "remember" if not answers:
                call = ToolCall(id="c", tool="memory:write", arguments={"content": "seen", "tags": ["t"]})
                fields = {"tool_calls": (call,)}
            case "remember":
                remembered = request.messages[0].content.partition("What you remember:\n")[2]
                fields = {"value": [line.removeprefix("- ") for line in remembered.splitlines()]}
            case "use" if not answers:
                call = ToolCall(id="c", tool="shop:secret")  # refused, and no trace of it
                fields = {"text": "because", "tool_calls": (call,)}
            case "use":
                fields = {"value": "used"}
            case "refuse":
                fields = {"refusal": "not that"}
            case "hang":
                await asyncio.sleep(3600)
            case "nonsense":
                fields = {"problem": "is no JSON"}
            case "cut":
                fields = {"finish_reason": "length"}
            case "again":
                fields = {"tool_calls": (ToolCall(id="c", tool="shop:orders", arguments={}),)}
            case "garbled" if not answers:
                fields = {"tool_calls": (ToolCall(id="c", tool="shop:orders", problem="is no JSON"),)}
            case "garbled":
                fields = {"value": json.loads(answers[-1])["error"]["code"]}
            case "down":
                raise ForeignFault("answered 401")
            case _:
                fields = {"problem": "is no JSON: bad day"}
        used = {"input_tokens": 3, "output_tokens": 4, "cost_usd": 0.5} if task["do"] == "use" else {}
        known = {"text": "", "finish_reason": "stop", "model": "m-1", "provider": "acme"}
        return Completion(**known | used | fields)

    async def close(self): ...


ANYTHING = {"description": "anything"}


def on_model(**more):
    agent_card = card("manifest", memory=MemoryShape(longTerm=True), return_schema=ANYTHING)
    return ManifestAgent(
        agent_card,
        "You are an agent.",
        lambda tuning: (Model(), CompletionRequest(messages=(), model=tuning.model or "m-1")),
        **more,
    )


RECORDS = [
    {"input": {"do": "say", "value": [1, "é", None]}, "result": [1, "é", None]},
    {"taskId": "by-id", "result": "by its id"},
    {"input": {"do": "use"}, "result": "used", "usage": [USED], "reasoning": ["because"]},
    {"input": {"do": "refuse"}, "refused": "not that"},
    {"input": {"do": "raise"}, "error": "ValueError: bad day"},
    {"input": {"do": "nonsense"}, "resolt": 1},
]

KINDS = ("plain", "waiting", "http", "command", "manifest", "recorded")
ACTS = {kind: {"say", "use", "refuse", "raise", "nonsense"} for kind in KINDS}
for kind in KINDS[:-1]:
    ACTS[kind] |= {"tool", "remember", "hang"}


@asynccontextmanager
async def acting(kind, folder):
    """An agent of the kind that does as its task says."""
    match kind:
        case "plain" | "waiting":
            yield CallableAgent(card("callable"), plain if kind == "plain" else waiting)
        case "http":
            async with serving() as url:
                agent = HttpAgent(card("http"), url, wait=0.001)
                yield agent
                await agent.close()
        case "command":
            yield command(folder)
        case "manifest":
            yield on_model()
        case _:
            file = folder / "answers.jsonl"
            file.write_text("\n".join(map(json.dumps, RECORDS)))
            yield RecordedAgent(card("recorded", takes_tools=False, takes_memory=False), str(file))


def command(folder, **more):
    (folder / "agent.py").write_text(COMMAND)
    return CommandAgent(card("command"), f"{sys.executable} -I -S '{folder / 'agent.py'}'", **more)
