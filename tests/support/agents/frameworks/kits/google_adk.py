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


def many(customer: int) -> bool:
    return customer > 9


async def many_soon(customer: int) -> bool:
    return many(customer)


async def a_tool_that_a_person_confirms_for_some_arguments_escalates_for_them(kit):
    for condition in (many, many_soon):
        agent = kit.make(tools=[FunctionTool(orders, require_confirmation=condition)])
        await waits_for_a_person(kit, agent, 'call orders {"customer": 17}', "orders")
        fixture = {"tool": "orders", "response": {"state": "lost"}}
        result = await kit.run(('call orders {"customer": 3}', "lost", [fixture]), agent=agent)
        assert result.passed, result


ROWS = {
    "a tool that a person answers escalates": a_tool_that_a_person_answers_escalates,
    "a tool that a person confirms for some arguments escalates for them": (
        a_tool_that_a_person_confirms_for_some_arguments_escalates_for_them
    ),
}
