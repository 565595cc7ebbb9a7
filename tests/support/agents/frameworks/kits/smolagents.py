import time

from smolagents import ChatMessage, CodeAgent, Model, OpenAIServerModel, ToolCallingAgent, tool

import assay
from assay.backends.agents.frameworks.adapter import Session
from support.agents.frameworks.contract import talk_of
from support.agents.frameworks.kits.tools import TOOLS
from support.models.scripted_chat import MODEL


def make(url, output=None, *, model=MODEL):
    """An agent with a memory: its messages stay, unless a run begins anew."""
    client = OpenAIServerModel(model, api_base=url, api_key="none")
    agent = ToolCallingAgent([tool(one) for one in TOOLS], client, name="support", max_steps=3)
    agent.memory.steps.append("a step of an earlier run")
    return agent


class Scripted(Model):
    """Writes the code that the user asks for."""

    def generate(self, messages, **_):
        asked = str(messages[-1].content[0]["text"]).rpartition("New task:\n")[2].strip()
        return ChatMessage(role="assistant", content=f"<code>\n{asked}\n</code>")


async def a_code_agent_keeps_its_variables_in_a_conversation(_):
    talk = talk_of(
        "seen = ['a']\nfinal_answer('one')", "seen.append('b')\nfinal_answer(len(seen))", expected="2"
    )
    result = await assay.run_suite(talk, CodeAgent([], Scripted(), max_steps=1), trials=2)
    assert result.passed, result


async def a_run_that_has_ended_asks_no_model(kit):
    """Also if the event loop is late to stop the thread."""
    stop = Session._fail

    def stop_late(self, failure):
        stop(self, failure)
        self.loop.call_soon(time.sleep, 0.5)

    Session._fail = stop_late
    try:
        finish, _ = await kit.invoke('call refund {"order": 3}', fixtures=[("orders", 1)])
    finally:
        Session._fail = stop
    assert finish.error.startswith("ToolFailure: no fixture answers refund"), finish
    assert len(kit.model.requests) == 1


ROWS = {
    "a run that has ended asks no model": a_run_that_has_ended_asks_no_model,
    "a code agent keeps its variables in a conversation": a_code_agent_keeps_its_variables_in_a_conversation,
}
