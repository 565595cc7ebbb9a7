"""An agent of pydantic-ai: `assay run suite.yaml --agent pydantic_ai_bot:agent`."""

import local_model
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url=local_model.URL, api_key=local_model.KEY)
agent = Agent(OpenAIChatModel(local_model.NAME, provider=provider), instructions="You help customers.")


@agent.tool_plain
def orders(number: int) -> dict:
    """The order with this number."""
    raise RuntimeError("there is no database here: a fixture answers")
