"""The checks that need nothing, each a table (FEP 2.3.5; FEP-19 to FEP-23)."""

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.checks import STANDARD
from assay.checks.arguments import bind, build
from assay.checks.checker import PASSED_SCHEMA, Checker, argument_schema
from assay.checks.runner import ResultOptions, run_check
from assay.checks.worker_tasks import WorkerTask
from assay.errors import InvalidRequest
from assay.ports import Services
from assay.protocol.evaluation import Check
from support.checks.results_schemas import fits

PARIS = "Paris is the capital of France"
SERVICES = Services()


def ask(type, arguments, document=None):
    bound = bind(Check(type=type, arguments=arguments), STANDARD, "checks[0]")
    return fits(run_check(bound, document or {}, SERVICES, ResultOptions()))


def passed(type, arguments, document=None):
    result = ask(type, arguments, document)
    assert result.status == "completed", result.error
    return result.results["passed"]


@pytest.mark.parametrize(
    ("actual", "expected", "options", "answer"),
    [
        ("Paris", "Paris", {}, True),
        ("paris", "Paris", {}, False),
        ("paris", "Paris", {"case_sensitive": False}, True),
        ("STRASSE", "straße", {"case_sensitive": False}, True),  # casefold, not lower (FEP-20)
        ("é", "e\u0301", {}, False),  # no normalisation
        ("Paris", "Rome", {"negate": True}, True),
        ("Paris", "Paris", {"negate": True}, False),
        (1, "1", {}, True),  # any value as text (FEP-19)
        (1.0, 1, {}, True),
        (True, "true", {}, True),
        ({"b": 1, "a": 2}, {"a": 2.0, "b": 1}, {}, True),
        ([1, 2], "[1,2]", {}, True),
        ("", "", {}, True),
        (10**21, 1e21, {}, True),  # numbers by what they are (FEP-51)
        ([{"n": 10**21}], [{"n": 1e21}], {}, True),
        ({"N": 10**21}, {"n": 1e21}, {"case_sensitive": False}, True),
        (2**53 + 1, 2.0**53, {}, False),
        ([2**53 + 1], [2.0**53], {"case_sensitive": False}, False),
        (12345678901234567000, 12345678901234567000.0, {}, False),  # the double is …168
        (12345678901234567168, 12345678901234567000.0, {}, True),
        (1e21, "1e+21", {}, True),  # and a number beside a text by its text
        (True, 1, {}, False),
        (-0.0, 0, {}, True),
    ],
)
def test_exact_match(actual, expected, options, answer):
    assert passed("exact_match", {"actual": actual, "expected": expected, **options}) is answer


def test_null_is_no_text_so_a_missing_reference_never_matches():
    result = ask("exact_match", {"actual": "", "expected": "$.e"}, {"e": None})
    assert (result.status, result.error.type, result.results) == ("error", "validation_error", {})


@pytest.mark.parametrize(
    ("phrases", "options", "answer"),
    [
        (["Paris", "France"], {}, True),
        (["Paris", "Spain"], {}, False),  # all, not any
        (["paris"], {}, False),
        (["paris"], {"case_sensitive": False}, True),
        (["Paris", "Spain"], {"negate": True}, False),  # none, not "not all" (FEP-21)
        (["Spain"], {"negate": True}, True),
    ],
)
def test_contains(phrases, options, answer):
    assert passed("contains", {"text": PARIS, "phrases": phrases, **options}) is answer


@given(text=st.text(), phrase=st.text(min_size=1).filter(lambda text: not text.startswith(("$.", "\\$."))))
def test_one_phrase_is_either_there_or_not(text, phrase):
    document = {"text": text}
    there = passed("contains", {"text": "$.text", "phrases": [phrase]}, document)
    absent = passed("contains", {"text": "$.text", "phrases": [phrase], "negate": True}, document)
    assert there is (phrase in text)
    assert there is not absent


@pytest.mark.parametrize(
    ("text", "pattern", "options", "answer"),
    [
        ("user@example.com", r"^[\w.]+@[\w.]+\.[a-z]{2,}$", {}, True),
        ("say REF-12345 now", r"REF-\d{5}\b", {}, True),  # search, not match (FEP-22)
        ("ref-12345", "REF", {}, False),
        ("ref-12345", "REF", {"flags": {"case_insensitive": True}}, True),
        ("a\nERROR: b", "^ERROR", {}, False),
        ("a\nERROR: b", "^ERROR", {"flags": {"multiline": True}}, True),
        ("a\nb", "a.b", {}, False),
        ("a\nb", "a.b", {"flags": {"dot_all": True}}, True),
        ("abc", "x", {"negate": True}, True),
        (42, r"^\d+$", {}, True),
        ("\\$.x", r"[$].x", {}, True),  # how a pattern begins with a dollar and a dot (FEP-13)
    ],
)
def test_regex(text, pattern, options, answer):
    assert passed("regex", {"text": text, "pattern": pattern, **options}) is answer


