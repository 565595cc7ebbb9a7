"""A part that `output.metadata.missing` names is not measured, whatever path reads it."""

from typing import Any

import pytest

import assay

WHY = "the spans have no messages"
OUTPUT = {
    "value": None,
    "metadata": {
        "missing": {"output.value": WHY, "output.metadata.trajectory": WHY},
        "trajectory": [],
        "outcome": "ok",
    },
}
CASE = {"id": "1", "input": "q"}
NOT_MEASURED: dict[str, dict[str, Any]] = {
    "a text": {"contains": "x"},
    "a value": {"type": "exact_match", "arguments": {"actual": "$.output.value", "expected": "x"}},
    "a value in brackets": {
        "type": "exact_match",
        "arguments": {"actual": "$.output['value']", "expected": "x"},
    },
    "nodes": {"type": "exists", "arguments": {"path": "$.output.value"}},
    "no nodes": {"type": "exists", "arguments": {"path": "$.output.metadata.trajectory[*]", "negate": True}},
    "a member within": {"type": "exists", "arguments": {"path": "$.output.value.text"}},
}


@pytest.mark.parametrize("check", NOT_MEASURED.values(), ids=NOT_MEASURED)
def test_a_check_of_a_missing_part_is_not_measured(check: dict[str, Any]) -> None:
    result = assay.evaluate_sync([CASE], [OUTPUT], [check])
    (found,) = result.results[0].check_results
    assert found.status == "error"
    assert found.error is not None
    assert WHY in found.error.message


def test_a_check_of_another_part_is_measured() -> None:
    check = {"type": "exact_match", "arguments": {"actual": "$.output.metadata.outcome", "expected": "ok"}}
    result = assay.evaluate_sync([CASE], [OUTPUT], [check])
    assert [one.results for one in result.results[0].check_results] == [{"passed": True}]
    assert result.results[0].execution_context.output == OUTPUT


@pytest.mark.parametrize(
    "missing", [None, [], "output.value", {"test_case.id": "x"}, {"$": "x"}, {"output": "x"}, {"": "x"}]
)
def test_other_members_with_this_name_change_nothing(missing: Any) -> None:
    output = {"value": "x", "metadata": {"missing": missing}}
    result = assay.evaluate_sync([CASE], [output], [{"contains": "x"}])
    assert result.results[0].status == "completed"
