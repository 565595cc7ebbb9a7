"""Traces that real frameworks recorded with their own instrumentation become the case that they are."""

from pathlib import Path
from typing import Any

import pytest

import assay

RECORDINGS = Path(__file__).parent / "recordings"
WITH_CONTENT = {  # recording: its dialects
    "pydantic_ai": {"gen_ai"},
    "openai_agents": {"openinference"},
    "strands": {"gen_ai events"},
    "google_adk": {"gen_ai"},
    "google_adk_1": {"gcp.vertex.agent"},
}


def case_of(name: str) -> dict[str, Any]:
    (context,) = assay.read_traces(RECORDINGS / f"{name}.json")
    return context


@pytest.mark.parametrize(("name", "dialects"), WITH_CONTENT.items(), ids=WITH_CONTENT)
def test_a_recording_gives_the_question_the_answer_and_the_tool_call(name: str, dialects: set[str]) -> None:
    case = case_of(name)
    metadata = case["output"]["metadata"]
    assert case["test_case"]["input"] == "How warm is it in Paris?"
    assert case["output"]["value"].strip() == "It is 20 degrees in Paris."
    assert (metadata["input_tokens"], metadata["output_tokens"]) == (51, 14)
    assert (metadata["outcome"], metadata["trace"]["model_calls"]) == ("completed", 2)
    assert dialects <= set(metadata["trace"]["dialects"])
    calls = [step for step in metadata["trajectory"] if step["type"] == "tool-called"]
    assert [(one["tool"], one["inputs"]) for one in calls] == [("weather", {"city": "Paris"})]
    assert [step["type"] for step in metadata["trajectory"]] == [
        "used",
        "tool-called",
        "tool-returned",
        "used",
    ]
    assert (
        not {"test_case.input", "output.value", "output.metadata.trajectory"}
        & metadata.get("missing", {}).keys()
    )


CHECKS = [
    {"contains": "20 degrees"},
    {"type": "tool_calls", "arguments": {"expected": [{"tool": "weather", "arguments": {"city": "Paris"}}]}},
    {"type": "max_steps", "arguments": {"limit": 1}},
]


@pytest.mark.parametrize("name", WITH_CONTENT)
def test_checks_score_a_recording(name: str) -> None:
    result = assay.evaluate_sync([case_of(name)], checks=CHECKS)
    assert [one.results and one.results["passed"] for one in result.results[0].check_results] == [
        True,
        True,
        True,
    ]


def test_a_recording_without_content_is_not_measured_where_it_has_none() -> None:
    result = assay.evaluate_sync([case_of("google_adk_without_content")], checks=CHECKS)
    assert [one.status for one in result.results[0].check_results] == ["error", "error", "completed"]
