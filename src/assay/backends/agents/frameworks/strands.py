"""Agents of Strands: a copy of the agent for each run, whose hooks replace its tools, and whose model reports usage."""

import ast
import copy
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from assay.backends.agents.frameworks.adapter import (
    Adapter,
    Capabilities,
    ModelName,
    OwnTools,
    Session,
    text_of,
    waiting_for,
)
from assay.backends.agents.frameworks.addresses import address_of
from assay.backends.agents.frameworks.recognise import framework
from assay.protocol.json_types import JSON, is_list, is_object

KEPT = ("_session_manager", "memory_manager")  # of an agent: they keep a conversation


class Strands(Adapter):
    framework = "strands-agents"
    classes = ("strands.agent.agent.Agent", "strands.multiagent.base.MultiAgentBase")
    capabilities = Capabilities(
        steps=True, tool_calls=True, usage=True, cost=True, cancel=True, fixtures=True, multi_turn=True
    )

    def tools(self, agent: Any) -> OwnTools:
        return OwnTools(frozenset(getattr(agent, "tool_names", ())))

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        if hasattr(agent, "tool_names"):
            return ""
        return (
            f"a {type(agent).__name__} of Strands is several agents, and assay cannot record them: give one Agent, or a"
            " function of the task and ctx that runs it"
        )

    def conversation(self, agent: Any, options: Mapping[str, Any]) -> str:
        kept = [name.lstrip("_") for name in KEPT if getattr(agent, name, None) is not None]
        return f"its {' and its '.join(kept)} keeps it" if kept else ""

    def instructions(self, agent: Any) -> str | None:
        text = getattr(agent, "system_prompt", None)
        return text if isinstance(text, str) else None

    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        made = _copy(agent, session)
        result = await made.invoke_async(text_of(task), **session.options)
        session.history = made
        if interrupts := getattr(result, "interrupts", None):
            return waiting_for(one.name for one in interrupts)
        if (structured := getattr(result, "structured_output", None)) is not None:
            return structured
        return "".join(part.get("text", "") for part in result.message["content"])


def _copy(agent: Any, session: Session) -> Any:
    """A copy with the messages and the state of the agent, which no run changes, or of the copy of the last turn."""
    made, before = copy.copy(agent), session.history or agent
    made.messages, made.state = copy.deepcopy(before.messages), type(agent.state)(before.state.get())
    made.conversation_manager = copy.deepcopy(before.conversation_manager)
    made.tool_registry = _with_own_tables(agent.tool_registry)
    made.event_loop_metrics = type(agent.event_loop_metrics)()
    if hasattr(agent, "_cancel_signal"):  # of newer releases, as what follows
        made._cancel_signal = type(agent._cancel_signal)()
    if hasattr(agent, "_interrupt_state"):
        made._interrupt_state = type(agent._interrupt_state)()
    if hasattr(agent, "tool_caller"):
        made.tool_caller = type(agent.tool_caller)(made)
    if hasattr(agent, "_concurrency"):
        made._concurrency = type(agent._concurrency)(agent._concurrency.mode)
    elif hasattr(agent, "_invocation_lock"):
        made._invocation_lock = threading.Lock()
    if hasattr(agent, "_model_state"):
        made._model_state = {} if session.history is None else copy.deepcopy(before._model_state)
    handlers = framework("strands.handlers.callback_handler")
    if isinstance(agent.callback_handler, handlers.PrintingCallbackHandler):
        made.callback_handler = handlers.null_callback_handler  # standard output is that of the command
    made.model = _model(agent.model, session)
    made.hooks = _with_own_tables(agent.hooks)

    def replace_tool(event: Any) -> None:
        if event.selected_tool is not None:
            event.selected_tool = _tool(event.selected_tool, session)

    made.hooks.add_callback(framework("strands.hooks").BeforeToolCallEvent, replace_tool)
    return made


def _with_own_tables(value: Any) -> Any:
    """A copy whose dicts and lists are its own."""
    made = copy.copy(value)
    members: JSON = dict(value.__dict__)
    for name, member in members.items():
        if is_object(member):
            setattr(made, name, {key: list(one) if is_list(one) else one for key, one in member.items()})
    return made


def _tool(tool: Any, session: Session) -> Any:
    base: Any = framework("strands.types.tools").AgentTool

    class Reporting(base):
        tool_name, tool_spec, tool_type = tool.tool_name, tool.tool_spec, tool.tool_type

        async def stream(self, tool_use: Any, invocation_state: Any, **options: Any) -> AsyncGenerator[Any]:
            events: list[Any] = []

            async def run() -> Any:
                events.extend([one async for one in tool.stream(tool_use, invocation_state, **options)])
                result = _result(events)
                if result.get("status") == "error":
                    raise ToolError(_value(result))
                return _value(result)

            try:
                answer = await session.tool(tool.tool_name, tool_use["input"], run)
            except ToolError:
                answer = None  # the framework has caught the exception of the tool
            if not events:
                content = [{"text": answer} if isinstance(answer, str) else {"json": answer}]
                events.append({"toolUseId": tool_use["toolUseId"], "status": "success", "content": content})
            for event in events:
                yield event

    return Reporting()


class ToolError(Exception):
    """A tool failed, and the framework tells the model."""


def _result(events: list[Any]) -> JSON:
    last: Any = events[-1] if events else None
    return getattr(last, "tool_result", None) or last or {}


def _value(result: JSON) -> Any:
    """The value that a tool returned. The framework has an object as its text."""
    parts: list[JSON] = result.get("content") or []
    if len(parts) != 1:
        return parts
    if "json" in parts[0]:
        return parts[0]["json"]
    text = parts[0].get("text", "")
    if text[:1] in ("{", "["):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return text


def _model(model: Any, session: Session) -> Any:
    made = copy.copy(model)
    config: JSON = model.get_config() or {}
    provider = type(model).__name__
    name = ModelName(provider, str(config.get("model_id") or ""), address_of(provider, model, config))

    async def stream(*values: Any, **named: Any) -> AsyncGenerator[Any]:
        async for event in model.stream(*values, **named):
            yield event
            if is_object(event) and is_object(about := event.get("metadata")):
                usage: JSON = about.get("usage") or {}
                cached = usage.get("cacheReadInputTokens") or 0
                session.usage(name, usage.get("inputTokens"), usage.get("outputTokens"), cached)

    made.stream = stream
    return made
