from pydantic import BaseModel
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models.openai import OpenAIModel

from support.agents.frameworks.contract import waits_for_a_person
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


ROWS = {"a run that interrupts escalates": a_run_that_interrupts_escalates}
