"""Fixtures that answer by the arguments of a call: what fits, in which order, by count, and where they are refused."""

import asyncio
import contextlib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import assay as library
from assay.agenteval.scoring.canary import has_canary, with_canary
from assay.agenteval.suites.suite import read_own_suite, read_suite
from assay.agents.fixtures import FixtureTools
from assay.agents.invocation import Invocation, invoke
from assay.checks import worker_tasks
from assay.errors import InvalidRequest, TimeFault
from assay.ports.agents import ToolFailure
from assay.protocol.agents import AgentCard, InvocationResult
from assay.protocol.suite_extension import FixtureRule, extended_tasks
from support.evals import FunctionAgent, golden, run_suite, suite_of

KEY = "sk-0123456789abcdefghij"


def rule(**members):
    return {"tool": "orders", **members}


def suite(*rules, responses=(), task=None, **more):
    fixtures = {"toolResponses": [{"tool": "orders", "response": one} for one in responses]}
    task = task or golden("t", "done", {}, **({"fixtures": fixtures} if responses else {}))
    return suite_of(task, **{"x-assay": {"tasks": {"t": {"fixtures": list(rules)}}}}, **more)


def box(*rules):
    return FixtureTools(rules=[library_rule(one) for one in rules])


def library_rule(document):
    return read_own_suite(suite(document)).extension.tasks["t"].fixtures[0]


def answers(document, *calls):
    """What the calls of an agent got: an answer, or the code of the failure."""
    got = []

    async def act(task, ctx):
        for arguments in calls:
            try:
                got.append(await ctx.call("orders", arguments))
            except ToolFailure as failure:
                got.append(failure.code)
        return "done"

    run = asyncio.run(library.run_suite(document, act, free=True))
    assert run.status == "completed"
    return got


BIG = {"type": "threshold", "arguments": {"value": "$.arguments.id", "min_value": 100}}
ROWS = [
    ([rule(match={"arguments": {"id": 17}}, response="sent")], (), [{"id": 17}, {"id": 17.0, "x": 1}, {"id": "17"}],
     ["sent", "sent", "fixture_missing"]),
    ([rule(match={"arguments": {"id": 17}, "argument_match": "equal"}, response="sent")], (), [{"id": 17}, {"id": 17, "x": 1}],
     ["sent", "fixture_missing"]),
    ([rule(match={"schema": {"properties": {"id": {"type": "string"}}}}, response="text")], (), [{"id": "a"}, {"id": 1}],
     ["text", "fixture_missing"]),
    ([rule(match={"check": BIG}, response="big")], (), [{"id": 100}, {"id": 99}, {}], ["big", "fixture_missing", "fixture_missing"]),
    # the first that fits answers, and a rule without `match` is the default
    ([rule(match={"arguments": {"id": 1}}, response="one"), rule(match={"check": BIG}, response="big"), rule(response="any")], (),
     [{"id": 200}, {"id": 1}, {}], ["big", "one", "any"]),
    # the fixtures of the suite itself are the default, in order
    ([rule(match={"arguments": {"id": 1}}, response="one")], ("a", "b"), [{}, {"id": 1}, {}, {}], ["a", "one", "b", "b"]),
    # by call count: of the calls that fit
    ([rule(call=1, response="first"), rule(call=2, response="second"), rule(response="later")], (), [{}] * 4,
     ["first", "second", "later", "later"]),
    ([rule(match={"arguments": {"id": 1}}, response="one"), rule(call=2, response="second call")], (),
     [{"id": 1}, {}, {}], ["one", "second call", "fixture_missing"]),
    ([rule(match={"arguments": {"id": 1}}, call=2, response="again")], ("else",), [{"id": 1}, {}, {"id": 1}, {"id": 1}],
     ["else", "else", "again", "else"]),
    ([rule(call=1, error={"code": "rate_limited", "message": "not so fast"}), rule(response="ok")], (), [{}, {}],
     ["rate_limited", "ok"]),
    ([rule(error={})], (), [{}], ["tool_error"]),
    ([rule(match={"arguments": {}})], (), [{}], [None]),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "responses", "calls", "expected"), ROWS)
