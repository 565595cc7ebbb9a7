"""What every adapter of a framework guarantees, one row each."""

import asyncio
import dataclasses
from contextlib import contextmanager

import msgspec

import assay
from assay.agents.fixtures import FixtureTools
from assay.agents.invocation import Invocation, invoke
from assay.api.agents import agent_from
from assay.backends.agents.frameworks import adapter
from assay.backends.models.prices import published_cost
from assay.backends.models.transport import OPENAI
from assay.errors import NotMeasured, Refusal
from assay.protocol.agent_evals import ToolResponse
from assay.settings import load
from support.agents.frameworks.kits.tools import CALLS
from support.models.scripted_chat import IN, MODEL, OUT

PATIENCE = 240.0  # seconds; a busy machine takes a minute to import a framework
ROWS = {}
ASK = 'call orders {"customer": 17}'


class Kit:
    """A framework under test: the agents of its kit, on one model."""

    def __init__(self, framework, module, model):
        self.framework, self.module, self.model = framework, module, model
        self.made = 0
        CALLS.clear()

    def make(self, **options):
        self.made += 1
        return self.module.make(self.model.url, **options)

    def agent(self, **options):
        return agent_from(self.make(**options), load({}))

    async def invoke(self, task, *, agent=None, fixtures=None, seconds=PATIENCE):
        """One invocation; without fixtures its tools are live."""
        agent = agent or self.agent()
        tools = (
            None
            if fixtures is None
            else FixtureTools([ToolResponse(tool=tool, response=response) for tool, response in fixtures])
        )
        stage = Invocation(agent.card, tools, live=fixtures is None, seconds=seconds)
        return await invoke(agent, task, stage), stage

    async def run(self, *tasks, agent=None, **options):
        return await assay.run_suite(suite_of(*tasks), agent or self.make(), **options)


def suite_of(*tasks, **members):
    return {
        "suiteId": "local.evals.contract",
        "version": "1.0.0",
        "modes": ["golden"],
        "tasks": [
            {
                "taskId": f"task-{at}",
                "input": question,
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": expected}},
                **({"fixtures": {"toolResponses": fixtures}} if fixtures else {}),
            }
            for at, (question, expected, *rest) in enumerate(tasks)
            for fixtures in (rest[0] if rest else (),)
        ],
        **members,
    }


def talk_of(first, *messages, expected, fixtures=()):
    """A suite of one task with turns."""
    turns = {"messages": list(messages)}
    return suite_of((first, expected, fixtures), **{"x-assay": {"tasks": {"task-0": {"turns": turns}}}})


async def waits_for_a_person(kit, agent, task, what):
    """The run of the framework pauses for a person, who is not there: nothing was answered, and no tool ran."""
    suite = suite_of((task, "", [{"tool": "orders", "response": 1}]))
    result = await assay.run_suite(suite, agent)
    about = result.results[0].execution_context.output
    assert (about["value"], about["metadata"]["outcome"], CALLS) == (None, "escalated", [])
    assert [one.message for one in result.reasons] == [f"the run waits for a person: {what}"]
    evaluated = await assay.evaluate(
        [{"id": "one", "input": task}],
        agent=agent,
        checks=[{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["x"]}}],
    )
    assert evaluated.pass_rate == 0
    assert f"the agent escalated: the run waits for a person: {what}" in str(evaluated.results[0])


async def raised_by(work, kind):
    """The message of the exception that it raises."""
    ended = (await asyncio.gather(work, return_exceptions=True))[0]
    assert isinstance(ended, kind), ended
    return str(ended)


async def cancelled(kit, work):
    """Cancel it when the model was asked."""
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(kit.model.asked.wait, PATIENCE)
    task.cancel()
    ended = (await asyncio.gather(task, return_exceptions=True))[0]
    assert isinstance(ended, asyncio.CancelledError), ended


def row(test):
    ROWS[test.__name__.replace("_", " ")] = test
    return test


def shape(steps):
    """The steps without what differs between two runs: times, ids, and the name of the provider."""
    plain = []
    for step in msgspec.to_builtins(steps):
        for name in ("at_ms", "duration_ms", "call_id"):
            step.pop(name, None)
        if "usage" in step:
            step["usage"] = [step["usage"][name] for name in ("model", "input_tokens", "output_tokens")]
        plain.append(step)
    return plain


USED = {"type": "used", "usage": [MODEL, IN, OUT]}


def trajectory(tool, arguments, outcome):
    """A model call, a tool call, and another model call."""
    called = {"type": "tool-called", "tool": tool, "inputs": arguments, "transport": "native"}
    returned = {"type": "tool-returned", "tool": tool, "status": "ok", "outcome": outcome, "error": None}
    return [USED, called, returned, USED]


