"""The check that combines others: weights, expressions, thresholds, and parts that were not measured."""

import asyncio
import math
from inspect import isawaitable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.checks import STANDARD
from assay.checks.arguments import bind
from assay.checks.programs.arithmetic import DEEPEST, MOST_CHARACTERS, Arithmetic
from assay.checks.runner import ResultOptions, call, prepare, to_result
from assay.errors import Fault, InvalidRequest
from assay.ports import Services
from assay.protocol.completion import Completion, CompletionRequest
from assay.protocol.evaluation import Check
from assay.results.spending import spending_of
from assay.testing import ScriptedModel
from support.checks.results_schemas import fits

PARIS = {"type": "contains", "name": "paris", "arguments": {"text": "$.output.value", "phrases": ["Paris"]}}
ROME = {"type": "contains", "name": "rome", "arguments": {"text": "$.output.value", "phrases": ["Rome"]}}
NEAR = {
    "type": "f1",
    "name": "near",
    "arguments": {"text": "$.output.value", "references": ["It is Paris and Lyon"]},
}
LOST = {"type": "exact_match", "name": "lost", "arguments": {"actual": "$.output.nothing", "expected": "x"}}
EDIT = {
    "type": "edit_distance",
    "name": "edit",
    "arguments": {"text": "$.output.value", "references": ["It is Pari"], "max_distance": 5},
}
JUDGE = {"type": "llm_judge", "name": "judge", "arguments": {
    "prompt": "{{$.output.value}}?",
    "response_format": {"type": "object", "required": ["score"], "properties": {"score": {"type": "number"}}},
}}  # fmt: skip
CASE = {"test_case": {"id": "a", "input": "?"}, "output": {"value": "It is Paris"}}


def combination(*parts, **arguments):
    return {"type": "combination", "arguments": {"checks": list(parts), **arguments}}


async def _ask(arguments, document, services):
    bound = bind(Check(**arguments), STANDARD, "checks[0]", services)
    prepared = prepare(bound, document, services)
    try:
        answer = call(prepared, services)
        answer = await answer if isawaitable(answer) else answer
    except Fault as fault:
        answer = fault
    return fits(to_result(prepared, answer, services, ResultOptions()))


def ask(check, document=CASE, **services):
    return asyncio.run(_ask(check, document, Services(**services)))


class Scripted:
    """Everybody is the same model, whose answers cost a cent."""

    remote = False

    def __init__(self, *script):
        priced = (Completion(text="", value={"score": one}, provider="p", model="m", finish_reason="stop", cost_usd=0.01,
                             input_tokens=3, output_tokens=1) for one in script)  # fmt: skip
        self.script = ScriptedModel(priced)

    def model(self, provider_config, model_config):
        return self.script, CompletionRequest(messages=(), model="m", parameters={}, timeout=None)


@pytest.mark.parametrize(
    ("check", "score", "passed"),
    [
        (combination(PARIS), 1, True),
        (combination(PARIS, ROME), 0.5, False),  # without a threshold all parts must pass
        (combination(PARIS, ROME, threshold={"min_value": 0.5}), 0.5, True),
        (combination(PARIS, ROME, threshold={"min_value": 0.6}), 0.5, False),
        (combination(PARIS, ROME, weights={"paris": 3}), 0.75, False),
        (combination(PARIS, ROME, weights={"rome": 0}), 1, True),  # a part of weight 0 counts for nothing
        (combination(PARIS, LOST, weights={"lost": 0}), 1, True),  # not even if it was not measured
        (combination(PARIS, NEAR, weights={"near": 1}, threshold={"min_value": 0.9}), (1 + 0.75) / 2, False),
        (combination(NEAR), 0.75, None),  # a score without a verdict
        (combination(EDIT), 10 / 11, True),
        (combination(EDIT, weights={"edit.passed": 1}), 1, True),  # the verdict in place of the score
        (combination(EDIT, expression="edit.distance / 4"), 0.25, None),
        (combination(PARIS, NEAR, expression="0.5 * paris + near ^ 2", threshold={"max_value": 1}), 1.0625, False),
        (combination(PARIS, LOST, expression="paris"), 1, None),
        (combination(combination(PARIS, ROME), PARIS, weights={"combination": 1}), 0.75, False),
        (combination(PARIS, ROME, threshold={"min_value": 0.9, "negate": True}), 0.5, True),
    ],
)  # fmt: skip
def test_combination(check, score, passed):
    result = ask(check)
    assert result.status == "completed", result.error
    assert result.results["score"] == pytest.approx(score)
    assert result.results.get("passed") is passed
    assert len(result.results["parts"]) == len(check["arguments"]["checks"])
    assert "test_case" not in result.resolved_arguments  # the case is not written twice


