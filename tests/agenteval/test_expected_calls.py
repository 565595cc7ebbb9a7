"""Expectations on the tool calls of a task: what they take, what they do to its score, and where they are refused."""

import asyncio
import contextlib
import json
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import assay as library
from assay.agenteval.scoring.expected_calls import ExpectedToolCalls
from assay.agenteval.suites.suite import read_own_suite, read_suite
from assay.agenteval.suites.suite_store import SuiteStore
from assay.backends.stores.open import open_store
from assay.errors import InvalidRequest
from assay.ports import Services
from support.evals import FunctionAgent, golden, rubric, suite_of
from support.evals import run_suite as on_host

FIXTURES = {
    "toolResponses": [{"tool": tool, "response": {"ok": True}} for tool in ("look", "refund", "drop")]
}
PACK = Path(__file__).parents[2] / "examples" / "promotion" / "sorter-1.0.0"
SECRET_ARGUMENT = "order-4711-of-ada"


def suite(expected=None, *, task=None, modes=("golden",), **more):
    task = task or golden("t", "done", {"x": 1}, fixtures=FIXTURES)
    extension = {"x-assay": {"tasks": {"t": expected}}} if expected is not None else {}
    return suite_of(task, modes=modes, **extension, **more)


def agent(*calls):
    async def act(task, ctx):
        for tool, arguments in calls:
            with contextlib.suppress(library.ToolFailure):
                await ctx.call(tool, arguments)
        return "done"

    return act


def scored(document, *calls, **more):
    return asyncio.run(library.run_suite(document, agent(*calls), free=True, **more))


LOOK, REFUND, DROP = ("look", {"order": "17", "deep": {"a": [1]}}), ("refund", {}), ("drop", {})
MET = [
    ({"must_call": ["look"]}, [LOOK]),
    ({"must_call": ["look", "refund"]}, [REFUND, LOOK]),  # in any order
    ({"must_call": [{"tool": "look", "arguments": {"order": "17"}}]}, [LOOK]),
    ({"must_call": [{"tool": "look", "arguments": {"deep": {"a": [1.0]}}}]}, [LOOK]),
    ({"must_call": [{"tool": "look", "arguments": {"order": "$.x"}}]}, [("look", {"order": "$.x"})]),
    ({"must_not_call": ["drop"]}, [LOOK, REFUND]),
    ({"must_not_call": [{"tool": "look", "arguments": {"order": "18"}}]}, [LOOK]),
    ({"must_call": ["look"], "must_not_call": [{"tool": "look", "arguments": {"all": True}}]}, [LOOK]),
]
UNMET = [
    ({"must_call": ["look"]}, [], "expected a call of look; it called no tool"),
    ({"must_call": ["look", "refund"]}, [LOOK], "expected a call of refund; it called look"),
    (
        {"must_call": [{"tool": "look", "arguments": {"order": 17}}]},
        [LOOK],
        'expected a call of look with {"order":17}; it called look',
    ),
    ({"must_call": [{"tool": "look", "arguments": {"deep": {}}}]}, [LOOK], "expected a call of look with"),
    ({"must_not_call": ["drop"]}, [LOOK, DROP], "must not make a call of drop; it called look, drop"),
    (
        {"must_not_call": [{"tool": "look", "arguments": {"order": "17"}}]},
        [LOOK],
        "must not make a call of look with",
    ),
]


@pytest.mark.parametrize(("expected", "calls"), MET)
def test_a_task_with_met_expectations_has_the_score_of_its_answer(expected, calls):
    run = scored(suite(expected), *calls)
    assert (run.passed, run.summary.aggregate_score, run.reasons) == (True, 1.0, [])


@pytest.mark.parametrize(("expected", "calls", "reason"), UNMET)
def test_a_task_with_an_unmet_expectation_scores_0_and_says_which(expected, calls, reason):
    run = scored(suite(expected), *calls)
    assert (run.status, run.passed, run.summary.aggregate_score) == ("completed", False, 0.0)
    assert run.reasons[0].message.startswith(reason)


def test_a_wrong_answer_stays_wrong():
    task = golden("t", "other", {}, fixtures=FIXTURES)
    assert scored(suite({"must_call": ["look"]}, task=task), LOOK).summary.aggregate_score == 0


