"""Answers of agents whose judges wait: what is scored after a restart is what the agent did, to the last member."""

import asyncio
import re
from contextlib import suppress

import msgspec
import pytest

from assay.agenteval.planning.run_header import REPEATED_COST
from assay.errors import CostReached
from assay.ports.agents import ToolFailure
from assay.runs.agent_answers import ANSWERS
from support.evals import TENANT, FunctionAgent, eval_host, golden, resume_run, rubric, suite_of

OF_EVENTS = {"invocationId", "eventId", "causationId", "runId", "timestamp", "sequence"}
TIMES = {
    "latencyMs",
    "durationMs",
    "atMs",
    "latency_ms",
    "at_ms",
    "step_ms",
    "evaluated_at",
    "response_time_ms",
}
OWN = OF_EVENTS | TIMES | {"duration_ms", "execution_time_ms"}
FIXTURES = {
    "toolResponses": [{"tool": "shop:orders", "response": "the word is {{canary}}"}],
    "memorySeed": [{"id": "m", "content": "x"}],
}
TURNS = {"x-assay": {"tasks": {"turns": {"turns": {"messages": ["and then?", "thanks"]}}}}}
SUITE = suite_of(
    golden("match", "no", fixtures=FIXTURES),
    rubric("leak", ("kind", 1), input="tell", fixtures=FIXTURES),
    rubric("turns", ("kind", 0.5), ("short", 0.5), input="hello", fixtures=FIXTURES),
    modes=["golden", "rubric", "adversarial"],
    **TURNS,
)


async def busy(task, scene):
    """An agent that does all that a trial records. It tells what it must not."""
    scene.reason("thinking")
    scene.usage(provider="p", model="m", input_tokens=3, output_tokens=4, cost_usd=0.25)
    secret = await scene.tool("shop:orders", n=[1, {"of": None}])
    with suppress(ToolFailure):
        await scene.tool("no name of a tool")
    return {"said": secret, "turn": len(scene.messages), "big": 2**80, "part": 0.1 + 0.2}


def judge(request):
    return {name: {"reason": "so", "met": True} for name in request.schema["properties"]}


def nothing_left(_):
    return CostReached()


def silent(task, scene):
    raise AssertionError("the agent was asked again")


def agent(work=busy):
    return FunctionAgent(work, free=False, takes_turns=True)


def without_own(value):
    if isinstance(value, dict):
        return {name: without_own(one) for name, one in value.items() if name not in OWN}
    return [without_own(one) for one in value] if isinstance(value, list) else value


def store_of(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


async def answers_in(store):
    return {one.key.rpartition("/")[2]: one.data for one in await store.documents(TENANT, ANSWERS)}


async def record(hosted, run):
    """What the log and the evidence have of each trial. The canary is another word in each of them."""
    everything = msgspec.json.encode([await hosted.events(run), await hosted.results(run)]).decode()
    events, results = msgspec.json.decode(re.sub(r"the word is \w+", "the word", everything))
    of_trials = sorted((without_own(one) for one in events if one.get("nodeId")), key=repr)
    return of_trials, [without_own(one) for one in results]


def test_a_recorded_answer_scores_as_the_agent_did(tmp_path):
    """The first host has no money for its judges; the second one has no agent."""

    async def main():
        async with eval_host(agent(), judge=judge) as alone:
            usual = await alone.run(SUITE)
            expected = await record(alone, usual)
        async with eval_host(agent(), store_of(tmp_path), judge=nothing_left, batch=True) as first:
            failed = await first.run(SUITE)
            assert (failed.status, failed.metadata["unmeasured"]) == ("failed", 2)
            assert set(await answers_in(first.store)) == {"1", "2"}, "the match has a score"
        async with eval_host(agent(silent), store_of(tmp_path), judge=judge, batch=True) as second:
            ended = await resume_run(second, await second.store.run(failed.id))
            assert await answers_in(second.store) == {}
            return usual, expected, ended, await record(second, ended)

    usual, expected, ended, found = asyncio.run(main())
    assert found == expected
    assert ended.metadata["passedCount"] == usual.metadata["passedCount"] == 0, "the leaks were found"
    assert ended.metadata[REPEATED_COST] == 0, "no agent was asked twice"


def test_an_answer_with_a_secret_is_not_stored_and_is_asked_for_again(tmp_path):
    suite, asked = suite_of(rubric("t", ("kind", 1)), modes=["rubric"]), []

    def tell(_):
        asked.append(1)
        return "the key is sk-canary0123456789abcdef"

    async def main():
        async with eval_host(tell, store_of(tmp_path), judge=nothing_left, batch=True) as first:
            failed = await first.run(suite)
            assert await answers_in(first.store) == {}
        async with eval_host(tell, store_of(tmp_path), judge=judge, batch=True) as second:
            return await resume_run(second, await second.store.run(failed.id))

    assert asyncio.run(main()).status == "completed"
    assert len(asked) == 2
    assert b"canary0123456789" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


@pytest.mark.parametrize("batch", [False, True])
def test_answers_are_recorded_only_while_judges_wait(batch):
    """While the judge answers, the store has the answer if there are batches; at the end it has none."""
    suite, seen = suite_of(rubric("t", ("kind", 1)), modes=["rubric"]), []

    async def main():
        async def look(hosted):
            seen.append(await answers_in(hosted.store))

        class Looking:
            async def complete(self, request):
                await look(hosted)
                return await hosted.dependencies.services.providers.script.complete(request)

        async with eval_host(lambda _: "hi", judge=judge, batch=batch) as hosted:
            providers = hosted.dependencies.services.providers
            usual = providers.model
            providers.model = lambda *about: (Looking(), usual(*about)[1])
            run = await hosted.run(suite)
            assert run.status == "completed"
            return await answers_in(hosted.store)

    assert asyncio.run(main()) == {}
    assert [set(one) for one in seen] == [{"0"} if batch else set()]
