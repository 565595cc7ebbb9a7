import functools

from pydantic_ai import Agent, DeferredToolRequests, Tool, exceptions
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import assay
from assay.api.agents import agent_from
from assay.settings import load
from support.agents.frameworks.contract import suite_of, waits_for_a_person
from support.agents.frameworks.kits.tools import TOOLS, orders
from support.models.scripted_chat import IN, MODEL


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


async def every_attempt_of_a_request_has_its_usage(kit):
    """A capability of the user may ask for another attempt: the one before was paid for too."""
    if (retry := getattr(exceptions, "RetryModelRequest", None)) is None:
        return  # a release without attempts

    class Picky(AbstractCapability):
        async def after_model_request(self, ctx, *, request_context, response):
            if len(kit.model.requests) < 2:
                raise retry
            return response

    agent = kit.make()
    _, stage = await kit.invoke(
        "say hello", agent=agent_from(functools.partial(agent.run, capabilities=[Picky()]), load({}))
    )
    used = [step.usage.input_tokens for step in stage.steps if hasattr(step, "usage")]
    assert (len(kit.model.requests), used) == (2, [IN, IN])


ROWS = {
    "every attempt of a request has its usage": every_attempt_of_a_request_has_its_usage,
    "a run that waits for an approval escalates": a_run_that_waits_for_an_approval_escalates,
    "the method that runs an agent is the agent": the_method_that_runs_an_agent_is_the_agent,
}