def test_a_rubric_with_an_unmet_expectation_scores_0():
    met = {"criterion_1": {"reason": "yes", "met": True}}
    task = rubric("t", ("is kind", 1), input={}, fixtures=FIXTURES)
    document = suite({"must_call": ["look"]}, task=task, modes=("rubric",))
    summary = on_host(FunctionAgent(lambda task: "kind"), document, judge=[json.dumps(met)])[2]
    assert (summary.aggregate_score, summary.passed) == (0, False)


def test_each_trial_is_measured_by_itself():
    turns = iter(range(3))

    async def act(task, ctx):
        if next(turns) != 1:
            await ctx.call(*LOOK)
        return "done"

    run = asyncio.run(
        library.run_suite(suite({"must_call": ["look"]}), act, free=True, trials=3, concurrency=1)
    )
    assert (run.report.tasks[0].trials_passed, run.report.tasks[0].passed) == (2, False)


def test_an_attack_run_and_a_part_have_the_expectations_too():
    run = scored(suite({"must_not_call": ["drop"]}, modes=("adversarial",)), DROP)
    assert run.summary.tasks[0].passed is False
    document = suite({"must_call": ["look"]})
    document["tasks"].append(golden("u", "done", {}))
    assert scored(document, tasks=["t"]).report.tasks[0].passed is False
    assert scored(document, tasks=["u"]).report.tasks[0].passed is True


def test_arguments_are_in_no_event_and_in_no_scorecard():
    call = ("look", {"order": SECRET_ARGUMENT})
    expected = {"must_call": [{"tool": "refund", "arguments": {"order": SECRET_ARGUMENT}}]}

    async def run():
        store = await open_store("memory:")
        ran = await library.run_suite(suite(expected), agent(call), free=True, store=store)
        stored = await store.run(ran.run_id)
        events = [event.data for event in await store.events(ran.run_id)]
        await store.close()
        return ran, stored, events

    ran, stored, events = asyncio.run(run())
    assert SECRET_ARGUMENT in ran.reasons[0].message  # a reason is content
    assert SECRET_ARGUMENT not in repr(ran.summary) + repr(ran.report) + repr(stored.metadata)
    assert not [data for data in events if SECRET_ARGUMENT.encode() in data]


REFUSED = [
    (3, "x-assay", "expected an object"),
    ({"task": {}}, "x-assay", "task"),
    ({"tasks": {"u": {"must_call": ["look"]}}}, "x-assay.tasks.u", "the suite has no task with this id"),
    (
        {"tasks": {"t": {}}},
        "x-assay.tasks.t",
        "expected must_call, must_not_call, checks, fixtures or turns, got none",
    ),
    ({"tasks": {"t": {"call": []}}}, "x-assay.tasks.t", "call"),
    ({"tasks": {"t": {"must_call": "look"}}}, "x-assay.tasks.t.must_call", "expected"),
    ({"tasks": {"t": {"must_call": [{}]}}}, "x-assay.tasks.t.must_call[0]", "tool"),
    ({"tasks": {"t": {"must_call": [""]}}}, "x-assay.tasks.t.must_call[0].tool", ""),
    (
        {"tasks": {"t": {"must_call": [{"tool": "look", "arguments": 1}]}}},
        "x-assay.tasks.t.must_call[0].arguments",
        "",
    ),
    (
        {"tasks": {"t": {"must_not_call": ["lok"]}}},
        "x-assay.tasks.t.must_not_call[0].tool",
        "no fixture of the task answers 'lok', so the agent does not have this tool; there are fixtures for drop",
    ),
    (
        {"tasks": {"t": {"must_call": [{"tool": "look", "arguments": {"a": 1}}], "must_not_call": ["look"]}}},
        "x-assay.tasks.t.must_call[0]",
        "a call that must be made and must not be made",
    ),
]


@pytest.mark.parametrize(("extension", "place", "message"), REFUSED)
def test_wrong_expected_calls_are_refused_with_their_place(extension, place, message):
    with pytest.raises(InvalidRequest) as refused:
        read_own_suite({**suite(), "x-assay": extension})
    (problem,) = refused.value.problems
    assert problem.place.startswith(place)
    assert message in str(problem)


