"""Sample agents and a sample suite for conformance suites (openwop-contract §10.3, §10.6), and the one of ours."""

import asyncio
import re
import secrets
from contextlib import suppress
from typing import Any

from assay.ports.agents import AgentContext, ToolFailure
from assay.protocol.agents import AgentCard, InvocationResult, Usage
from assay.protocol.json_types import JSON, is_object

SAMPLE, STRICT = "local.assay.sample", "local.assay.strict"
CONFORM, CONFORM_TOOLS = "local.assay.conform", ("conform:lookup", "conform:counter")
CHANNEL_AGENT = "core.conformance.channel-agent"
SUITE = "local.assay.evals.sample"
RELEASE = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")
STRICT_SCHEMA = "conformance-strict-handoff"
RETURN: JSON = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


class SampleAgent:
    """Returns what the task says. If the task names a tool, it tries to call it and goes on."""

    card = AgentCard(agent_id=SAMPLE, label="Sample", kind="sample", free=True, tools=())

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        document: JSON = task if is_object(task) else {"say": task}
        if "attemptTool" in document:
            with suppress(ToolFailure):  # the tool is not on its allow-list
                await context.call(str(document["attemptTool"]), {})
        return InvocationResult(outcome="completed", result=document.get("say"))

    async def close(self) -> None: ...


class StrictAgent(SampleAgent):
    """The same agent with a return schema."""

    card = AgentCard(
        agent_id=STRICT, label="Strict sample", kind="sample", free=True, tools=(), return_schema=RETURN
    )


class ChannelAgent:
    """Has any version: the conformance suite moves its channel to a new one each time (openwop-contract §10.5)."""

    versions = ("1.0.0",)

    def __init__(self, version: str = "1.0.0") -> None:
        self.card = AgentCard(agent_id=CHANNEL_AGENT, kind="sample", free=True, version=version)

    def at(self, version: str) -> "ChannelAgent | None":
        return ChannelAgent(version) if RELEASE.fullmatch(version) else None

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        return InvocationResult(outcome="completed", result={"done": True})

    async def close(self) -> None: ...


class ConformAgent:
    """The agent of `assay conform`, in any version: it does what the task says (conformance/README.md)."""

    versions = ("1.0.0",)

    def __init__(self, version: str = "1.0.0") -> None:
        self.card = AgentCard(
            agent_id=CONFORM, label="Conform", kind="sample", free=True, tools=CONFORM_TOOLS, version=version
        )

    def at(self, version: str) -> "ConformAgent | None":
        return ConformAgent(version) if RELEASE.fullmatch(version) else None

    async def invoke(self, task: Any, context: AgentContext) -> InvocationResult:
        document: JSON = task if is_object(task) else {"say": task}
        if "usd" in document:
            usage = Usage(
                provider="conform", model="none", input_tokens=3, output_tokens=2, cost_usd=document["usd"]
            )
            await context.record_usage(usage)
        await asyncio.sleep(document.get("waitMs", 0) / 1000)
        if document.get("fail"):
            return InvocationResult(outcome="failed", error="the task says so")
        if document.get("refuse"):
            return InvocationResult(outcome="refused", error="the task says so")
        if "call" in document:
            result: Any = [await _answer(context, document["call"]) for _ in range(document.get("times", 1))]
        elif document.get("recall"):
            result = sorted(entry.content for entry in await context.memory.list())
        elif document.get("random"):
            result = secrets.token_hex(8)
        else:
            result = document.get("say")
        return InvocationResult(outcome="completed", result=result)

    async def close(self) -> None: ...


async def _answer(context: AgentContext, tool: str) -> Any:
    """The answer of the tool, or `error`."""
    try:
        return await context.call(tool, {})
    except ToolFailure:
        return "error"


SAMPLES = (SampleAgent(), StrictAgent(), ChannelAgent(), ConformAgent())


def sample_suite(tasks: int = 2) -> JSON:
    """A suite of golden tasks. Each number of tasks has a version of its own."""
    return {
        "suiteId": SUITE,
        "version": f"1.0.{tasks - 2}" if tasks >= 2 else "0.9.0",
        "modes": ["golden"],
        "tasks": [
            _task(f"say-{at + 1}", {"say": f"answer {at + 1}"}, f"answer {at + 1}") for at in range(tasks)
        ],
    }


def channel_suite() -> JSON:
    """A suite that every version of the channel agent passes."""
    task = _task("done", {}, {"done": True})
    return {"suiteId": f"{SUITE}-channel", "version": "1.0.0", "modes": ["golden"], "tasks": [task]}


def invocation_suite(name: str, answer: Any, attempt: str | None) -> JSON:
    """A suite with one task, for one invocation."""
    document: JSON = {"say": answer} | ({} if attempt is None else {"attemptTool": attempt})
    task = _task("invoke", document, answer)
    return {"suiteId": f"local.assay.evals.{name}", "version": "1.0.0", "modes": ["golden"], "tasks": [task]}


def _task(id: str, document: JSON, expected: Any) -> JSON:
    match = {"strategy": "json-match", "value": expected}
    return {"taskId": id, "input": document, "expected": {"kind": "golden", "match": match}}
