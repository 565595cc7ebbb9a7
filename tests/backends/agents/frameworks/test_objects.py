"""Objects that are agents, without any framework: methods in their order, factories, options, and adapters of others."""

import dataclasses
import functools
import sys
from types import ModuleType

import pytest
from pydantic import BaseModel

import assay
from assay.agents.fixtures import FixtureTools
from assay.agents.invocation import Invocation, invoke
from assay.api.agents import agent_from
from assay.backends.agents.frameworks import recognise
from assay.backends.agents.frameworks.adapter import Adapter, Capabilities, OwnTools, Session
from assay.backends.agents.frameworks.agent import METHODS, subject_of
from assay.errors import InvalidRequest, Refusal
from assay.host import parts
from assay.protocol.agent_evals import ToolResponse
from assay.settings import load
from support.agents.frameworks.contract import suite_of

pytestmark = pytest.mark.anyio


async def answer_of(agent, task="x", *, fixtures=None):
    agent = agent_from(agent, load({}))
    tools = (
        None if fixtures is None else FixtureTools([ToolResponse(tool=one, response=1) for one in fixtures])
    )
    return await invoke(agent, task, Invocation(agent.card, tools, live=fixtures is None, seconds=30))


def object_with(*names):
    """An object whose methods say their own names."""

    def method(name):
        async def later(self, task):
            return name

        return later if name.startswith("a") else lambda self, task: name

    return type("Thing", (), {name: method(name) for name in names})()


@pytest.mark.parametrize("at", range(len(METHODS) + 1))
async def test_the_methods_of_any_object_have_an_order(at):
    names = ("__call__", *METHODS)[at:]
    finish = await answer_of(object_with(*names))
    assert (finish.outcome, finish.result) == ("completed", names[0])


def test_an_object_that_cannot_run_is_refused_with_what_is_possible():
    with pytest.raises(InvalidRequest, match=r"agent: expected a function of the task, .*, got object"):
        agent_from(object(), load({}))


class Thing:
    def __init__(self, task):
        self.task = task

    def run(self, task):
        return task


class Broken:
    @property
    def run(self):
        raise LookupError("no key")


class Streams:
    async def run(self, task):
        yield task

    def __call__(self, task):
        yield task


async def streams(task, ctx):
    yield task


YIELDS = (
    r"^agent: expected a function that returns its answer, got one that yields: collect what it yields, and"
)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Thing, r"^agent: expected a function or an object, got the class Thing: make an object of it"),
        (
            Broken(),
            r"^agent: expected a method run, got LookupError: no key \(.*test_objects\.py:\d+ in Broken\.run\)",
        ),
        (streams, YIELDS),
        (functools.partial(streams, ctx=1), YIELDS),
        (Streams(), YIELDS),
        (Streams().run, YIELDS),
    ],
    ids=["class", "property", "function", "partial", "object", "method"],
)
def test_what_would_fail_with_every_task_is_refused_before_the_first(thing, message):
    with pytest.raises(Refusal, match=message):
        agent_from(thing, load({}))


async def test_a_class_that_is_only_called_is_a_function():
    assert (await answer_of(str, 17)).result == "17"


async def test_a_cost_limit_is_refused_for_an_object_that_reports_no_usage():
    thing = object_with("run")
    with pytest.raises(Refusal, match=r"max_cost: a cost limit needs the usage of models"):
        await assay.run_suite(suite_of(("x", "run")), thing, max_cost=1)
    assert (await assay.run_suite(suite_of(("x", "run")), thing, max_cost=1, free=True)).passed


async def test_fixtures_are_refused_for_an_object_without_a_context():
    suite = suite_of(("x", "run", [{"tool": "shop:orders", "response": 1}]))
    with pytest.raises(Refusal, match=r"takes no tools: give a function of the task and `ctx` that calls it"):
        await assay.run_suite(suite, object_with("run"))


# A framework of others, with an adapter of their own.


@dataclasses.dataclass
class Shape:
    state: str


class Model(BaseModel):
    state: str


class ToyAgent:
    """An agent that answers with its conversation: all tasks that it has seen."""

    name = "toy"

    def __init__(self, *tools):
        self.tools, self.seen = tools, []

    async def ask(self, task, **options):
        self.seen.append(task)
        return [*self.seen, *options.values()]


def run_agent(agent, task="", deps=""):
    """As `Runner.run` of a framework, which gets the agent."""


def answer_with(agent, task):
    """A function of the user."""
    return f"mine: {task}"


class ToyAdapter(Adapter):
    framework = "toy"
    classes = ("toy_framework.agents.ToyAgent",)
    capabilities = Capabilities(tool_calls=True, fixtures=True)

    def tools(self, agent):
        return OwnTools(frozenset(agent.tools), others="" if agent.tools else "a node calls its tools itself")

    def conversation(self, agent, options):
        return "it remembers"

    async def run(self, agent, task, session: Session):
        if task == "tool":
            return await session.tool("orders", {"id": 1}, lambda: agent.ask("live"))
        if task == "other":
            return await session.tool("refund", {}, lambda: agent.ask("live"))
        return await agent.ask(task, **session.options)


