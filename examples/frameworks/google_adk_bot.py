"""An agent of Google's ADK: `assay run suite.yaml --agent google_adk_bot:agent`."""

import local_model
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm


def orders(number: int) -> dict:
    """The order with this number."""
    raise RuntimeError("there is no database here: a fixture answers")


model = LiteLlm(f"openai/{local_model.NAME}", api_base=local_model.URL, api_key=local_model.KEY)
agent = LlmAgent(name="support", model=model, instruction="You help customers.", tools=[orders])