@pytest.mark.parametrize(
    ("check", "kind", "message"),
    [
        (combination(PARIS, LOST), "jsonpath_error", "the part lost was not measured: actual: $.output.nothing finds nothing"),
        (combination(ROME, LOST), "jsonpath_error", "the part lost was not measured"),
        (combination(PARIS, LOST, expression="paris + lost"), "jsonpath_error", "the part lost was not measured"),
        (combination(PARIS, expression="1 / (paris - 1)"), "validation_error", "the expression has no value: it divides by zero"),
        (combination(PARIS, expression="log(paris - 2)"), "validation_error", "the expression has no value: a function"),
        (combination(PARIS, expression="paris.words"), "validation_error", "the part paris has no number 'words'"),
        (combination(combination(LOST)), "jsonpath_error", "the part combination was not measured: the part lost was not"),
    ],
)  # fmt: skip
def test_a_combination_with_a_part_that_was_not_measured_is_not_measured(check, kind, message):
    result = ask(check)
    assert (result.status, result.results) == ("error", {})
    assert result.error.type == kind
    assert result.error.message.startswith(message)


@pytest.mark.parametrize(
    ("check", "place", "message"),
    [
        (combination(), "arguments.checks", "length >= 1"),
        (combination(PARIS, PARIS), "arguments.checks", "'paris' twice"),
        (combination({"type": "vibes", "arguments": {}}), "arguments.checks[0].type", "vibes"),
        (combination({"type": "regex", "arguments": {"text": "a", "pattern": "("}}), "arguments.checks[0].arguments.pattern", ""),
        (combination(PARIS, weights={"rom": 1}), "arguments.weights", "there is no part 'rom'; there are paris"),
        (combination(PARIS, weights={"paris": -1}), "arguments.weights", "at least 0"),
        (combination(PARIS, weights={"paris": 0}), "arguments.weights", "expected a weight above 0"),
        (combination(PARIS, weights={"paris": 1}, expression="paris"), "arguments.expression", "got both"),
        (combination(PARIS, expression="paris +"), "arguments.expression", "got the end"),
        (combination(PARIS, expression="rome"), "arguments.expression", "there is no part 'rome'"),
        (combination(PARIS, expression="__import__(1)"), "arguments.expression", "there is no function"),
        (combination(JUDGE), "arguments.checks[0]", "no model can be called"),
        (combination(combination(combination(combination(combination(combination(combination(PARIS))))))), "arguments.checks[0]", "at most 5 combinations"),
    ],
)  # fmt: skip
def test_a_combination_that_makes_no_sense_is_refused(check, place, message):
    with pytest.raises(InvalidRequest) as refused:
        bind(Check(**check), STANDARD, "checks[0]", Services())
    problem = refused.value.problems[0]
    assert problem.place.startswith(f"checks[0].{place}"), problem
    assert message in problem.message


def test_secrets_of_parts_are_not_shown():
    secret = {"provider_config": {"api_key": "sk-hidden"}}
    judge = JUDGE | {"arguments": dict(JUDGE["arguments"]) | secret}
    bound = bind(Check(**combination(judge)), STANDARD, "checks[0]")
    assert "sk-hidden" not in str(bound.displayed_literals)
    with pytest.raises(InvalidRequest, match="expected no secret"):
        bind(Check(**combination(judge)), STANDARD, "checks[0]", Services(persists_requests=True))


def test_a_combination_counts_what_its_judges_cost():
    result = ask(combination(PARIS, JUDGE, {**JUDGE, "name": "other"}), providers=Scripted(0.5, 0.25))
    assert result.results["score"] == pytest.approx((1 + 0.5 + 0.25) / 3)
    assert result.results["metadata"] == {"cost_usd": 0.02, "tokens_used": 8}
    assert spending_of(result).cost_usd == 0.02


