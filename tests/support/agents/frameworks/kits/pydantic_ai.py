from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL


def make(url, output=str, *, model=MODEL):
    client = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="none"))
    return Agent(client, name="support", tools=TOOLS, output_type=output, instructions="You help customers.")
