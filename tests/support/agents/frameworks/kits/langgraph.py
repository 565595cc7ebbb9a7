from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL


def make(url, output=None, **members):
    """An agent with a memory: without a conversation of its own for each run, it knows what came before."""
    model = ChatOpenAI(model=MODEL, base_url=url, api_key="none")
    return create_agent(
        model,
        list(TOOLS),
        system_prompt="You help customers.",
        response_format=output,
        checkpointer=InMemorySaver(),
        name="support",
        **members,
    )
