"""`assay.evaluate(cases, agent=…)`: the same results as the outputs would get, in order, and what stops a run."""

import asyncio
import itertools

import pytest

import assay
from assay.fep.agent_runs.agent_output import recorded_output, usage_metadata
from assay.inputs.context import Context
from assay.protocol.agents import InvocationResult, Usage

pytestmark = pytest.mark.anyio
EXACT = [
    {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "$.test_case.expected"}}
]
CASES = [{"id": str(at), "input": at, "expected": at * 2} for at in range(5)]


async def double(number):
    await asyncio.sleep(0.01 * (5 - number))  # the last is first
    return number * 2


def spends(number, ctx):
    ctx.usage(provider="acme", model="m", input_tokens=1, output_tokens=1, cost_usd=1.0)
    return number * 2


def values(results):
    return [result.execution_context.output["value"] for result in results]


def statuses(results):
    return [result.status for result in results]


async def test_an_agent_answers_the_cases_in_their_order():
    result = await assay.evaluate(CASES, agent=double, checks=EXACT, trials=2)
    assert values(result.results) == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
    assert (result.status, result.summary.total_test_cases) == ("completed", 10)
    assert all(one.check_results[0].results == {"passed": True} for one in result.results)


async def test_the_results_are_those_of_the_same_outputs():
    """Law: asking an agent and scoring its outputs is the same as scoring those outputs."""
    asked = await assay.evaluate(CASES, agent=double, checks=EXACT)
    outputs = [{"value": one["expected"]} for one in CASES]
    scored = await assay.evaluate(CASES, outputs, EXACT)
    assert asked.summary == scored.summary
    for one, other in zip(asked.results, scored.results, strict=True):
        assert one.check_results[0].resolved_arguments == other.check_results[0].resolved_arguments


def test_the_sync_form_takes_an_agent_too():
    result = assay.evaluate_sync(CASES, agent=lambda number: number, checks=EXACT, concurrency=1)
    assert values(result.results) == [0, 1, 2, 3, 4]
    assert result.results[1].check_results[0].results == {"passed": False}


async def test_a_stream_asks_only_for_the_cases_in_progress():
    asked = []

    def answer(number):
        asked.append(number)
        return number * 2

    endless = ({"id": str(at), "input": at, "expected": at * 2} for at in itertools.count())
    results = assay.evaluate_stream(endless, EXACT, agent=answer, concurrency=2)
    first = [await anext(results) for _ in range(5)]
    await results.aclose()
    assert values(first) == [0, 2, 4, 6, 8]
    assert len(asked) < 20


async def test_the_cost_limit_skips_the_rest_or_ends_a_stream():
    result = await assay.evaluate(CASES, agent=spends, checks=EXACT, max_cost=2, concurrency=1)
    assert statuses(result.results) == ["completed"] * 2 + ["skip"] * 3
    results = assay.evaluate_stream(CASES, EXACT, agent=spends, max_cost=2, concurrency=1)
    assert [(await anext(results)).status for _ in range(2)] == ["completed"] * 2
    with pytest.raises(assay.Refusal, match="cost limit"):
        await anext(results)
    exactly = assay.evaluate_stream(CASES[:2], EXACT, agent=spends, max_cost=2, concurrency=1)
    assert len([one async for one in exactly]) == 2  # nothing was left to start


async def test_a_cancelled_evaluation_returns_the_results_that_it_has():
    reached = asyncio.Event()

    async def answer(number):
        if number == 2:
            reached.set()
            await asyncio.sleep(60)
        return number * 2

    task = asyncio.create_task(assay.evaluate(CASES, agent=answer, checks=EXACT, concurrency=1))
    await reached.wait()
    task.cancel()
    result = await task
    assert statuses(result.results) == ["completed"] * 2 + ["skip"] * 3


@pytest.mark.parametrize(
    ("error", "status", "passed", "outcome"),
    [
        (ValueError("bad day"), "completed", False, "failed"),
        (assay.AgentRefusal("not that"), "completed", False, "refused"),
        (assay.NotMeasured("away"), "error", None, "unmeasured"),
        (ConnectionRefusedError("down"), "error", None, "unmeasured"),
    ],
)
async def test_an_agent_that_raises(error, status, passed, outcome):
    def answer(_):
        raise error

    result = await assay.evaluate(CASES[:1], agent=answer, checks=EXACT)
    (one,) = result.results
    assert (one.status, one.check_results[0].results.get("passed")) == (status, passed)
    assert one.execution_context.output["metadata"]["outcome"] == outcome
    assert str(error) in one.execution_context.output["metadata"]["error"]


@pytest.mark.parametrize("value", [object(), float("nan"), [lambda: 0]])
async def test_a_value_that_is_not_json_is_the_agent_s_failure(value):
    result = await assay.evaluate(CASES[:1], agent=lambda _: value, checks=EXACT)
    (one,) = result.results
    assert one.execution_context.output["metadata"]["outcome"] == "failed"
    assert one.check_results[0].results == {"passed": False}


async def test_a_failed_check_with_an_error_stops_a_fail_fast_run():
    def answer(number):
        if number == 1:
            raise assay.NotMeasured("away")
        return number * 2

    result = await assay.evaluate(CASES, agent=answer, checks=EXACT, fail_fast=True, concurrency=1)
    assert statuses(result.results) == ["completed", "error", "skip", "skip", "skip"]


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({}, "outputs"),
        ({"agent": double, "outputs": [{"value": 1}] * 5}, "outputs"),
        ({"agent": double, "trials": 0}, "trials"),
        ({"agent": double, "trials": True}, "trials"),
        ({"outputs": [{"value": 1}] * 5, "trials": 2}, "trials"),
        ({"agent": 7}, "agent"),
    ],
)
async def test_arguments_that_contradict_each_other_are_refused(more, place):
    with pytest.raises(assay.InvalidRequest) as refused:
        await assay.evaluate(CASES, checks=EXACT, **more)
    assert place in [problem.place for problem in refused.value.problems]


async def test_each_case_may_have_its_own_list_of_checks():
    lists = [EXACT, [], EXACT, [], EXACT]
    result = await assay.evaluate(CASES, agent=double, checks=lists, trials=2)
    assert [len(one.check_results) for one in result.results] == [1, 1, 0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("outcome", ["failed", "refused", "escalated"])
async def test_an_agent_without_an_answer_says_how_it_ended_and_a_continued_run_knows(outcome):
    ended = InvocationResult(outcome=outcome, error="why")
    result = (await assay.evaluate(CASES[:1], agent=lambda _: ended, checks=EXACT)).results[0]
    check = result.check_results[0]
    assert (check.results, check.metadata["reason"]) == ({"passed": False}, f"the agent {outcome}: why")
    document = {"test_case": CASES[0], "output": {"value": None, "metadata": {"outcome": outcome}}}
    assert not recorded_output(Context(b"", document, [])).answered
    document["output"]["value"] = 1
    assert recorded_output(Context(b"", document, [])).answered == (outcome == "escalated")


@pytest.mark.parametrize(
    ("models", "recorded"),
    [
        (["m-1", "m-1"], {"model": "p:m-1"}),
        (["m-1", "m-2"], {"model": ["p:m-1", "p:m-2"]}),
        (["not a name, but a sentence"], {}),
        ([], {}),
    ],
)
def test_a_result_of_an_agent_names_the_models_that_it_used(models, recorded):
    calls = [Usage(provider="p", model=name, input_tokens=1, output_tokens=1) for name in models]
    found = usage_metadata(calls, free=False)
    assert {name: value for name, value in found.items() if name == "model"} == recorded
