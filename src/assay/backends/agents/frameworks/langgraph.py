"""
Graphs of LangGraph, with the agents of LangChain, and other runnables of LangChain.

Callbacks see model calls. Fixtures answer the tools of each ToolNode, in a copy of the graph. A tool that a node calls
itself is seen by the callbacks too; without live tools they stop it before it runs.
"""

import asyncio
import copy
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
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
from assay.backends.agents.frameworks.addresses import address_of
from assay.backends.agents.frameworks.recognise import framework
from assay.concurrency.threads import run_foreign
from assay.protocol.json_types import JSON, is_list, is_object

BUILDER = "langgraph.graph.state.StateGraph"
OWN = ("langchain.", "langgraph.")  # modules of functions of nodes that call no tool themselves
_in_tool_node: ContextVar[bool] = ContextVar("in_tool_node", default=False)


class LangGraph(Adapter):
    framework = "langgraph"
    classes = (
        "langgraph.pregel.main.Pregel",
        "langchain_core.runnables.base.Runnable",
        BUILDER,
    )
    capabilities = Capabilities(
        steps=True, tool_calls=True, usage=True, cost=True, cancel=True, fixtures=True, multi_turn=True
    )

    def problem(self, agent: Any, options: Mapping[str, Any]) -> str:
        if not hasattr(agent, "ainvoke"):
            return "a StateGraph is no agent before it is compiled: give graph.compile()"
        tool_nodes = [bound for _, bound in _nodes(agent) if hasattr(bound, "tools_by_name")]
        if all(hasattr(node, "_awrap_tool_call") for node in tool_nodes):
            return ""
        return "its ToolNode cannot be wrapped: install langgraph-prebuilt 1.0.2 or newer"

    def tools(self, agent: Any) -> OwnTools:
        if not hasattr(agent, "ainvoke"):
            return OwnTools(complete=False)  # it is not compiled
        names: set[str] = set()
        functions: set[str] = set()
        for name, bound in _nodes(agent):
            if hasattr(bound, "tools_by_name"):
                names |= set(bound.tools_by_name)
            elif not _is_own(bound):
                functions.add(name)
        who = "the node {} is a function" if len(functions) == 1 else "the nodes {} are functions"
        others = (
            who.format(", ".join(sorted(functions)))
            + " of the graph's own, and fixtures cannot answer a tool that such a function calls; use a ToolNode for it"
        )
        return OwnTools(frozenset(names), others=others if functions else "")

    def conversation(self, agent: Any, options: Mapping[str, Any]) -> str:
        return "its store is shared by all conversations" if getattr(agent, "store", None) is not None else ""

    def single_turn(self, agent: Any, options: Mapping[str, Any]) -> str:
        channels = getattr(agent, "channels", None)
        if channels is None:
            return "this runnable is no graph; give a graph with messages, such as `create_agent` makes"
        if "messages" not in channels and getattr(agent, "checkpointer", None) is None:
            return "this graph has no `messages` and no checkpointer; compile it with a checkpointer"
        return ""

    async def run(self, agent: Any, task: Any, session: Session) -> Any:
        thread = session.history = session.history or Thread()
        graph = _with_tools(agent, session, thread) if hasattr(agent, "nodes") else agent
        options = dict(session.options)
        config: JSON = dict(options.pop("config", None) or {})
        config["callbacks"] = [*(config.get("callbacks") or ()), _callbacks()(session)]
        if getattr(graph, "checkpointer", None) is not None:
            config["configurable"] = {**(config.get("configurable") or {}), "thread_id": thread.id}
        answer = await graph.ainvoke(_input(graph, task, thread.messages), config, **options)
        if getattr(graph, "checkpointer", None) is None and is_object(answer):
            thread.messages = answer.get("messages") or []
        if is_object(answer) and (interrupts := answer.get("__interrupt__")):
            return waiting_for(getattr(one, "value", None) for one in interrupts)
        return _output(answer)