@pytest.fixture
def toy(monkeypatch):
    """The module of the framework is imported, and its adapter is installed as an entry point."""
    for name in ("toy_framework", "toy_framework.agents"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["toy_framework.agents"].ToyAgent = ToyAgent
    monkeypatch.setattr(ToyAgent, "__module__", "toy_framework.agents")
    monkeypatch.setattr(run_agent, "__module__", "toy_framework.run")
    point = recognise.EntryPoint("toy_framework", f"{__name__}:ToyAdapter", recognise.GROUP)
    monkeypatch.setattr(recognise, "entry_points", lambda group: [point] if group == recognise.GROUP else [])
    _forget()
    yield ToyAgent
    _forget()


def _forget():
    for one in (recognise._adapter, recognise._installed, recognise._load):
        one.cache_clear()


async def test_an_adapter_of_others_is_found_by_the_module_of_the_class(toy):
    finish = await answer_of(toy())
    assert (finish.outcome, finish.result) == ("completed", ["x"])
    assert agent_from(toy(), load({})).card.agent_id == "local.toy.toy"

    class Mine(ToyAgent):
        pass

    assert (await answer_of(Mine())).result == ["x"]


async def test_a_class_of_the_same_module_that_is_no_agent_is_any_object(toy):
    other = type("Other", (), {"run": lambda self, task: "mine", "__module__": "toy_framework.agents"})
    assert (await answer_of(other())).result == "mine"


async def test_an_adapter_that_cannot_be_loaded_is_refused_by_its_name(toy, monkeypatch):
    point = recognise.EntryPoint("toy_framework", "nowhere:Adapter", recognise.GROUP)
    monkeypatch.setattr(recognise, "entry_points", lambda group: [point])
    _forget()
    with pytest.raises(
        Refusal, match=r"assay.agents: toy_framework: expected the adapter nowhere:Adapter, got ModuleNotF"
    ):
        agent_from(toy(), load({}))


async def test_the_options_of_a_run_come_with_a_partial(toy):
    agent = toy()
    assert subject_of(functools.partial(agent.ask, deps=1)).options == {"deps": 1}
    assert (await answer_of(functools.partial(agent.ask, deps="deps"))).result == ["x", "deps"]
    assert (await answer_of(functools.partial(run_agent, agent, deps="deps"))).result == ["x", "x", "deps"]
    assert (await answer_of(functools.partial(run_agent, agent=agent, deps="d"))).result == [
        "x",
        "x",
        "x",
        "d",
    ]
    assert subject_of(functools.partial(run_agent, 1)) is None


async def test_the_method_of_an_agent_that_runs_it_is_the_agent(toy):
    class Mine(ToyAgent):
        async def ask(self, task, **options):
            return ["replaced", task]

        def answer(self, task):
            return "mine"

    for method, expected in (
        (toy().ask, ["x"]),
        (Mine().ask, ["replaced", "x"]),
        (functools.partial(Mine().ask), ["replaced", "x"]),
        (Mine().answer, "mine"),
        (functools.partial(answer_with, toy()), "mine: x"),  # not without the function of the user
        (functools.partial(Mine().answer), "mine"),
    ):
        agent = agent_from(method, load({}))
        assert (agent.card.kind == "toy") == isinstance(expected, list)
        assert (await answer_of(method)).result == expected


def test_the_class_of_an_agent_is_refused(toy):
    with pytest.raises(
        Refusal, match=r"agent: expected an agent of toy, got the class ToyAgent: make an object of it"
    ):
        agent_from(toy, load({}))


async def test_an_agent_with_one_conversation_is_refused_for_several_and_a_factory_is_not(toy):
    suite = suite_of(("x", "x"), ("y", "y"))
    with pytest.raises(
        Refusal, match=r"a run of 2 conversations needs a new agent for each.*: it remembers\. Give a fun"
    ):
        await assay.run_suite(suite, toy())
    with pytest.raises(Refusal, match=r"a run of 3 conversations needs"):
        await assay.evaluate([{"id": "a", "input": "x"}], agent=toy(), trials=3, checks=[])
    made = []

    def make_agent():
        made.append(toy())
        return made[-1]

    result = await assay.run_suite(suite, make_agent, trials=2)
    assert sorted(seen for one in made[1:] for seen in one.seen) == ["x", "x", "y", "y"]
    assert all(len(one.seen) == 1 for one in made[1:])
    assert result.status == "completed"


async def test_an_adapter_with_multi_turn_gets_what_the_last_turn_left(toy, monkeypatch):
    talk = suite_of(("x", "x"), **{"x-assay": {"tasks": {"task-0": {"turns": {"messages": ["y", "z"]}}}}})
    with pytest.raises(Refusal, match=r"an agent of the kind toy answers one message; turns work with"):
        await assay.run_suite(talk, toy())

    async def run(self, agent, task, session):
        session.history = [*(session.history or ()), task]
        return " ".join(session.history)

    monkeypatch.setattr(ToyAdapter, "capabilities", Capabilities(multi_turn=True))
    monkeypatch.setattr(ToyAdapter, "run", run)
    result = await assay.run_suite(talk, lambda: toy(), trials=2)  # noqa: PLW0108  # a factory
    turns = [one.execution_context.output["metadata"]["turns"] for one in result.results]
    assert [[message["content"] for message in one[1::2]] for one in turns] == [["x", "x y", "x y z"]] * 2
    monkeypatch.setattr(ToyAdapter, "single_turn", lambda *_: "it forgets; give another")
    with pytest.raises(
        Refusal, match=r"agent: tasks with turns need an agent that continues .*: it forgets; "
    ):
        await assay.run_suite(talk, toy())


async def test_a_factory_with_defaults_says_so_with_its_type_of_return(toy):
    def make_agent(model="m-1"):
        return toy(model)

    make_agent.__annotations__["return"] = ToyAgent
    assert (await answer_of(make_agent)).result == ["x"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: 1, "takes no task and made int: expected a function of the task"),
        (
            lambda: Thing("x"),
            r"made .*Thing: .* that makes an agent of a framework .*; give any other object itself",
        ),
        (lambda: 1 / 0, "expected it to make an agent, got ZeroDivisionError"),
    ],
)
def test_a_function_without_parameters_that_makes_no_agent_is_refused(make, message):
    with pytest.raises(Refusal, match=message):
        agent_from(make, load({}))


