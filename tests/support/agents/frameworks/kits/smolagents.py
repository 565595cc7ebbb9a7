from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL


def make(url, output=None):
    """An agent with a memory: its messages stay, unless a run begins anew."""
    model = OpenAIServerModel(MODEL, api_base=url, api_key="none")
    agent = ToolCallingAgent([tool(one) for one in TOOLS], model, name="support", max_steps=3)
    agent.memory.steps.append("a step of an earlier run")
    return agent
