from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import assay
from support.agents.frameworks.contract import suite_of, waits_for_a_person
from support.agents.frameworks.kits.tools import TOOLS, orders
from support.models.scripted_chat import MODEL


def make(url, output=str, *, model=MODEL, tools=TOOLS):
    client = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key="none"))
    return Agent(client, name="support", tools=tools, output_type=output, instructions="You help customers.")


async def a_run_that_waits_for_an_approval_escalates(kit):
    tools = [Tool(orders, requires_approval=True)]
    agent = kit.make(output=[str, DeferredToolRequests], tools=tools)
    await waits_for_a_person(kit, agent, 'call orders {"customer": 17}', "orders")


async def the_method_that_runs_an_agent_is_the_agent(kit):
    agent = kit.make()
    for one in (agent.run, agent.run_sync):
        fixture = [{"tool": "orders", "response": {"state": "lost"}}]
        result = await assay.run_suite(suite_of(('call orders {"customer": 17}', "lost", fixture)), one)
        assert result.passed, result


ROWS = {
    "a run that waits for an approval escalates": a_run_that_waits_for_an_approval_escalates,
    "the method that runs an agent is the agent": the_method_that_runs_an_agent_is_the_agent,
}