def test_a_catastrophic_pattern_is_a_timeout_and_may_be_tried_again():
    result = ask("regex", {"text": "a" * 60 + "!", "pattern": r"(a|a)+$|(\w+\s?)+$|(a+)+!!"})
    assert (result.error.type, result.error.recoverable) == ("timeout_error", True)
    assert "no answer within 1 s" in result.error.message


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "position 0"),
        ("[z-a]", "bad character range"),
        ("(" * 9_000 + ")" * 9_000, "nested too deeply"),
        ("a" * 30_000, "30000 characters"),
    ],
)
def test_an_invalid_literal_pattern_refuses_the_request(pattern, words):
    with pytest.raises(InvalidRequest, match=rf"checks\[0\].arguments.pattern: .*{words}"):
        ask("regex", {"text": "x", "pattern": pattern})


@pytest.mark.parametrize(
    ("value", "bounds", "answer"),
    [
        (0.85, {"min_value": 0.8, "max_value": 1.0}, True),
        (0.8, {"min_value": 0.8}, True),
        (0.8, {"min_value": 0.8, "min_inclusive": False}, False),
        (5, {"max_value": 5}, True),
        (5, {"max_value": 5, "max_inclusive": False}, False),
        (90, {"min_value": 20, "max_value": 80, "negate": True}, True),
        (50, {"min_value": 20, "max_value": 80, "negate": True}, False),
        (2**70, {"min_value": 2**69}, True),
    ],
)
def test_threshold(value, bounds, answer):
    assert passed("threshold", {"value": value, **bounds}) is answer
    assert passed("threshold", {"value": "$.v", **bounds}, {"v": value}) is answer


@pytest.mark.parametrize("value", ["0.9", True, None, [1], {}])
def test_a_threshold_takes_json_numbers_only(value):
    result = ask("threshold", {"value": "$.v", "min_value": 0}, {"v": value})
    assert result.error.type == "validation_error"


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({}, "got neither"),
        ({"min_value": 2, "max_value": 1}, "above max_value"),
        ({"min_value": "1"}, "number|int"),
        ({"min_value": True}, "expected a number but got true or false"),
    ],
)
def test_bounds_that_make_no_sense_refuse_the_request(bounds, words):
    with pytest.raises(InvalidRequest, match=words):
        ask("threshold", {"value": "$.v", **bounds})


@pytest.mark.parametrize(
    ("actual", "expected", "mode", "answer"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1, 2.0], "a": 1.0}, "equal", True),
        ({"a": 1, "b": 2}, {"a": 1}, "equal", False),
        ({"a": 1, "b": 2}, {"a": 1}, "subset", True),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, "subset", True),
        ([{"a": 1, "b": 2}], [{"a": 1}], "subset", True),
        ([1, 2], [1], "subset", False),  # lists match item by item
        (True, 1, "equal", False),  # a boolean is no number
        (0, False, "equal", False),
        (None, None, "equal", True),
        ("1", 1, "equal", False),
        (2**53 + 1, float(2**53), "equal", False),
    ],
)
def test_json_match(actual, expected, mode, answer):
    document = {"actual": actual, "expected": expected}
    arguments = {"actual": "$.actual", "expected": "$.expected", "mode": mode}
    assert passed("json_match", arguments, document) is answer
    assert passed("json_match", {**arguments, "negate": True}, document) is not answer


@pytest.mark.parametrize(
    ("value", "schema", "answer"),
    [
        ({"a": 1}, {"type": "object", "required": ["a"]}, True),
        ({"a": "x"}, {"properties": {"a": {"type": "integer"}}}, False),
        ([1, 2], {"$ref": "#/$defs/list", "$defs": {"list": {"items": {"type": "integer"}}}}, True),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", {"pattern": "^(a+)+$"}, False),  # bounded, and refused
    ],
)
def test_json_schema(value, schema, answer):
    result = ask("json_schema", {"value": "$.v", "schema": schema}, {"v": value})
    assert result.results["passed"] is answer
    assert ("errors" in result.results) is not answer


