from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL

set_tracing_disabled(True)


def make(url, output=None, **members):
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url, api_key="none"))
    return Agent(
        name="support",
        instructions="You help customers.",
        model=model,
        tools=[function_tool(tool) for tool in TOOLS],
        output_type=output,
        **members,
    )