@row
async def run(kit):
    finish, _ = await kit.invoke("say hello")
    assert (finish.outcome, finish.result, finish.error) == ("completed", "hello", None)
    card = kit.agent().card
    assert (card.kind, card.takes_tools, card.takes_memory) == (kit.framework, True, False)


@row
async def a_task_that_is_no_text(kit):
    finish, _ = await kit.invoke({"ticket": "where is it?"})
    assert finish.outcome == "completed"
    asked = str(kit.model.requests[0]["messages"])
    assert all(word in asked for word in ("ticket", "where is it?"))


@row
async def tools(kit):
    finish, stage = await kit.invoke(ASK)
    assert CALLS == [("orders", 17)]
    assert finish.outcome == "completed"
    assert "sent" in finish.result
    assert stage.attempts[0].arguments == {"customer": 17}


@row
async def equal_trajectory_shape(kit):
    _, stage = await kit.invoke(ASK)
    assert shape(stage.steps) == trajectory("orders", {"customer": 17}, {"state": "sent", "customer": 17})
    assert [step.at_ms for step in stage.steps] == sorted(step.at_ms for step in stage.steps)


@row
async def fixture(kit):
    for tool in ("orders", "shop:orders"):
        finish, stage = await kit.invoke(ASK, fixtures=[(tool, {"state": "lost"})])
        assert finish.outcome == "completed", finish
        assert "lost" in finish.result
        assert shape(stage.steps) == trajectory(tool, {"customer": 17}, {"state": "lost"})
    assert CALLS == []


@row
async def fixture_in_a_suite(kit):
    result = await kit.run((ASK, "lost", [{"tool": "orders", "response": {"state": "lost"}}]))
    assert result.passed, result
    assert CALLS == []


@row
async def refusal_of_a_fixture_for_a_tool_that_is_not_there(kit):
    refused = await raised_by(kit.run((ASK, "lost", [{"tool": "shop:weather", "response": 1}])), Refusal)
    assert "shop:weather" in refused
    assert "boom, orders, refund" in refused
    assert (kit.model.requests, CALLS) == ([], [])


@row
async def refusal_of_memory(kit):
    suite = suite_of(("say hello", "hello"))
    suite["tasks"][0]["fixtures"] = {"memorySeed": [{"content": "blue"}]}
    assert "takes no memory" in await raised_by(assay.run_suite(suite, kit.make()), Refusal)


@row
async def usage(kit):
    _, stage = await kit.invoke(ASK)
    usages = [step.usage for step in stage.steps if hasattr(step, "usage")]
    assert [(one.model, one.input_tokens, one.output_tokens) for one in usages] == [(MODEL, IN, OUT)] * 2
    assert all(one.provider and one.cost_usd is None for one in usages)  # nobody publishes a price of it
    result = await kit.run(("say hello", "hello"))
    assert result.results[0].execution_context.output["metadata"]["tokens"] == IN + OUT


@row
async def the_cost_of_a_server_of_your_own_is_unknown(kit):
    """Also of a model whose provider publishes a price: the address decides it."""
    name = "gpt-4o-mini"
    assert published_cost("openai", name, IN, OUT, url=OPENAI)
    _, stage = await kit.invoke("say hello", agent=kit.agent(model=name))
    used = next(step.usage for step in stage.steps if hasattr(step, "usage"))
    assert (used.model, used.cost_usd) == (name, None)
    with asked_prices() as asked:
        await kit.invoke("say hello", agent=kit.agent(model=name))
    (provider, model, *_), url = asked[0]
    assert url.rstrip("/") == kit.model.url
    assert published_cost(provider, model, IN, OUT, url=OPENAI)


@contextmanager
def asked_prices():
    """The arguments and the address of each price that a session looks up."""
    asked, look_up = [], adapter.published_cost

    def recorded(*values, url=""):
        asked.append((values, url))
        return look_up(*values, url=url)

    adapter.published_cost = recorded
    try:
        yield asked
    finally:
        adapter.published_cost = look_up


@row
async def memory(kit):
    agent = kit.make()
    result = await kit.run(*[("count", "1")] * 3, agent=agent, trials=3, concurrency=1)
    assert result.passed, result
    result = await kit.run(*[("count", "1")] * 3, agent=agent, trials=3)
    assert result.passed, result