def test_a_fixture_answers_by_the_arguments_and_the_count_of_calls(rules, responses, calls, expected):
    assert answers(suite(*rules, responses=responses), *calls) == expected


def test_each_trial_and_each_task_counts_its_own_calls():
    got = []

    async def act(task, ctx):
        got.append([await ctx.call("orders", {}) for _ in range(2)])
        return "done"

    document = suite(rule(call=1, response="first"), rule(response="later"))
    document["tasks"].append(golden("u", "done", {}))
    document["x-assay"]["tasks"]["u"] = document["x-assay"]["tasks"]["t"]
    asyncio.run(library.run_suite(document, act, free=True, trials=3))
    assert got == [["first", "later"]] * 6


def test_an_answer_that_an_agent_changes_stays_as_it_was():
    async def act(task, ctx):
        for _ in range(2):
            answer = await ctx.call("orders", {})
            assert answer == {"items": []}
            answer["items"].append(1)
        return "done"

    assert asyncio.run(library.run_suite(suite(rule(response={"items": []})), act, free=True)).passed


def test_the_agent_has_the_tools_and_an_unmet_call_says_why():
    seen = {}

    async def act(task, ctx):
        seen["tools"] = [one.id for one in ctx.tools]
        with pytest.raises(ToolFailure, match="the fixture of orders does not fit this call") as failure:
            await ctx.call("orders", {"id": 3})
        assert failure.value.code == "fixture_missing"
        return "done"

    document = suite(rule(match={"arguments": {"id": 17}}, response="sent"))
    document["x-assay"]["tasks"]["t"]["must_call"] = ["orders"]
    run = asyncio.run(library.run_suite(document, act, free=True))
    assert (seen["tools"], run.passed, run.reasons) == (["orders"], True, [])


def test_a_recorded_secret_is_compared_with_the_secret_replaced():
    recorded = rule(match={"arguments": {"token": "[REDACTED:openai-key]"}}, response="in")
    assert answers(suite(recorded), {"token": KEY}, {"token": "other"}) == ["in", "fixture_missing"]


def test_calls_at_the_same_time_are_counted_in_their_order():
    """A check of long work would let a later call overtake an earlier one."""
    long = {"type": "regex", "arguments": {"text": "$.arguments.text", "pattern": "(a|b|ab)*c"}}

    async def calls():
        tools = box(*(rule(match={"check": long}, call=at, response=at) for at in (1, 2, 3)))
        texts = ["a" * 30_000 + "c", "c", "bc"]
        return await asyncio.gather(*(tools.call("orders", {"text": one}) for one in texts))

    assert asyncio.run(calls()) == [1, 2, 3]


def test_a_check_that_cannot_answer_is_not_measured_whatever_the_agent_does(monkeypatch):
    monkeypatch.setattr("assay.patterns.bounded_search.SECONDS", 0.2)
    monkeypatch.setattr("assay.checks.standard.regex.SECONDS", 0.2)
    slow = {"type": "regex", "arguments": {"text": "$.arguments.text", "pattern": "^(a+)+(a+)+$"}}

    class Calls:
        card = AgentCard(agent_id="local.test.calls")

        async def invoke(self, task, context):
            with contextlib.suppress(ToolFailure):
                await context.call("orders", {"text": "a" * 5_000 + "b"})
            return InvocationResult(outcome="completed", result="done")

        async def close(self): ...

    async def run():
        tools = box(rule(match={"check": slow}, response=1))
        await invoke(Calls(), {}, Invocation(Calls.card, tools))

    assert worker_tasks.SECONDS  # the limit of a pattern is its own
    with pytest.raises(TimeFault, match="backtracks too much"):
        asyncio.run(run())


