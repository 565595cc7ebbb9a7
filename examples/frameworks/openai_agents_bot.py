"""An agent of the OpenAI Agents SDK: `assay run suite.yaml --agent openai_agents_bot:agent`."""

import local_model
from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)  # traces go to OpenAI


@function_tool
def orders(number: int) -> dict:
    """The order with this number."""
    raise RuntimeError("there is no database here: a fixture answers")


client = AsyncOpenAI(base_url=local_model.URL, api_key=local_model.KEY)
agent = Agent(
    name="support",
    instructions="You help customers.",
    model=OpenAIChatCompletionsModel(local_model.NAME, client),
    tools=[orders],
)
