"""An agent of smolagents: `assay run suite.yaml --agent smolagents_bot:agent`."""

import local_model
from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def orders(number: int) -> dict:
    """The order with this number.

    Args:
        number: the number of the order
    """
    raise RuntimeError("there is no database here: a fixture answers")


model = OpenAIServerModel(local_model.NAME, api_base=local_model.URL, api_key=local_model.KEY)
agent = ToolCallingAgent([orders], model, max_steps=4)