@pytest.mark.parametrize(
    "schema", [{"type": "objct"}, {"$ref": "http://127.0.0.1:1/x"}, {"$ref": "file:///x"}, {"$ref": "#/no"}]
)
def test_an_invalid_or_remote_schema_refuses_the_request(schema):
    with pytest.raises(InvalidRequest, match=r"checks\[0\].arguments.schema: not a JSON Schema"):
        ask("json_schema", {"value": 1, "schema": schema})


@pytest.mark.parametrize(
    ("path", "answer"),
    [("$.a", True), ("$.n", True), ("$.b", False), ("$.l[*]", False), ("$..x", True), ("$.a.x", True)],
)
def test_exists_is_about_nodes_so_null_is_there(path, answer):
    document = {"a": {"x": 1}, "n": None, "l": []}
    assert passed("exists", {"path": path}, document) is answer
    assert passed("exists", {"path": path, "negate": True}, document) is not answer


def test_exists_wants_a_path():
    with pytest.raises(InvalidRequest, match=r"checks\[0\].arguments.path: expected a path"):
        ask("exists", {"path": "a.b"})


@pytest.mark.parametrize(
    ("items", "arguments", "answer", "expected"),
    [
        (["search", "calculator"], {"required_items": ["calculator", "search"]}, True, {}),
        (["search"], {"required_items": ["calculator", "search"]}, False, {"missing": ["calculator"]}),
        (["a", "x", "b"], {"required_items": ["a", "b"], "ordered": True}, True, {}),
        (["b", "a"], {"required_items": ["a", "b"], "ordered": True}, False, {"missing": ["b"]}),
        (["a"], {"required_items": ["a", "a"]}, False, {"missing": ["a"]}),  # twice means twice
        (["a", "rm"], {"forbidden_items": ["rm"]}, False, {"forbidden": ["rm"]}),
        ([1, {"t": 1.0}], {"required_items": [1.0, {"t": 1}]}, True, {}),
        ([True], {"required_items": [1]}, False, {"missing": [1]}),
        ([], {"forbidden_items": ["rm"]}, True, {}),
        (["a"], {"required_items": "$.none"}, True, {}),  # of this case nothing is required
        (["a"], {"required_items": "$.none[*].tool", "ordered": True}, True, {}),
        (["a"], {"required_items": [], "forbidden_items": "$.none"}, True, {}),
        (["a"], {"required_items": []}, True, {}),  # an empty list is given, and asks for nothing
        (["a"], {"forbidden_items": []}, True, {}),
        ([10**21, 2**53 + 1], {"required_items": [1e21], "forbidden_items": [2.0**53]}, True, {}),
    ],
)
def test_has_items(items, arguments, answer, expected):
    result = ask("has_items", {"items": "$.items", **arguments}, {"items": items, "none": []})
    assert result.results == {"passed": answer, **expected}


def test_has_items_asks_for_something():
    with pytest.raises(InvalidRequest, match="got neither"):
        ask("has_items", {"items": "$.items"})


class Odd(Checker):
    type = "odd"
    waits = False
    results_schema = PASSED_SCHEMA

    def run(self, services):
        return {"passed": True, "more": 1}


def test_an_answer_that_breaks_the_schema_of_its_check_fails():
    bound = bind(Check(type="odd", arguments={}), STANDARD.with_checks([Odd]), "checks[0]")
    result = run_check(bound, {}, SERVICES, ResultOptions())
    with pytest.raises(jsonschema_rs.ValidationError, match="'more' was unexpected"):
        fits(result, Odd)


@pytest.mark.parametrize("checker", list(STANDARD), ids=lambda checker: checker.type)
def test_every_check_describes_its_arguments_and_its_results(checker):
    schema = argument_schema(checker)
    definition = schema["$defs"][checker.__name__] if "$defs" in schema else schema
    assert definition["additionalProperties"] is False
    assert set(definition["properties"]) == {field.encode_name for field in msgspec.structs.fields(checker)}
    assert checker.results_schema["type"] == "object"


# rules of json_match


