"""An agent of Strands: `assay run suite.yaml --agent strands_bot:agent`."""

import local_model
from strands import Agent, tool
from strands.models.openai import OpenAIModel


@tool
def orders(number: int) -> dict:
    """The order with this number."""
    raise RuntimeError("there is no database here: a fixture answers")


client = {"base_url": local_model.URL, "api_key": local_model.KEY}
model = OpenAIModel(client_args=client, model_id=local_model.NAME)
agent = Agent(model, tools=[orders], system_prompt="You help customers.")
