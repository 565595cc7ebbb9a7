"""What a case needed is given back when it ends, and does not wait for a search for garbage."""

import gc
from collections import Counter

import pytest

import assay
from assay.testing import ScriptedModel
from support.evals import FunctionAgent, golden, rubric, run_suite, suite_of
from support.models.judges import enter, judge
from support.models.provider_server import ProviderServer, fitting, instance

POLITE = judge("Polite? {{$.output.value}}")


class Forgetful(ScriptedModel):
    async def complete(self, request):
        completion = await super().complete(request)
        self.requests.clear()
        return completion


async def answer(question, context):
    await context.memory.write("noted")
    return f"text {question}"


def evaluation(count, **more):
    outputs = None if "agent" in more else [{"value": "text"}] * count
    cases = [{"id": f"c{at}", "input": f"q{at}"} for at in range(count)]
    assert assay.evaluate_sync(cases, outputs, [POLITE], **more).status == "completed"


def suite(count, turns=None, **more):
    tasks = [golden(f"g{at}", "text", at) for at in range(count)]
    tasks += [rubric(f"r{at}", ("is polite", 1), input=at) for at in range(count)]
    own = {"checks": [POLITE], **({"turns": turns} if turns else {})}
    extension = {"tasks": {task["taskId"]: own for task in tasks}}
    document = suite_of(*tasks, modes=("golden", "rubric"), **{"x-assay": extension})
    agent = FunctionAgent(answer, takes_turns=True)
    run, *_ = run_suite(agent, document, judge=lambda asked: instance(asked.schema), **more)
    assert run.status == "completed"


KINDS = {
    "outputs": evaluation,
    "agent": lambda count: evaluation(count, agent=answer),
    "trials": lambda count: evaluation(count, agent=answer, trials=3),
    "suite": suite,
    "suite in a batch": lambda count: suite(count, batch=True),
    "suite of conversations": lambda count: suite(count, turns={"messages": ["and then?"]}),
}


def remaining(kind, count):
    """How many objects of assay there are after an evaluation of so many cases, by their types."""
    gc.collect()
    gc.disable()
    try:
        KINDS[kind](count)
        types = Counter(type(one) for one in gc.get_objects())
    finally:
        gc.enable()
    return {one: number for one, number in types.items() if str(one.__module__).startswith("assay.")}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_case_waits_for_a_search_for_garbage(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("support.evals.ScriptedModel", Forgetful)
    with ProviderServer(answer=fitting) as server:
        enter(tmp_path, server, monkeypatch)
        remaining(kind, 2)  # what is made once
        few, many = remaining(kind, 20), remaining(kind, 40)
    assert {one: number for one, number in many.items() if number >= few.get(one, 0) + 10} == {}
