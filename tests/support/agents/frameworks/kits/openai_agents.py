from functools import partial

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

import assay
from assay.errors import Refusal
from support.agents.frameworks.contract import raised_by, suite_of, talk_of, waits_for_a_person
from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL

set_tracing_disabled(True)


def make(url, output=None, *, model=MODEL, **members):
    client = OpenAIChatCompletionsModel(model, AsyncOpenAI(base_url=url, api_key="none"))
    return Agent(
        name="support",
        instructions="You help customers.",
        model=client,
        tools=[function_tool(tool) for tool in TOOLS],
        output_type=output,
        **members,
    )


async def the_agent_that_answered_goes_on(kit):
    """As in the demonstration loop of the SDK: after a handoff the user speaks with the other agent."""
    other = kit.make()
    other.name, other.instructions = "returns", "You take things back."
    suite = talk_of("call transfer_to_returns {}", "count", expected="2")
    result = await assay.run_suite(suite, kit.make(handoffs=[other]), trials=2, concurrency=1)
    assert result.passed, result
    first = [request["messages"][0]["content"] for request in kit.model.requests]
    assert first == ["You help customers.", "You take things back.", "You take things back."] * 2


async def a_session_keeps_the_conversation_of_one_trial(kit):
    def make_agent():
        return partial(Runner.run, kit.make(), session=SQLiteSession("one"))

    suite = talk_of("say hello", "count", expected="2")
    for agent, trials in ((make_agent(), 1), (make_agent, 2)):
        result = await assay.run_suite(suite, agent, trials=trials, concurrency=1)
        assert result.passed, result


async def a_run_that_waits_for_an_approval_escalates(kit):
    agent = kit.make()
    agent.tools[0].needs_approval = True
    await waits_for_a_person(kit, agent, 'call orders {"customer": 17}', "orders")


async def the_function_that_runs_an_agent_is_the_agent(kit):
    agent = kit.make()
    for one in (partial(Runner.run, agent), partial(Runner.run_sync, starting_agent=agent, max_turns=3)):
        fixture = [{"tool": "orders", "response": {"state": "lost"}}]
        result = await assay.run_suite(suite_of(('call orders {"customer": 17}', "lost", fixture)), one)
        assert result.passed, result


async def fixtures_of_an_agent_behind_a_handoff(kit):
    """`handoff(agent)` is an object of the SDK around the agent."""
    other = kit.make()
    other.name, other.tools[0].name = "returns", "parcels"
    agent = kit.make(handoffs=[handoff(other)])
    there = [{"tool": "parcels", "response": {"state": "lost"}}]
    result = await assay.run_suite(suite_of(("call transfer_to_returns {}", "", there)), agent)
    assert result.status == "completed", result
    nowhere = suite_of(("say hello", "hello", [{"tool": "weather", "response": 1}]))
    refused = await raised_by(assay.run_suite(nowhere, agent), Refusal)
    assert "(boom, orders, parcels, refund)" in refused


ROWS = {
    "a run that waits for an approval escalates": a_run_that_waits_for_an_approval_escalates,
    "the function that runs an agent is the agent": the_function_that_runs_an_agent_is_the_agent,
    "fixtures of an agent behind a handoff": fixtures_of_an_agent_behind_a_handoff,
    "the agent that answered goes on": the_agent_that_answered_goes_on,
    "a session keeps the conversation of one trial": a_session_keeps_the_conversation_of_one_trial,
}
