"""Where two paths of one task part ways."""

from typing import Any

import pytest

from assay.comparison.divergence import TaskPath, first_divergence


def call(tool: str = "t", **inputs: Any) -> dict[str, Any]:
    return {"type": "tool-called", "tool": tool, "inputs": inputs, "call_id": str(len(inputs)), "at_ms": 7}


def result(outcome: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool-returned", "tool": "t", "outcome": outcome, **more}


THOUGHT: dict[str, Any] = {"type": "reasoned", "text": "hm"}
PATHS: list[tuple[dict[str, Any], dict[str, Any], tuple[str, int] | None]] = [
    ({}, {}, None),
    ({"steps": [THOUGHT, call(a=1), result(2)]}, {"steps": [call(a=1.0), result(2), THOUGHT]}, None),
    ({"steps": [call(a=1)]}, {"steps": [call("u", a=1)]}, ("tool", 0)),
    ({"steps": [call(), result(1), call(a=1)]}, {"steps": [call(), result(1), call(a=2)]}, ("arguments", 2)),
    ({"steps": [call(), result(1)]}, {"steps": [call(), result(2)]}, ("result", 1)),
    ({"steps": [call(), result(1)]}, {"steps": [call()]}, ("step", 1)),
    ({"steps": [call()]}, {"steps": [{"type": "handed-off", "to_agent_id": "x"}]}, ("step", 0)),
    ({"steps": [{"type": ["hostile"]}, {}]}, {}, None),
    ({"answer": {"a": 1, "b": 2}}, {"answer": {"b": 2, "a": 1}}, None),
    ({"answer": "x"}, {"answer": "y"}, ("answer", 0)),
    ({"answer": None}, {"has_answer": False, "error": "raised"}, ("answer", 0)),
    ({"answer": "x", "passed": True}, {"answer": "x", "passed": False}, ("outcome", 0)),
    ({"answer": "x", "score": 0.5}, {"answer": "x", "score": 0.7}, ("outcome", 0)),
    ({"answer": "x", "score": 0.5}, {"answer": "x"}, None),
    ({"steps": [call(a=1)], "answer": "x"}, {"steps": [call(a=2)], "answer": "y"}, ("arguments", 0)),
]


@pytest.mark.parametrize(("a", "b", "expected"), PATHS)
def test_the_first_difference(a: Any, b: Any, expected: tuple[str, int] | None) -> None:
    for one, two in ((a, b), (b, a)):
        found = first_divergence(TaskPath(**one), TaskPath(**two))
        assert (None if found is None else (found.kind, found.same)) == expected
