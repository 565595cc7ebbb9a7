"""JSON Schemas from outside: what their references could make them do is counted before it is begun."""

import msgspec
import pytest

import assay
from assay.checks.schemas import validator_for
from assay.errors import ValueFault


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
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_not_begun(what):
    schema, value = ENDLESS[what]
    validator = validator_for(msgspec.json.encode(schema))
    for asks in (validator.is_valid, validator.iter_errors):
        with pytest.raises(ValueFault, match="its references could take more than 100,000,000 steps"):
            asks(value)
    result = assay.evaluate_sync(
        test_cases=[{"id": "a", "input": "?"}],
        outputs=[{"value": value}],
        checks=[{"type": "json_schema", "arguments": {"value": "$.output.value", "schema": schema}}],
    )
    (told,) = result.results[0].check_results
    assert (told.status, told.results, told.error.type) == ("error", {}, "validation_error")


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
    "more to try than to tell": (chained(lambda name: {}, lambda name: f"#/$defs/{name}", 17), "x", False),
}


@pytest.mark.parametrize("what", FITS)
def test_references_are_followed(what):
    schema, value, fits = FITS[what]
    validator = validator_for(msgspec.json.encode(schema))
    assert validator.is_valid(value) is fits
    assert (not list(validator.iter_errors(value))) is fits
