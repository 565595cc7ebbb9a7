"""JSON Schemas from outside: what their references could make them do is counted before it is begun."""

import msgspec
import pytest

import assay
from assay.agenteval.suites.suite import read_suite
from assay.checks.schema_validator import MAX_MESSAGE, MAX_SCHEMA_BYTES, UNLISTED_VIOLATION, validator_for
from assay.errors import InvalidRequest, ValueFault


def chained(name, ref, count=60, **more):
    """Each leads to the next twice: two to the power of `count` steps."""
    steps = {
        f"d{at}": {**name(f"d{at}"), "anyOf": [{"$ref": ref(f"d{at + 1}")}, {"$ref": ref(f"d{at + 1}")}]}
        for at in range(count)
    }
    last = {f"d{count}": {**name(f"d{count}"), "type": "integer"}}
    return {"$defs": steps | last, "$ref": ref("d0"), **more}


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


TWICE = {
    "$ref": "#/$defs/a",
    "$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}}, {"contains": {"$ref": "#/$defs/a"}}]}},
}
ENDLESS = {
    "pointers": (chained(lambda name: {}, lambda name: f"#/$defs/{name}"), "x"),
    "anchors": (chained(lambda name: {"$anchor": name}, lambda name: f"#{name}"), "x"),
    "addresses": (
        chained(lambda name: {"$id": name}, lambda name: f"http://x/{name}", **{"$id": "http://x/"}),
        "x",
    ),
    "a circle, by depth": (TWICE, nested(60)),
    "a circle, by breadth": (TWICE, [nested(15)] * 3000),
    "many asked of each": ({"items": {"allOf": [{"minimum": at} for at in range(20_000)]}}, [1] * 20_000),
    "many lists to choose from": ({"items": {"enum": [[at] for at in range(5_000)]}}, [[-1]] * 2_000),
    "many names": ({"items": {"required": [str(at) for at in range(20_000)]}}, [{}] * 20_000),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_validation_without_end_is_an_error_before_it_starts(what):
    schema, value = ENDLESS[what]
    validator = validator_for(msgspec.json.encode(schema))
    for asks in (validator.is_valid, lambda value: validator.errors(value, 1), validator.is_expensive):
        with pytest.raises(ValueFault, match="could take more than 100,000,000 steps"):
            asks(value)
    result = assay.evaluate_sync(
        test_cases=[{"id": "a", "input": "?"}],
        outputs=[{"value": value}],
        checks=[{"type": "json_schema", "arguments": {"value": "$.output.value", "schema": schema}}],
    )
    (answer,) = result.results[0].check_results
    assert (answer.status, answer.results, answer.error.type) == ("error", {}, "validation_error")


TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
LISTS = {"type": ["array", "integer"], "items": {"$ref": "#"}}
FITS = {
    "itself": ({"$ref": "#"}, 1, True),
    "a tree": (TREE, {"left": {"right": {}}, "right": {}}, True),
    "a tree with a leaf that is none": (TREE, {"left": {"right": 3}}, False),
    "deep": (LISTS, nested(400), True),
    "broad": (LISTS, [[1]] * 20_000, True),
    "the schema of schemas": ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "x"}, False),
    "a name that is escaped": (
        {"properties": {"a/b~%": {"type": "string"}, "c": {"$ref": "#/properties/a~1b~0%25"}}},
        {"c": 1},
        False,
    ),
    "a dynamic anchor": (
        {"$dynamicAnchor": "n", "type": "object", "properties": {"of": {"items": {"$dynamicRef": "#n"}}}},
        {"of": [{"of": [1]}]},
        False,
    ),
    "deep and broad": (LISTS, [nested(300), *[1] * 100_000], True),
    "plain values to choose from": ({"items": {"enum": list(range(15_000))}}, list(range(15_000)), True),
    "a large schema": ({"properties": {str(at): {"type": "integer"} for at in range(5_000)}}, {"1": 1}, True),
    "more to try than to tell": (chained(lambda name: {}, lambda name: f"#/$defs/{name}", 17), "x", False),
}


@pytest.mark.parametrize("what", FITS)
def test_references_are_followed(what):
    schema, value, fits = FITS[what]
    validator = validator_for(msgspec.json.encode(schema))
    assert validator.is_valid(value) is fits
    assert (not validator.errors(value, 20)) is fits


TASK = {
    "taskId": "t",
    "input": "?",
    "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "x"}},
}
MANY = [f"value {at}" for at in range(15_000)]
LARGE = {
    "each message repeats the enum": ({"items": {"enum": MANY}}, ["x"] * 15_000),
    "each message repeats the value": ({"required": MANY}, {"text": "x" * 1_000_000}),
    "each message repeats what is not": ({"items": {"not": {"enum": MANY}}}, MANY),
    "more errors than anybody reads": ({"items": {"type": "string"}}, [1] * 500_000),
}


@pytest.mark.parametrize("what", LARGE)
def test_errors_of_a_very_large_schema_are_not_listed(what):
    schema, value = LARGE[what]
    assert validator_for(msgspec.json.encode(schema)).errors(value, 20) == [UNLISTED_VIOLATION]


def test_a_message_is_short():
    validator = validator_for(msgspec.json.encode({"items": {"const": "y" * 5_000}}))
    assert {len(one.message) for one in validator.errors(["x"] * 5, 20)} == {MAX_MESSAGE + 1}


def test_a_schema_has_a_size():
    with pytest.raises(ValueError, match="the limit is 1,048,576"):
        validator_for(msgspec.json.encode({"enum": ["x" * MAX_SCHEMA_BYTES]}))


HEAVY = {
    "a few values": ({"items": {"type": "integer"}}, [1, 2], False),
    "a pattern": ({"pattern": "^a+$"}, "a" * 20_000, False),
    "a pattern that looks ahead, on a word": ({"pattern": "^(?=.*a)"}, "banana", False),
    "a pattern that looks ahead, on a page": ({"pattern": "(?=a)(a|b|ab)*c$"}, "ab" * 1_000, True),
    "many values": ({"items": {"type": "integer"}}, [1] * 200_000, True),
    "a long text": ({"pattern": "^a+$"}, "a" * 20_000_000, True),
}


@pytest.mark.parametrize("what", HEAVY)
def test_an_expensive_validation_is_known_beforehand(what):
    schema, value, heavy = HEAVY[what]
    assert validator_for(msgspec.json.encode(schema)).is_expensive(value) is heavy


@pytest.mark.parametrize(
    ("tasks", "at"),
    [([{}] * 3_000, "tasks[0]"), ([1] * 100_000, "tasks[0]"), ([TASK] * 2_000 + [{}], "tasks[2000]")],
)
def test_a_large_suite_is_read_some_tasks_at_a_time(tasks, at):
    suite = {"suiteId": "a.evals.s", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    with pytest.raises(InvalidRequest) as refused:
        read_suite(suite)
    assert 0 < len(refused.value.problems) <= 1_010
    assert refused.value.problems[0].place.startswith(at)


def test_a_value_too_deep_to_quote_is_not_valid_and_no_error():
    value = []
    for _ in range(300):
        value = [value]
    for schema in ({"type": "object"}, {"items": {"items": {"type": "string"}}}, {"const": [1]}):
        assert validator_for(msgspec.json.encode(schema)).errors(value, 20) == [UNLISTED_VIOLATION]
