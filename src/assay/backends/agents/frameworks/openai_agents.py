"""Agents of the OpenAI Agents SDK: copies of the agent, and of those it hands off to, whose tools report calls."""

import copy
import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from assay.backends.agents.frameworks.adapter import (
    Adapter,
    Capabilities,
    ModelName,
    OwnTools,
    Session,
    text_of,
    waiting_for,
)
from assay.backends.agents.frameworks.recognise import framework
from assay.backends.models.transport import OPENAI
from assay.protocol.foreign_values import json_of

SHARED = (
    "session",
    "conversation_id",
    "previous_response_id",
)  # options of a run that continue a conversation


class OpenAiAgents(Adapter):
    framework = "openai-agents"
    classes = ("agents.agent.Agent",)
    capabilities = Capabilities(
        steps=True, tool_calls=True, usage=True, cost=True, cancel=True, fixtures=True, multi_turn=True
    )

    def tools(self, agent: Any) -> OwnTools:
        known = framework("agents")
        names: set[str] = set()
        others: set[str] = set()
        complete = True
        for one in _agents(agent):
            names |= {tool.name for tool in one.tools if isinstance(tool, known.FunctionTool)}
            others |= {tool.name for tool in one.tools if not isinstance(tool, known.FunctionTool)}
            complete &= not one.mcp_servers and all(_target(to) is not None for to in one.handoffs)
        hosted = f"the model's provider runs {', '.join(sorted(others))}" if others else ""
        return OwnTools(frozenset(names), complete, hosted)

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        if "hooks" in options:
            return "assay needs the hooks of the run for itself: set the hooks of the agent (agent.hooks) instead"
        return ""

    def conversation(self, agent: Any, options: Mapping[str, Any]) -> str:
        shared = [name for name in SHARED if options.get(name) is not None]
        return f"its runs share {' and '.join(shared)}" if shared else ""

    def instructions(self, agent: Any) -> str | None:
        return agent.instructions if isinstance(agent.instructions, str) else None

    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        known = framework("agents")
        hooks, copies, options = _hooks()(session), _Copies(known, session), session.options
        said: Any = text_of(task)
        if session.history is not None:
            before, agent = session.history
            if options.get("previous_response_id") is not None:
                options["previous_response_id"] = before.last_response_id
            elif not any(options.get(name) is not None for name in SHARED):
                said = [*before.to_input_list(), {"role": "user", "content": said}]
        result = await known.Runner.run(copies.of(agent), said, hooks=hooks, **options)
        hooks.add_rest(result)
        session.history = result, copies.original(result.last_agent)  # who answered goes on
        if result.interruptions:
            return waiting_for(one.name for one in result.interruptions)
        return result.final_output


def _agents(agent: Any) -> list[Any]:
    """The agent, and those that it can hand off to, each once."""
    found, left = dict[int, Any](), [agent]
    while left:
        one = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            left += [to for to in map(_target, one.handoffs) if to is not None]
    return list(found.values())


def _target(to: Any) -> Any:
    """The agent of a hand-off: itself, or that of `handoff(agent)`. None: it is known when the agent runs."""
    if hasattr(to, "handoffs"):
        return to
    found = getattr(to, "_agent_ref", None)
    return None if found is None else found()


class _Copies:
    """Copies of agents for one run. Each agent is copied once, so that agents may hand off to each other."""

    def __init__(self, known: Any, session: Session) -> None:
        self._known, self._session = known, session
        self._made: dict[int, Any] = {}
        self._originals: dict[int, Any] = {}

    def original(self, made: Any) -> Any:
        """The agent of which one is the copy."""
        return self._originals.get(id(made), made)

    def of(self, agent: Any) -> Any:
        if (made := self._made.get(id(agent))) is not None:
            return made
        made = self._made[id(agent)] = copy.copy(agent)  # `clone` validates all members again
        made.tools = [self._tool(tool) for tool in agent.tools]
        made.mcp_servers = [self._server(server) for server in agent.mcp_servers]
        made.handoffs = list[Any]()
        self._made[id(made)], self._originals[id(made)] = made, agent
        made.handoffs.extend(self._hand_off(to) for to in agent.handoffs)
        return made

    def _hand_off(self, to: Any) -> Any:
        if isinstance(to, self._known.Agent):
            return self.of(to)
        find = to.on_invoke_handoff

        async def invoke(context: Any, arguments: str) -> Any:
            return self.of(await find(context, arguments))

        return dataclasses.replace(to, on_invoke_handoff=invoke)

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, self._known.FunctionTool):
            return tool  # the provider of the model runs it
        made = copy.copy(tool)
        invoker = made.on_invoke_tool
        inner = getattr(
            invoker, "_invoke_tool_impl", None
        )  # inside of what turns an exception into a message
        call = inner or invoker

        async def invoke(context: Any, arguments: str) -> Any:
            return await self._session.tool(tool.name, arguments, lambda: call(context, arguments))

        invoke.__dict__.update(getattr(call, "__dict__", {}))
        if inner is None:
            made.on_invoke_tool = invoke
        else:
            made.on_invoke_tool = copy.copy(invoker)
            made.on_invoke_tool._invoke_tool_impl = invoke
        return made

    def _server(self, server: Any) -> Any:
        """An MCP server whose tools fixtures can answer."""
        made = copy.copy(server)

        async def call_tool(name: str, arguments: Any, *rest: Any, **options: Any) -> Any:
            live: list[Any] = []

            async def run() -> Any:
                live.append(await server.call_tool(name, arguments, *rest, **options))
                return json_of(live[0])

            answer = await self._session.tool(name, arguments, run)
            if live:
                return live[0]
            types = framework("mcp.types")
            text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

        made.call_tool = call_tool
        return made


@cache
def _hooks() -> Any:
    """The class of the hooks of a run."""
    base: Any = framework("agents").RunHooks

    class Recorder(base):
        def __init__(self, session: Session) -> None:
            self._session = session
            self._agent: Any = None
            self._sent = self._received = 0

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            self._agent = agent
            for one in response.usage.request_usage_entries or [response.usage]:
                self._record(one)

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            self._session.hand_off(to_agent.name)

        def add_rest(self, result: Any) -> None:
            """The usage of agents that are tools: the hooks of their runs are their own."""
            total = result.context_wrapper.usage
            sent, received = total.input_tokens - self._sent, total.output_tokens - self._received
            if sent > 0 or received > 0:
                self._session.usage(_model(self._agent), sent, received)

        def _record(self, usage: Any) -> None:
            self._sent += usage.input_tokens
            self._received += usage.output_tokens
            cached = getattr(usage.input_tokens_details, "cached_tokens", 0) or 0
            self._session.usage(_model(self._agent), usage.input_tokens, usage.output_tokens, cached)

    return Recorder


def _model(agent: Any) -> ModelName:
    model = None if agent is None else agent.model
    name = model if isinstance(model, str) else getattr(model, "model", None)
    client = getattr(model, "_client", None)
    url = str(getattr(client, "base_url", "")) if client is not None else OPENAI
    return ModelName("openai", str(name or ""), url)
