from typing import TypedDict

from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

import assay
from assay.errors import Refusal
from support.agents.frameworks.contract import raised_by, suite_of, talk_of, waits_for_a_person
from support.agents.frameworks.kits.tools import TOOLS, orders
from support.models.scripted_chat import MODEL


def make(url, output=None, *, model=MODEL, checkpointer=True, **members):
    """An agent with a memory: without a conversation of its own for each run, it knows what came before."""
    client = ChatOpenAI(model=model, base_url=url, api_key="none")
    return create_agent(
        client,
        list(TOOLS),
        system_prompt="You help customers.",
        response_format=output,
        checkpointer=InMemorySaver() if checkpointer else None,
        name="support",
        **members,
    )


class Seen(TypedDict):
    tasks: list[str]
    text: str


def graph_of(**options):
    """A graph without messages: what it knows of earlier turns is in its checkpoints."""
    graph = StateGraph(Seen)
    graph.add_node("count", lambda state: {"tasks": [*state.get("tasks", []), state["text"]]})
    graph.add_edge(START, "count")
    graph.add_edge("count", END)
    return graph.compile(**options)


async def a_conversation_without_checkpoints_is_in_its_messages(kit):
    agent = kit.make(checkpointer=False)
    result = await assay.run_suite(talk_of("say hello", "count", expected="2"), agent, trials=2)
    assert result.passed, result


async def a_graph_without_messages_talks_by_its_checkpoints_or_is_refused(kit):
    talk = talk_of({"text": "a"}, {"text": "b"}, expected="")
    talk["tasks"][0]["expected"]["match"] = {
        "strategy": "json-match",
        "value": {"tasks": ["a", "b"], "text": "b"},
    }
    result = await assay.run_suite(talk, graph_of(checkpointer=InMemorySaver()), trials=2)
    assert result.passed, result
    assert "compile it with a checkpointer" in await raised_by(assay.run_suite(talk, graph_of()), Refusal)
    refused = await raised_by(assay.run_suite(talk, RunnableLambda(len)), Refusal)
    assert (
        "agent: tasks with turns need an agent that continues a conversation: this runnable is no graph"
        in refused
    )


async def a_graph_that_interrupts_escalates(kit):
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [("user", interrupt("really?"))]})
    graph.add_node("agent", kit.make(checkpointer=False))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "agent")
    await waits_for_a_person(kit, graph.compile(checkpointer=InMemorySaver()), "a", "really?")


async def a_tool_node_of_an_old_release_is_refused(kit):
    node = ToolNode([orders])
    node.__dict__.pop("_awrap_tool_call", None)
    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    refused = await raised_by(assay.run_suite(suite_of(("a", "")), graph.compile()), Refusal)
    assert "install langgraph-prebuilt 1.0.2 or newer" in refused


async def a_graph_that_is_not_compiled_is_refused(kit):
    graph = StateGraph(Seen)
    refused = await raised_by(assay.run_suite(suite_of(("a", "")), graph), Refusal)
    assert "a StateGraph is no agent before it is compiled: give graph.compile()" in refused


ROWS = {
    "a graph that interrupts escalates": a_graph_that_interrupts_escalates,
    "a tool node of an old release is refused": a_tool_node_of_an_old_release_is_refused,
    "a graph that is not compiled is refused": a_graph_that_is_not_compiled_is_refused,
    "a conversation without checkpoints is in its messages": a_conversation_without_checkpoints_is_in_its_messages,
    "a graph without messages talks by its checkpoints or is refused": (
        a_graph_without_messages_talks_by_its_checkpoints_or_is_refused
    ),
}
