import litellm
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from pydantic import BaseModel

from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL

litellm.suppress_debug_info = True  # it prints


class Order(BaseModel):
    state: str
    number: int


def make(url, output=None, *, model=MODEL):
    client = LiteLlm(f"openai/{model}", api_base=url, api_key="none")
    return LlmAgent(
        name="support",
        model=client,
        instruction="You help customers.",
        tools=list(TOOLS),
        output_schema=Order if output else None,
    )
