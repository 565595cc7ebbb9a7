from pydantic import BaseModel
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models.openai import OpenAIModel
from strands.multiagent import GraphBuilder, Swarm

from assay.errors import Refusal
from support.agents.frameworks.contract import raised_by, waits_for_a_person
from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL


class Order(BaseModel):
    state: str
    number: int


def make(url, output=None, *, model=MODEL, **members):
    """An agent with a memory: its messages stay from one call to the next."""
    client = OpenAIModel(client_args={"base_url": url, "api_key": "none"}, model_id=model)
    return Agent(
        client,
        name="support",
        tools=[tool(one) for one in TOOLS],
        system_prompt="You help customers.",
        **({"structured_output_model": Order} if output else {}),
        **members,
    )


async def a_run_that_interrupts_escalates(kit):
    def ask(event):
        event.interrupt("approval", reason="really?")

    agent = kit.make()
    agent.hooks.add_callback(BeforeToolCallEvent, ask)
    await waits_for_a_person(kit, agent, 'call orders {"customer": 17}', "approval")


async def several_agents_are_refused(kit):
    for made in (Swarm([kit.make()]), graph_of(kit.make())):
        refused = await raised_by(kit.run(("say hello", "hello"), agent=made), Refusal)
        name = type(made).__name__
        assert (
            f"a {name} of Strands is several agents, and assay cannot record them: give one Agent" in refused
        )
    assert kit.model.requests == []


def graph_of(agent):
    builder = GraphBuilder()
    builder.add_node(agent, "one")
    return builder.build()


ROWS = {
    "a run that interrupts escalates": a_run_that_interrupts_escalates,
    "several agents are refused": several_agents_are_refused,
}
