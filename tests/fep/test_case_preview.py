"""The reason that a row of a run shows above the output."""

import pytest

from assay.cases.case_search import texts_of


def check(status="completed", **results):
    return {"check_type": "llm_judge", "status": status, "results": results}


def rubric(*verdicts):
    response = {
        f"criterion_{at}": {"met": met, "reason": f"reason {at}"} for at, met in enumerate(verdicts, 1)
    }
    return check(response=response)


EXPECTED = ["a text", {"criterion": "is short"}]  # the second criterion has its text in the case
FAILED = check(passed=False, reason="it is rude")
ERROR = {"check_type": "threshold", "status": "error", "error": {"message": "finds nothing"}}


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        ([rubric(True, True)], None),
        ([rubric(True, False)], "not met: is short (reason 2)"),
        ([rubric(False, False)], "not met: criterion_1 (reason 1); not met: is short (reason 2)"),
        ([rubric(False), FAILED], "llm_judge: it is rude"),
        ([FAILED, ERROR], "threshold: finds nothing"),  # why the case is not measured
        ([check(passed=True, response={"a": {"reason": "fine"}})], None),
        (
            [check(passed=True), {**check(score=0.34), "metadata": {"reason": "far"}}],
            None,
        ),  # it has no verdict
        ([check(response={"a": {"met": None, "reason": "no answer"}})], None),
    ],
)
def test_a_preview_has_the_failing_reason_or_the_unmet_criteria(checks, reason):
    context = {"test_case": {"input": "x", "expected": EXPECTED}, "output": {"value": "y"}}
    assert texts_of({"execution_context": context, "check_results": checks}).reason == reason