def test_an_async_factory_is_refused():
    async def make_agent(): ...

    with pytest.raises(Refusal, match="without `async`"):
        agent_from(make_agent, load({}))


async def test_a_cost_limit_is_refused_for_a_framework_that_reports_no_usage(toy):
    with pytest.raises(
        Refusal, match=r"max_cost: a cost limit needs the usage of models, and toy reports none"
    ):
        await assay.run_suite(suite_of(("x", "x")), toy(), max_cost=1)
    assert (await assay.run_suite(suite_of(("x", "x")), toy(), max_cost=1, free=True)).status == "completed"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        (("orders",), r"tools that toy calls for this agent \(orders\), got fixtures for shop:weather$"),
        ((), r"\(it has none\), got fixtures for shop:weather \(a node calls its tools itself\)$"),
    ],
)
async def test_a_fixture_for_a_tool_that_cannot_be_reached_is_refused(toy, tools, message):
    with pytest.raises(Refusal, match=message):
        await assay.run_suite(suite_of(("x", "x", [{"tool": "shop:weather", "response": 1}])), toy(*tools))


async def test_live_shadow_runs_the_tools_of_the_agent(toy):
    suite = suite_of(("tool", "live", [{"tool": "orders", "response": 1}]), modes=["live-shadow"])
    suite["tasks"][0]["expected"]["match"] = {"strategy": "json-match", "value": ["live"]}
    assert (await assay.run_suite(suite, toy("orders"))).passed
    suite["tasks"][0]["fixtures"]["toolResponses"][0]["tool"] = "weather"
    with pytest.raises(Refusal, match="tools that have only fixtures: weather"):
        await assay.run_suite(suite, toy("orders"))


async def test_a_tool_without_a_fixture_ends_the_run_of_the_framework(toy):
    finish = await answer_of(toy("orders"), "other", fixtures=["orders"])
    assert finish.outcome == "failed"
    assert finish.error.startswith("ToolFailure: no fixture answers refund; there are fixtures for orders")


@pytest.mark.parametrize("value", [Shape("sent"), Model(state="sent"), {"deep": [Model(state="sent")]}])
async def test_a_structured_result_is_json(value):
    expected = {"state": "sent"} if not isinstance(value, dict) else {"deep": [{"state": "sent"}]}
    finish = await answer_of(lambda task: value)
    assert (finish.outcome, finish.result) == ("completed", expected)


def test_the_command_takes_an_object(tmp_path, monkeypatch):
    (tmp_path / "my_bot.py").write_text(
        "class Bot:\n    def run(self, task):\n        return task\nbot = Bot()\n"
    )
    monkeypatch.chdir(tmp_path)
    agent = parts.resolve_agent("my_bot:bot", load({}))
    assert (agent.card.agent_id, agent.card.kind) == ("local.my_bot.bot", "object")
    with pytest.raises(Refusal, match=r"my_bot:__name__' is str: expected a function of the task"):
        parts.resolve_agent("my_bot:__name__", load({}))