class Thread:
    """A conversation with a graph: its checkpoints if the graph has some, else the messages of its state."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.messages: list[Any] = []
        self._savers: dict[int, Any] = {}

    def saver(self, original: Any) -> Any:
        """The checkpoints of this conversation, in the place of those of the graph."""
        if id(original) not in self._savers:
            self._savers[id(original)] = framework("langgraph.checkpoint.memory").InMemorySaver()
        return self._savers[id(original)]


def _nodes(graph: Any) -> list[tuple[str, Any]]:
    """The name and the runnable of each node, also of graphs that are nodes."""
    found: list[tuple[str, Any]] = []
    for name, node in getattr(graph, "nodes", {}).items():
        bound = node.bound
        found += _nodes(bound) if hasattr(bound, "nodes") else [(name, bound)] if name != "__start__" else []
    return found


def _is_own(bound: Any) -> bool:
    function = getattr(bound, "afunc", None) or getattr(bound, "func", None)
    return str(getattr(function, "__module__", "")).startswith(OWN)


def _with_tools(graph: Any, session: Session, thread: Thread) -> Any:
    """A copy of the graph whose tools report their calls. It remembers nothing of other runs."""
    nodes = {
        name: node.copy({"bound": _bound(node.bound, session, thread)}) for name, node in graph.nodes.items()
    }
    changes: JSON = {"nodes": nodes}
    if graph.checkpointer not in (None, True, False):
        changes["checkpointer"] = thread.saver(graph.checkpointer)
    return graph.copy(changes)


def _bound(bound: Any, session: Session, thread: Thread) -> Any:
    if hasattr(bound, "nodes"):
        return _with_tools(bound, session, thread)
    if not hasattr(bound, "tools_by_name"):
        return bound
    made = copy.copy(bound)
    made.func, made.afunc = made._func, made._afunc  # they are methods of the original
    wrap, awrap = bound._wrap_tool_call, bound._awrap_tool_call

    async def call_async(request: Any, execute: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        def execute_in_thread(one: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(execute(one), session.loop).result()

        async def run() -> Any:
            if awrap is not None:
                return await awrap(request, execute)
            if wrap is not None:
                return await run_foreign(lambda: wrap(request, execute_in_thread))
            return await execute(request)

        return await _call(request.tool_call, run, session)

    made._awrap_tool_call = call_async
    return made


async def _call(call: Any, run: Callable[[], Awaitable[Any]], session: Session) -> Any:
    """The message that answers a call."""
    messages: list[Any] = []

    async def live() -> Any:
        token = _in_tool_node.set(True)
        try:
            messages.append(await run())
        finally:
            _in_tool_node.reset(token)
        if getattr(messages[0], "status", "") == "error":
            raise ToolError(messages[0].text)
        return _decoded(getattr(messages[0], "content", messages[0]))

    try:
        answer = await session.tool(call["name"], call["args"], live)
    except ToolError:
        return messages[0]  # the framework has caught the exception of the tool
    if messages:
        return messages[0]
    text = answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
    return framework("langchain_core.messages").ToolMessage(text, name=call["name"], tool_call_id=call["id"])


class ToolError(Exception):
    """A tool failed, and the framework tells the model."""


class Recording:
    """The callbacks of a run."""

    run_inline = True  # on the event loop, in order
    raise_error = True

    def __init__(self, session: Session) -> None:
        self._session = session
        self._running: dict[Any, asyncio.Future[Any]] = {}
        self._members: dict[Any, JSON] = {}  # of the models that are asked

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **_: Any) -> None:
        about: JSON = serialized or {}
        self._members[run_id] = about.get("kwargs") or {}

    on_llm_start = on_chat_model_start

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._members.pop(run_id, None)

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        message = getattr(response.generations[0][0], "message", None)
        usage: JSON = getattr(message, "usage_metadata", None) or {}
        about: JSON = getattr(message, "response_metadata", None) or {}
        details: JSON = usage.get("input_token_details") or {}
        provider = str(about.get("model_provider") or "")
        url = address_of(provider, self._members.pop(run_id, {}))
        self._session.usage(
            ModelName(provider, str(about.get("model_name") or ""), url),
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            details.get("cache_read") or 0,
        )

    def on_tool_start(
        self, serialized: Any, input_str: str, *, run_id: Any, inputs: Any = None, **_: Any
    ) -> None:
        if _in_tool_node.get():
            return
        about: JSON = serialized or {}
        name = str(about.get("name") or "tool")
        self._running[run_id] = self._session.observe(
            name, inputs if is_object(inputs) else {"input": input_str}
        )

    def on_tool_end(self, output: Any, *, run_id: Any, **_: Any) -> None:
        if (running := self._running.pop(run_id, None)) is not None:
            self._session.end(running, _decoded(getattr(output, "content", output)))

    def on_tool_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        if (running := self._running.pop(run_id, None)) is not None:
            self._session.end(running, error)


@cache
def _callbacks() -> Any:
    """The class of the callbacks."""
    base: Any = framework("langchain_core.callbacks").BaseCallbackHandler
    return type("Recorder", (Recording, base), {})


def _decoded(content: Any) -> Any:
    """The value that a tool returned, out of its message: an object or a list comes as its JSON."""
    if isinstance(content, str) and content[:1] in ("{", "["):
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError:
            return content
    return content


def _input(graph: Any, task: Any, before: list[Any]) -> Any:
    """A state as it is; any other task as a message of the user after those before, if the state has messages."""
    channels = getattr(graph, "channels", None)
    if channels is None:
        return task if isinstance(task, str) or is_list(task) or is_object(task) else text_of(task)
    if "messages" not in channels or (is_object(task) and task and set(task) <= set(channels)):
        return task
    return {"messages": [*before, {"role": "user", "content": text_of(task)}]}


def _output(answer: Any) -> Any:
    """The structured response of a state, or the text of its last message, or the state."""
    if is_object(answer):
        if answer.get("structured_response") is not None:
            return answer["structured_response"]
        messages = answer.get("messages")
        if not is_list(messages) or not messages:
            return answer
        answer = messages[-1]
    return answer.text if hasattr(answer, "usage_metadata") or hasattr(answer, "tool_call_id") else answer
