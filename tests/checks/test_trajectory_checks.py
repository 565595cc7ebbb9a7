"""Checks of what an agent did: the forms that they read, the modes, patterns of calls, and laws of the matching."""

import asyncio
import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.checks import STANDARD, worker_tasks
from assay.checks.arguments import bind
from assay.checks.runner import ResultOptions, run_check
from assay.checks.trajectory.match_calls import matchers_of, pairs
from assay.checks.trajectory.read_calls import Call, read_trajectory
from assay.errors import InvalidRequest, ValueFault
from assay.ports import Services
from assay.protocol.evaluation import Check
from support.checks.results_schemas import fits

SERVICES = Services()


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def ask(type, trajectory, /, **arguments):
    given = {"trajectory": "$.trajectory", **arguments}
    bound = bind(Check(type=type, arguments=given), STANDARD, "checks[0]")
    return fits(run_check(bound, {"trajectory": trajectory}, SERVICES, ResultOptions()))


def passed(type, trajectory, /, **arguments):
    result = ask(type, trajectory, **arguments)
    assert result.status == "completed", result.error
    return result.results["passed"]


FIND, PAY = call("find", order=17), call("pay", order=17, amount=3)
FORMS = {
    "steps": [
        {"type": "reasoned", "text": "look first"},
        {"type": "tool-called", "call_id": "1", "tool": "find", "inputs": {"order": 17}},
        {"type": "tool-returned", "call_id": "1", "tool": "find", "status": "ok", "outcome": {}},
        {"type": "used", "usage": {"provider": "p", "model": "m", "input_tokens": 1, "output_tokens": 1}},
        {"type": "tool-called", "call_id": "2", "tool": "pay", "inputs": {"order": 17, "amount": 3}},
    ],
    "openai": [
        {"role": "user", "content": "pay 17"},
        {
            "role": "assistant",
            "content": "look first",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"order": 17}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "{}"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "2",
                    "type": "function",
                    "function": {"name": "pay", "arguments": '{"order":17,"amount":3}'},
                }
            ],
        },
        {"role": "assistant", "content": "It is paid."},
    ],
    "responses": [
        {"role": "user", "content": "pay 17"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "find", "arguments": '{"order": 17}'},
        {"type": "function_call_output", "call_id": "1", "output": "{}"},
        {"type": "function_call", "call_id": "2", "name": "pay", "arguments": '{"order": 17, "amount": 3}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is paid."}]},
    ],
    "anthropic": [
        {"role": "user", "content": "pay 17"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "look first"},
                {"type": "tool_use", "id": "1", "name": "find", "input": {"order": 17}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "{}"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "2", "name": "pay", "input": {"order": 17, "amount": 3}}],
        },
    ],
    "langchain": [
        {"type": "human", "content": "pay 17"},
        {
            "type": "ai",
            "content": [
                {"type": "text", "text": "look first"},
                {"type": "tool_use", "id": "1", "name": "find", "input": {"order": 17}},
            ],
            "tool_calls": [{"name": "find", "args": {"order": 17}, "id": "1"}],
        },
        {"type": "tool", "content": "{}", "tool_call_id": "1"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "pay", "args": {"order": 17, "amount": 3}}]},
    ],
    "spans": [
        {"name": "chat m", "attributes": {"gen_ai.operation.name": "chat"}},
        {
            "name": "execute_tool find",
            "attributes": {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "find",
                "gen_ai.tool.call.arguments": '{"order": 17}',
            },
        },
        {
            "name": "execute_tool pay",
            "attributes": [
                {"key": "gen_ai.tool.name", "value": {"stringValue": "pay"}},
                {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": '{"order":17,"amount":3}'}},
            ],
        },
    ],
    "calls": [{**FIND, "outcome": "ok"}, PAY, {"tool": "drop", "outcome": "refused"}],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_calls(form):
    made = [one for one in read_trajectory(FORMS[form]).calls if not one.refused]
    assert [one.document for one in made] == [FIND, PAY]
    assert passed("tool_calls", FORMS[form], expected=[FIND, PAY])
    assert not passed("tool_calls", FORMS[form], expected=[PAY, FIND])
    assert passed("no_repeated_calls", FORMS[form])
    assert not passed("no_repeated_calls", [*FORMS[form], FIND])


@pytest.mark.parametrize(("form", "steps"), [(one, 2 if one == "spans" else 3) for one in FORMS])
def test_a_step_is_a_call_or_a_reasoning_and_no_answer(form, steps):
    result = ask("max_steps", FORMS[form], limit=steps)
    assert (result.results["passed"], result.results["steps"]) == (True, steps)
    reason = f"expected at most {steps - 1} step{'' if steps == 2 else 's'}, got {steps}"
    assert ask("max_steps", FORMS[form], limit=steps - 1).results["reason"] == reason


@pytest.mark.parametrize(
    "item",
    [
        3,
        "find",
        {},
        {"name": "find"},
        {"type": "toolcalled", "tool_name": "find"},
        {"type": "tool-called", "inputs": {}},
        {"role": "assistant", "tool_calls": [{"id": 1}]},
        {"role": 3},
    ],
)
@pytest.mark.parametrize("type", ["tool_calls", "max_steps", "no_repeated_calls"])
def test_an_item_of_no_known_form_is_an_error_and_no_agent_that_did_nothing(type, item):
    more = {"tool_calls": {"forbidden": ["drop"]}, "max_steps": {"limit": 9}}.get(type, {})
    result = ask(type, [FIND, item], **more)
    assert (result.status, result.error.type) == ("error", "validation_error")
    assert result.error.message.startswith("trajectory[1]: expected a step of a trajectory, ")


MODES = [  # calls, expected, the modes that pass
    ("ab", "ab", "exact any_order in_order superset subset"),
    ("ba", "ab", "any_order superset subset"),
    ("abc", "ab", "in_order superset"),
    ("acb", "ab", "in_order superset"),
    ("a", "ab", "subset"),
    ("", "ab", "subset"),
    ("", "", "exact any_order in_order superset subset"),
    ("a", "", "in_order superset"),
    ("aa", "a", "in_order superset"),
    ("a", "aa", "subset"),
    ("bc", "ab", ""),
]


@pytest.mark.parametrize(("calls", "expected", "modes"), MODES)
@pytest.mark.parametrize("mode", ["exact", "any_order", "in_order", "superset", "subset"])
def test_a_mode_passes_the_calls_that_its_row_names(calls, expected, modes, mode):
    trajectory = [call(one) for one in calls]
    assert passed("tool_calls", trajectory, expected=list(expected), mode=mode) is (mode in modes.split())


PATTERNS = [
    ("pay", True),
    ({"tool": "pay"}, True),
    ({"tool": "pay", "arguments": {"order": 17.0, "amount": 3}}, True),
    ({"tool": "pay", "arguments": {"order": 17}}, False),  # equal: the amount is one too many
    ({"tool": "pay", "arguments": {"order": "17", "amount": 3}}, False),
    ({"tool": "pay", "arguments": {}}, False),
    ({"tool": "pay", "schema": {"required": ["amount"]}}, True),
    ({"tool": "pay", "schema": {"properties": {"amount": {"maximum": 2}}}}, False),
    ({"tool": "pay", "schema": False}, False),
    (
        {"tool": "pay", "check": {"type": "threshold", "arguments": {"value": "$.arguments.amount", "min_value": 3}}},
        True,
    ),
    (
        {"tool": "pay", "check": {"type": "threshold", "arguments": {"value": "$.arguments.amount", "min_value": 4}}},
        False,
    ),
    (  # a path that finds nothing, and a value that the check cannot take, do not fit
        {"tool": "pay", "check": {"type": "contains", "arguments": {"text": "$.arguments.note", "phrases": ["a"]}}},
        False,
    ),
    (
        {"tool": "pay", "check": {"type": "threshold", "arguments": {"value": "$.tool", "min_value": 4}}},
        False,
    ),
    (
        {
            "tool": "pay",
            "arguments": {"order": 17, "amount": 3},
            "schema": {"maxProperties": 2},
            "check": {"type": "regex", "arguments": {"text": "$.tool", "pattern": "^p"}},
        },
        True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "answer"), PATTERNS)
def test_a_pattern_of_a_call(pattern, answer):
    assert passed("tool_calls", [PAY], expected=[pattern]) is answer
    assert passed("tool_calls", [PAY], forbidden=[pattern]) is (
        not answer
        and pattern not in ({"tool": "pay", "arguments": {}}, {"tool": "pay", "arguments": {"order": 17}})
    )


def test_a_subset_of_the_arguments():
    expected = [{"tool": "pay", "arguments": {"order": 17}}]
    assert passed("tool_calls", [PAY], expected=expected, argument_match="subset")
    nested = [{"tool": "pay", "arguments": {"a": {}}}]
    assert not passed("tool_calls", [call("pay", a={"b": 1})], expected=nested, argument_match="subset")


REASONS = [
    (["find", "pay"], {}, [FIND], "expected a call of pay; it called find"),
    (
        ["find", "pay"],
        {},
        [PAY, FIND],
        'call 1: expected find, got pay with {"order":17,"amount":3}; it called',
    ),
    (["find"], {}, [FIND, PAY], "did not expect a call of pay with"),
    (["pay", "find"], {"mode": "in_order"}, [FIND, PAY], "expected a call of find in this order"),
    (["find"], {"forbidden": ["pay"], "mode": "superset"}, [FIND, PAY], "must not make a call of pay"),
    (
        [{"tool": "pay", "schema": False}],
        {},
        [],
        "expected a call of pay that fits its schema; it called no tool",
    ),
]


@pytest.mark.parametrize(("expected", "more", "calls", "reason"), REASONS)
def test_the_reason_of_a_failure(expected, more, calls, reason):
    results = ask("tool_calls", calls, expected=expected, **more).results
    assert results["passed"] is False
    assert results["reason"].startswith(reason)


def test_a_refused_call_was_tried_and_not_made():
    tried = [FIND, {**call("drop"), "refused": True}]
    assert passed("tool_calls", tried, expected=["find"])
    assert not passed("tool_calls", tried, forbidden=["drop"])


@pytest.mark.parametrize(
    ("arguments", "place", "message"),
    [
        ({}, "arguments", "expected `expected`, `forbidden` or both, got neither"),
        ({"expected": [3]}, "expected[0]", "expected"),
        ({"expected": [{"arguments": {}}]}, "expected[0]", "tool"),
        ({"expected": [{"tool": ""}]}, "expected[0]", ""),
        ({"expected": [{"tool": "a", "schema": {"type": "nothing"}}]}, "expected[0].schema", ""),
        (
            {"expected": [{"tool": "a", "check": {"type": "llm_judge", "arguments": {"prompt": "?"}}}]},
            "expected[0].check.type",
            "expected a check that answers at once, and llm_judge waits for a model",
        ),
        (
            {"forbidden": [{"tool": "a", "check": {"type": "regex", "arguments": {"text": "$.arguments[", "pattern": "a"}}}]},
            "forbidden[0].check.arguments.text",
            "",
        ),
        (
            {"forbidden": [{"tool": "a", "check": {"type": "regex", "arguments": {"text": "$.tool", "pattern": "("}}}]},
            "forbidden[0].check.arguments.pattern",
            "",
        ),
        ({"expected": ["a"], "mode": "strict"}, "mode", "expected one of any_order, exact, in_order, subset, superset"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_every_case_is_refused_with_its_place(arguments, place, message):
    with pytest.raises(InvalidRequest) as refused:
        ask("tool_calls", [], **arguments)
    (problem,) = refused.value.problems
    assert place in problem.place
    assert message in problem.message


def test_patterns_may_come_from_the_case():
    def results(expected):
        case = {"id": "a", "input": "?", "expected": expected}
        output = {"value": "done", "metadata": {"trajectory": FORMS["steps"]}}
        checks = [{"type": "tool_calls", "arguments": {"expected": "$.test_case.expected"}}]
        result = assay.evaluate_sync([case], [output], checks)
        return result.results[0].check_results[0]

    assert results(["find", PAY]).results["passed"] is True
    assert results(["pay"]).results["passed"] is False
    wrong = results([{"tool": "a", "check": {"type": "no_such", "arguments": {}}}])
    assert (wrong.status, wrong.error.type) == ("error", "validation_error")


@pytest.mark.parametrize(
    ("limit", "ignored", "answer", "reason"),
    [
        (1, [], False, 'expected each call once, got find with {"order":17} 3 times'),
        (2, [], False, 'expected each call at most 2 times, got find with {"order":17} 3 times'),
        (3, [], True, "made no call more than 3 times"),
        (1, ["find"], True, "made no call twice"),
    ],
)
def test_no_repeated_calls(limit, ignored, answer, reason):
    calls = [FIND, call("find", order=18), FIND, call("find", order=17.0), PAY]
    results = ask("no_repeated_calls", calls, limit=limit, ignore_tools=ignored).results
    assert (results["passed"], results["reason"]) == (answer, reason)


def test_an_agent_of_an_evaluation_has_its_trajectory_at_the_default_path():
    async def act(task, ctx):
        ctx.reason("think")
        return task

    ran = asyncio.run(
        assay.evaluate(
            [{"id": "a", "input": "hi"}],
            agent=act,
            checks=[
                {"type": "tool_calls", "arguments": {"expected": []}},
                {"type": "max_steps", "arguments": {"limit": 0}},
                {"type": "no_repeated_calls", "arguments": {}},
            ],
        )
    )
    assert [one.results["passed"] for one in ran.results[0].check_results] == [True, False, True]


def test_a_long_trajectory_is_compared_in_a_worker_process():
    calls = [call("find", order=at) for at in range(150)]
    expected = [{"tool": "find", "arguments": {"order": at}} for at in reversed(range(150))]
    assert passed("tool_calls", calls, expected=expected, mode="any_order")
    assert not passed("tool_calls", [*calls, FIND], expected=expected, mode="any_order")
    assert not passed("tool_calls", calls * 40, forbidden=["find"])
    assert passed("max_steps", calls * 40, limit=6_000)
    assert not passed("no_repeated_calls", calls * 40)


def test_a_pattern_that_backtracks_is_no_answer(monkeypatch):
    monkeypatch.setattr(worker_tasks, "SECONDS", 0.3)  # of processor time
    slow = {"type": "regex", "arguments": {"text": "$.arguments.text", "pattern": "^(a+)+(a+)+$"}}
    result = ask("tool_calls", [call("say", text="a" * 50 + "b")], expected=[{"tool": "say", "check": slow}])
    assert (result.status, result.error.type) == ("error", "timeout_error")


@pytest.mark.parametrize("text", ["{", "[" * 5_000, "nan", '"\\ud800"'])
def test_arguments_that_are_no_json_stay_a_text(text):
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": text}}]}
    assert passed("tool_calls", [message], expected=["a"])
    assert not passed("tool_calls", [message], expected=[{"tool": "a", "arguments": {}}])


names = st.sampled_from("ab")
some_calls = st.lists(st.builds(lambda tool, n: Call(tool, {"n": n}), names, st.integers(0, 2)), max_size=4)
some_patterns = st.lists(
    st.builds(
        lambda tool, n: {"tool": tool} | ({} if n is None else {"arguments": {"n": n}}),
        names,
        st.none() | st.integers(0, 2),
    ),
    max_size=4,
)


@given(calls=some_calls, patterns=some_patterns)
def test_the_pairs_are_as_many_as_possible(calls, patterns):
    matchers = matchers_of(patterns, "expected")
    found = pairs(matchers, calls, SERVICES)
    assert len(set(found.values())) == len(found)
    assert all(matchers[pattern].fits(calls[at], SERVICES) for pattern, at in found.items())
    places = [*range(len(calls)), *([None] * len(patterns))]
    best = max(
        sum(at is not None and one.fits(calls[at], SERVICES) for one, at in zip(matchers, way, strict=False))
        for way in permutations(places, len(patterns))
    )
    assert len(found) == best


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "role", "tool", "tool_calls", "function", "name", "arguments", "content", "attributes"]),
        inner | st.sampled_from(["tool-called", "assistant", "ai", "function_call", "x_call_output", "said"]),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(items=st.lists(documents, max_size=3))
def test_any_json_is_read_or_refused(items):
    known = True
    try:
        calls = read_trajectory(items).calls
    except ValueFault:
        known, calls = False, []
    assert all(isinstance(one.tool, str) for one in calls)
    assert known or items
    json.dumps([one.document for one in calls])


UNRECORDED = [
    {"type": "tool-called", "call_id": "1", "tool": "search"},
    {"attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}},
]


@pytest.mark.parametrize("item", UNRECORDED, ids=["step", "span"])
@pytest.mark.parametrize(
    ("check", "status"),
    [
        ({"type": "tool_calls", "arguments": {"expected": ["search"]}}, "completed"),
        (
            {"type": "tool_calls", "arguments": {"expected": [{"tool": "search", "arguments": {"q": 1}}]}},
            "error",
        ),
        ({"type": "tool_calls", "arguments": {"expected": [{"tool": "search", "schema": {}}]}}, "error"),
        ({"type": "no_repeated_calls", "arguments": {}}, "error"),
        ({"type": "max_steps", "arguments": {"limit": 1}}, "completed"),
    ],
)
def test_arguments_that_are_not_recorded_are_not_measured(item, check, status):
    output = {"value": "a", "metadata": {"trajectory": [item]}}
    result = assay.evaluate_sync([{"id": "1", "input": "q"}], [output], [check])
    (found,) = result.results[0].check_results
    assert found.status == status, found
    assert found.results == {"passed": True} | found.results if status == "completed" else found.error
