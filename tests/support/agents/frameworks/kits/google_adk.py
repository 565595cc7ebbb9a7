import litellm
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.tools import FunctionTool, LongRunningFunctionTool
from pydantic import BaseModel

from support.agents.frameworks.contract import waits_for_a_person
from support.agents.frameworks.kits.tools import TOOLS, orders
from support.models.scripted_chat import MODEL

litellm.suppress_debug_info = True  # it prints


class Order(BaseModel):
    state: str
    number: int


def make(url, output=None, *, model=MODEL, tools=TOOLS):
    client = LiteLlm(f"openai/{model}", api_base=url, api_key="none")
    return LlmAgent(
        name="support",
        model=client,
        instruction="You help customers.",
        tools=list(tools),
        output_schema=Order if output else None,
    )


async def a_tool_that_a_person_answers_escalates(kit):
    waiting = (LongRunningFunctionTool(orders), FunctionTool(orders, require_confirmation=True))
    for one in waiting:
        await waits_for_a_person(kit, kit.make(tools=[one]), 'call orders {"customer": 17}', "orders")


ROWS = {"a tool that a person answers escalates": a_tool_that_a_person_answers_escalates}
