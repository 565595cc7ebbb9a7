from typing import TypedDict

from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

import assay
from assay.errors import Refusal
from support.agents.frameworks.contract import raised_by, talk_of
from support.agents.frameworks.kits.tools import TOOLS
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


ROWS = {
    "a conversation without checkpoints is in its messages": a_conversation_without_checkpoints_is_in_its_messages,
    "a graph without messages talks by its checkpoints or is refused": (
        a_graph_without_messages_talks_by_its_checkpoints_or_is_refused
    ),
}