def test_no_judge_is_asked_after_a_part_that_failed():
    providers = Scripted(0.5)
    assert ask(combination(LOST, JUDGE), providers=providers).status == "error"
    assert providers.script.requests == []


def test_what_the_first_judge_cost_is_counted_if_the_second_fails():
    result = ask(combination(JUDGE, {**JUDGE, "name": "other"}), providers=Scripted(0.5))
    assert result.status == "error"
    assert result.error.message.startswith("the part other was not measured")
    assert spending_of(result).known_cost_usd == 0.01


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "expected that all parts pass, got a score of 0.5 (paris 1, rome 0)"),
        ({"threshold": {"min_value": 0.5}}, "a score of 0.5 is at least 0.5 (paris 1, rome 0)"),
        ({"threshold": {"min_value": 0.5, "min_inclusive": False, "max_value": 1}},
         "expected a score that is above 0.5 and at most 1, got 0.5 (paris 1, rome 0)"),
        ({"threshold": {"max_value": 0.6, "negate": True}}, "expected a score that is not at most 0.6, got 0.5 (paris 1, rome 0)"),
        ({"expression": "paris / 3"}, "score of 0.3333 (paris 1)"),
    ],
)  # fmt: skip
def test_a_combination_says_why(arguments, reason):
    assert ask(combination(PARIS, ROME, **arguments)).results["reason"] == reason


def test_a_combination_of_short_forms_in_the_library():
    result = assay.evaluate_sync(
        test_cases=[{"id": "a", "input": "?"}],
        outputs=[{"value": "It is Paris"}],
        checks=[{"combination": [{"contains": "Paris"}, {"regex": "is"}]}],
    )
    (check,) = result.results[0].check_results
    assert (check.results["passed"], check.results["score"]) == (True, 1)
    assert [part["name"] for part in check.results["parts"]] == ["contains", "regex"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("2 ^ 3 ^ 2", 512), ("-2 ^ 2", -4), ("2 ^ -1", 0.5), ("8 / 4 / 2", 1),
        ("1 - 2 - 3", -4), ("max(1, a, 3)", 3), ("min(a, 1)", 1), ("floor(2.7) + ceil(0.1)", 3), ("abs(-a)", 2),
        ("sqrt(16)", 4), ("exp(0)", 1), ("log(1)", 0), (" a.b *1e2 ", 500), ("+a", 2), (".5", 0.5),
    ],
)  # fmt: skip
def test_arithmetic_has_the_value_of_its_expression(text, value):
    assert Arithmetic(text).value({"a": 2.0, "b": 3.0, "a.b": 5.0}) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    ["", "a b", "1 +", "(1", "a(1)", "__import__('os')", "a.__class__()", "[1]", "lambda: 1", "a ** 2", "max(1)", "abs(1, 2)",
     "1" * (MOST_CHARACTERS + 1), "(" * (DEEPEST + 1), "-" * (DEEPEST + 1) + "1", "a if a else a", "a;a", "é"],
)  # fmt: skip
def test_arithmetic_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match=r"expected|there is no function|takes"):
        Arithmetic(text)


def test_a_long_chain_has_a_value():
    assert Arithmetic("+".join(["a"] * 1000)).value({"a": 1.0}) == 1000


@pytest.mark.parametrize("text", ["9^9^9", "a/0", "(0-8)^0.5", "log(0)", "sqrt(-1)", "exp(1e9)", "1e308*10"])
def test_arithmetic_without_a_value_says_so(text):
    with pytest.raises(ValueError, match=r"it divides|too large|no value|no number"):
        Arithmetic(text).value({"a": 1.0})


terms = st.recursive(
    st.sampled_from(["a", "b", "1", "0.5", "3"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner) | st.builds("-{}".format, inner)
    ),
    max_leaves=12,
)


@given(terms, st.floats(-5, 5), st.floats(-5, 5))
def test_arithmetic_agrees_with_python(text, a, b):
    try:
        expected = float(eval(text, {"__builtins__": {}}, {"a": a, "b": b}))  # four operators of our own
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="divides"):
            Arithmetic(text).value({"a": a, "b": b})
        return
    if math.isfinite(expected):
        assert Arithmetic(text).value({"a": a, "b": b}) == pytest.approx(expected)
