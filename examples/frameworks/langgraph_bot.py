"""An agent of LangChain, which is a graph of LangGraph: `assay run suite.yaml --agent langgraph_bot:agent`."""

import local_model
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


def orders(number: int) -> dict:
    """The order with this number."""
    raise RuntimeError("there is no database here: a fixture answers")


model = ChatOpenAI(model=local_model.NAME, base_url=local_model.URL, api_key=local_model.KEY)
agent = create_agent(model, [orders], system_prompt="You help customers.", checkpointer=InMemorySaver())