def test_problems_of_the_suite_and_of_its_extension_are_listed_together():
    with pytest.raises(InvalidRequest) as refused:
        read_own_suite({**suite({"call": []}), "version": 1})
    assert len(refused.value.problems) == 2


def test_what_other_hosts_read_refuses_the_extension_and_names_the_tasks():
    with pytest.raises(
        InvalidRequest,
        match="x-assay: expectations, fixtures or turns of t that only assay on this machine knows",
    ):
        read_suite(suite({"must_call": ["look"]}))


def test_an_agent_that_takes_no_tools_is_refused_before_the_run():
    live = suite({"must_call": ["look"]}, task=golden("t", "done", {}), modes=("live-shadow",))
    with pytest.raises(InvalidRequest, match=r"expectations on tool calls, and agent .* takes no tools: add"):
        asyncio.run(library.run_suite(live, lambda task: "done"))


def test_the_command_shows_the_suite_and_the_reason_and_refuses_servers_and_packs(command, tmp_path):
    (tmp_path / "suite.yaml").write_text(
        yaml.safe_dump(suite({"must_call": ["look"], "must_not_call": ["drop"]}))
    )
    (tmp_path / "mine.py").write_text(
        "def act(task, ctx):\n    ctx.tool('drop', all=True)\n    return 'done'\n"
    )
    shown = command("suite", "show", "suite.yaml", folder=tmp_path)
    assert "calls look; never drop" in shown.out
    again = json.loads(command("suite", "show", "suite.yaml", "--json", folder=tmp_path).out)
    assert read_own_suite(again).extension.tasks["t"].must_call[0].tool == "look"
    ran = command("run", "suite.yaml", "--agent", "mine:act", folder=tmp_path)
    assert ran.code == 3
    reason = "expected a call of look; must not make a call of drop; it called drop"
    assert reason in ran.out
    assert reason in command("show", "latest", folder=tmp_path).out
    assert command("export", "latest", "-o", "r.jsonl", folder=tmp_path).code == 0
    assert (
        reason
        in command("gate", "r.jsonl", "--markdown", "g.md", folder=tmp_path).out
        + (tmp_path / "g.md").read_text()
    )
    (tmp_path / "key").write_text("ak_x")
    there = command(
        "run",
        "suite.yaml",
        "--agent",
        "a.b",
        "--server",
        "http://127.0.0.1:1",
        "--key-file",
        "key",
        folder=tmp_path,
    )
    assert (
        there.code,
        "--server: suite.yaml: x-assay: expectations, fixtures or turns of t" in there.err,
    ) == (
        2,
        True,
    ), there.err
    pack = shutil.copytree(PACK, tmp_path / "pack")
    packed = json.loads((pack / "evals" / "sorter.json").read_text())
    first = packed["tasks"][0]["taskId"]
    packed["x-assay"] = {"tasks": {first: {"must_not_call": ["drop"]}}}
    (pack / "evals" / "sorter.json").write_text(json.dumps(packed))
    built = command("pack", "build", "pack", folder=tmp_path)
    assert (built.code, f"x-assay: expectations, fixtures or turns of {first}" in built.err) == (2, True), (
        built.err
    )


def test_rest_refuses_the_extension():
    async def put():
        store = await open_store("memory:")
        try:
            await SuiteStore(store).put("t-1", suite({"must_call": ["look"]}))
        finally:
            await store.close()

    with pytest.raises(InvalidRequest, match="x-assay: expectations, fixtures or turns of t"):
        asyncio.run(put())


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2),
)
members = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(arguments=members, more=members)
def test_a_call_fits_every_part_of_its_own_arguments(arguments, more):
    call = {"tool": "look", "arguments": {**more, **arguments}}
    pattern = [{"tool": "look", "arguments": arguments}]
    answers = [
        ExpectedToolCalls(calls=[call], must_call=pattern).run(Services())["passed"],
        ExpectedToolCalls(calls=[call], must_not_call=pattern).run(Services())["passed"],
        ExpectedToolCalls(calls=[{**call, "refused": True}], must_call=pattern).run(Services())["passed"],
    ]
    assert answers == [True, False, False]