REFUSED = [
    ([rule(match={})], "fixtures[0].match", "expected arguments, schema or check, got none"),
    ([rule(response=1, error={})], "fixtures[0]", "expected a response or an error, got both"),
    ([rule(response=1), rule(call=2, response=2)], "fixtures[1]", "fixtures[0] answers every call of orders"),
    ([rule(call=0)], "fixtures[0].call", ""),
    ([{"response": 1}], "fixtures[0]", "tool"),
    ([rule(error={"code": "odd"})], "fixtures[0].error.code", "expected one of"),
    ([rule(match={"schema": {"type": "odd"}})], "fixtures[0].match.schema", ""),
    ([rule(match={"check": {"type": "tone", "arguments": {}}})], "fixtures[0].match.check.type", "waits for a model"),
    ([rule(when={})], "fixtures[0].when", "no such member"),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "place", "message"), REFUSED)
def test_wrong_rules_of_a_fixture_are_refused_with_their_place(rules, place, message):
    with pytest.raises(InvalidRequest) as refused:
        read_own_suite(suite(*rules))
    (problem,) = refused.value.problems
    assert problem.place.startswith(f"x-assay.tasks.t.{place}")
    assert message in str(problem)


def test_other_hosts_refuse_them_and_an_agent_without_tools_is_refused():
    document = suite(rule(response=1))
    with pytest.raises(InvalidRequest, match="x-assay: expectations, fixtures or turns of t that only assay"):
        read_suite(document)
    with pytest.raises(InvalidRequest, match=r"fixtures for tools, and agent .* takes no tools"):
        asyncio.run(library.run_suite(document, lambda task: "done"))


def test_a_canary_stands_in_them_too():
    read = read_own_suite(suite(rule(response="see {{canary}}")))
    (task,) = extended_tasks(read, read.tasks)
    assert has_canary(task)
    assert with_canary(task, "abc").extension.fixtures[0].response == "see abc"


def test_the_command_shows_and_runs_them(command, tmp_path):
    document = suite(rule(match={"arguments": {"id": 17}}, response={"state": "sent"}), rule(response=None))
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "mine.py").write_text(
        "def act(task, ctx):\n    return 'done' if ctx.tool('orders', id=17) == {'state': 'sent'} else 'no'\n"
    )
    assert "orders" in command("suite", "show", "suite.yaml", folder=tmp_path).out
    ran = command("run", "suite.yaml", "--agent", "mine:act", folder=tmp_path)
    assert (ran.code, "tasks 1 of 1 passed" in ran.out) == (0, True)


def test_they_cross_every_store(disk):
    """A unit is a name and bytes: a task is read from the store with its fixtures."""
    document = suite(rule(match={"check": BIG}, response="big"), rule(response="any"))
    run, _, summary = run_suite(FunctionAgent(acts), document, address=disk)[:3]
    assert (run.status, summary.aggregate_score) == ("completed", 1.0)


async def acts(task, ctx):
    found = [await ctx.tool("orders", id=at) for at in (1, 100)]
    return "done" if found == ["any", "big"] else "no"


values = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
members = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(arguments=members, more=members)
def test_a_rule_fits_calls_that_have_its_members_and_equal_ones_alone_if_it_says_so(arguments, more):
    """The law of `must_call`, of `tool_calls` and of fixtures."""

    def fits(match, call):
        made = FixtureTools(rules=[FixtureRule(tool="orders", match=match, response=1)])
        try:
            return asyncio.run(made.call("orders", call)) == 1
        except ToolFailure:
            return False

    whole = {**more, **arguments}
    part = json.loads(json.dumps(arguments))
    assert fits(library_rule(rule(match={"arguments": part})).match, whole)
    equal = {"arguments": part, "argument_match": "equal"}
    assert fits(library_rule(rule(match=equal)).match, whole) is (set(whole) == set(arguments))