@pytest.mark.parametrize(
    ("expected", "actual", "options", "differences"),
    [
        ([1, 2], [2, 1], {"ordered": False}, None),
        ([1, 2], [2, 1], {"tolerances": {"$[0]": 1}}, ["$[1]: expected 2, got 1"]),
        ([1, 1, 2], [1, 2, 2], {"ordered": False}, ["$: lacks 1", "$: expected no item 2"]),
        ({"a": [{"b": [1, 2]}, 3]}, {"a": [3, {"b": [2, 1]}]}, {"ordered": False}, None),
        ([{"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1, "c": 3}], {"ordered": False, "mode": "subset"}, None),
        ([1], [1, 2], {"ordered": False}, ["$: expected no item 2"]),
        ({"a": 1}, {"a": 1, "b": 2}, {"ordered": False}, ["$.b: expected nothing, got 2"]),
        ({"a": 1, "b": 2}, {"a": 1}, {"ordered": False}, ["$.b: expected 2, got nothing"]),
        ({"p": 10}, {"p": 10.5}, {"tolerances": {"$.p": 0.5}}, None),
        ({"p": 10}, {"p": 10.51}, {"tolerances": {"$.p": 0.5}}, ["$.p: expected 10 within 0.5, got 10.51"]),
        ({"p": 0.3, "q": 1}, {"p": 0.4, "q": 1.1}, {"tolerances": {"$.p": 0.1}}, ["$.q: expected 1, got 1.1"]),
        ({"p": 100}, {"p": 95}, {"tolerances": {"$.p": {"relative": 0.05}}}, None),
        ({"p": 100}, {"p": 94}, {"tolerances": {"$.p": {"relative": 0.05, "absolute": 1}}}, ["$.p: expected 100 within 1 or 0.05 of it, got 94"]),
        ([{"w": 1.0}, {"w": 2.0}], [{"w": 1.1}, {"w": 1.9}], {"tolerances": {"$[*].w": 0.2}}, None),
        ([{"w": 1.0}, {"w": 2.0}], [{"w": 1.9}, {"w": 1.1}], {"tolerances": {"$..w": 0.2}, "ordered": False}, None),
        ([1.0, 1.4], [1.2, 0.9], {"tolerances": {"$": 0.25}, "ordered": False}, None),  # 1.2 fits both: 0.9 only one
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1.01, 2.01]}}, {"tolerances": {"$.a": 0.1}}, None),
        ({"p": 1}, {"p": True}, {"tolerances": {"$.p": 1}}, ["$.p: expected 1 within 1, got true"]),
        ({"p": 1}, {"p": "1"}, {"tolerances": {"$.p": 1}}, ['$.p: expected 1 within 1, got \'1\'']),
    ],
)  # fmt: skip
def test_json_match_by_rules(expected, actual, options, differences):
    document = {"actual": actual, "expected": expected}
    arguments = {"actual": "$.actual", "expected": "$.expected", **options}
    found = ask("json_match", arguments, document).results
    assert found == (
        {"passed": True} if differences is None else {"passed": False, "differences": differences}
    )
    assert passed("json_match", {**arguments, "negate": True}, document) is (differences is not None)


JSONS = st.recursive(
    st.integers(0, 2) | st.sampled_from(["a", None, True]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("ab"), below, max_size=2),
    max_leaves=8,
)


@given(JSONS, JSONS, st.sampled_from(["equal", "subset"]))
def test_rules_that_allow_nothing_more_are_json_match_without_rules(expected, actual, mode):
    document = {"actual": actual, "expected": expected}
    arguments = {"actual": "$.actual", "expected": "$.expected", "mode": mode}
    without = passed("json_match", arguments, document)
    assert passed("json_match", {**arguments, "tolerances": {"$": 0}}, document) is without
    assert passed("json_match", {**arguments, "ordered": False}, document) >= without


@given(JSONS, st.randoms(use_true_random=False))
def test_a_value_matches_itself_in_any_order(value, random):
    def shuffled(one):
        if isinstance(one, dict):
            return {name: shuffled(part) for name, part in one.items()}
        return random.sample([shuffled(part) for part in one], len(one)) if isinstance(one, list) else one

    document = {"actual": shuffled(value), "expected": value}
    arguments = {"actual": "$.actual", "expected": "$.expected", "ordered": False}
    assert ask("json_match", arguments, document).results == {"passed": True}


def test_long_lists_in_any_order_are_compared_in_a_worker_process():
    document = {"actual": list(range(300)), "expected": list(range(299, -1, -1))}
    arguments = {
        "actual": "$.actual",
        "expected": "$.expected",
        "ordered": False,
        "tolerances": {"$[0]": 0.5},
    }
    assert ask("json_match", arguments, document).results == {"passed": True}
    bound = bind(Check(type="json_match", arguments=arguments), STANDARD, "checks[0]")
    assert isinstance(build(bound, document).run(SERVICES), WorkerTask)


def test_a_tolerance_with_a_malformed_path_is_refused():
    arguments = {"actual": "$.a", "expected": 1, "tolerances": {"$.[": 1}}
    with pytest.raises(InvalidRequest, match=r"checks\[0\].arguments.tolerances: "):
        bind(Check(type="json_match", arguments=arguments), STANDARD, "checks[0]")