@row
async def a_conversation_goes_on_and_every_trial_begins_a_new_one(kit):
    """Also what tools answered in earlier turns stays, as where the agent lives."""

    def make_agent():
        return kit.make()

    suite = talk_of(
        ASK, "say good", "count", expected="3", fixtures=[{"tool": "orders", "response": {"state": "lost"}}]
    )
    for agent in (kit.make(), make_agent):
        kit.made = 0
        kit.model.requests.clear()
        result = await assay.run_suite(suite, agent, trials=2, concurrency=1)
        assert result.passed, result
        for one in result.results:
            about = one.execution_context.output["metadata"]
            contents = [message["content"] for message in about["turns"]]
            assert (contents[0], contents[2:]) == (ASK, ["say good", "good", "count", "3"])
            assert "lost" in contents[1]
            kinds = [step["type"] for step in about["trajectory"]]
            called = ["used", "tool-called", "tool-returned", "used"]
            assert kinds == ["said", *called, "said", *["said", "used", "said"] * 2]
        asked = [str(request["messages"]) for request in kit.model.requests]
        assert ["lost" in one for one in asked] == [False, True, True, True] * 2
    assert (kit.made, CALLS) == (3, [])  # one to look at, then one for each trial


@row
async def cancel(kit):
    await cancelled(kit, kit.invoke("hang"))
    if kit.agent()._subject.adapter.capabilities.cancel:
        await asyncio.to_thread(kit.model.left.wait, PATIENCE)
        assert kit.model.left.is_set()


@row
async def cancel_of_a_suite(kit):
    await cancelled(kit, kit.run(("hang", "x")))


@row
async def error_that_raises(kit):
    finish, _ = await kit.invoke("refuse")
    assert finish.outcome == "failed", finish
    assert "this request is refused" in finish.error


@row
async def error_that_hangs(kit):
    finish, _ = await kit.invoke("hang", seconds=0.5)
    assert finish.outcome == "failed"
    assert finish.error.startswith("no result within 0.")


@row
async def error_without_a_fixture(kit):
    finish, stage = await kit.invoke('call refund {"order": 3}', fixtures=[("orders", 1)])
    assert finish.outcome == "failed", finish
    assert finish.error.startswith("ToolFailure: no fixture answers refund"), finish
    assert (CALLS, len(kit.model.requests)) == ([], 1)
    assert stage.steps[-1].error["code"] == "fixture_missing"


@row
async def error_of_a_tool(kit):
    finish, stage = await kit.invoke('call boom {"why": "late"}')
    returned = [step for step in stage.steps if step.__class__.__name__ == "ToolReturned"]
    assert returned[0].error["code"] == "tool_error"
    assert "boom: late" in returned[0].error["message"]
    assert finish.outcome in ("completed", "failed")  # a framework tells the model about it, or ends the run


@row
async def error_of_an_unreachable_model(kit):
    agent = agent_from(kit.module.make("http://127.0.0.1:9/v1"), load({}))
    assert await raised_by(kit.invoke("say hello", agent=agent), NotMeasured)


@row
async def error_of_nothing(kit):
    finish, _ = await kit.invoke("nothing")
    assert finish.outcome in ("completed", "failed"), finish
    assert finish.result in ("", None, msgspec.UNSET), finish


@dataclasses.dataclass
class Order:
    state: str
    number: int


@row
async def structured_output(kit):
    finish, _ = await kit.invoke('shape {"state": "sent", "number": 3}', agent=kit.agent(output=Order))
    assert (finish.outcome, finish.result) == ("completed", {"state": "sent", "number": 3}), finish


@row
async def twenty_at_once(kit):
    agent = kit.make()
    tasks = [(f"together 20 answer {at:02}", f"answer {at:02}") for at in range(20)]
    result = await kit.run(*tasks, agent=agent, concurrency=20)
    assert result.passed, result


@row
async def a_factory_makes_an_agent_for_each_trial(kit):
    def make_agent():
        return kit.make()

    result = await kit.run(("count", "1"), agent=make_agent, trials=3)
    assert result.passed, result
    assert kit.made == 4  # one to look at, then one for each trial


@row
async def another_event_loop(kit):
    """A test of pytest has a loop of its own for each case: connections of a model's client may outlive theirs."""
    agent, check = (
        kit.make(),
        {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["hello"]}},
    )
    for _ in range(3):
        result = await asyncio.to_thread(
            assay.evaluate_sync, [{"id": "one", "input": "say hello"}], agent=agent, checks=[check]
        )
        assert result.pass_rate == 1, result


@row
async def evaluate_takes_it_too(kit):
    result = await assay.evaluate(
        [{"id": "one", "input": ASK}],
        agent=kit.make(),
        checks=[{"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["sent"]}}],
    )
    assert result.results[0].summary.completed_checks == 1, result
    steps = result.results[0].execution_context.output["metadata"]["trajectory"]
    assert [step["type"] for step in steps] == ["used", "tool-called", "tool-returned", "used"]
