"""The first cases that did not pass: with and without the status of a case, the same ones are collected."""

import json

from hypothesis import given
from hypothesis import strategies as st

from assay.fep.outputs.failing_cases import CASES, FailingCases
from assay.fep.planning.scorer import ScoredCase

CHECKS = {
    "passed": {"status": "completed", "results": {"passed": True}},
    "failed": {"status": "completed", "results": {"passed": False}},
    "number": {"status": "completed", "results": {"score": 1}},
    "error": {"status": "error", "error": {"type": "unknown_error", "message": "boom"}},
    "skip": {"status": "skip"},
}
TEXTS = st.sampled_from(["plain", '"passed":false', '{"passed":false}', '"status":"error"'])


@given(
    st.lists(
        st.tuples(TEXTS, st.lists(st.sampled_from(sorted(CHECKS)), min_size=1, max_size=3)),
        max_size=2 * CASES,
    )
)
def test_a_known_status_changes_nothing(cases):
    plain, quick = FailingCases(), FailingCases()
    for number, (text, kinds) in enumerate(cases):
        results = [{"check_type": "x", "resolved_arguments": {}, **CHECKS[kind]} for kind in kinds]
        statuses = [result["status"] for result in results]
        status = next(one for one in ("error", "skip", "completed") if one in statuses)
        context = {"test_case": {"id": str(number), "input": text}, "output": {"value": text}}
        result = {"execution_context": context, "check_results": results, "status": status}
        line = json.dumps(result, separators=(",", ":")).encode()
        plain.write(line)
        quick.note_case(ScoredCase(line, status), line)
    assert (quick.cases, quick.complete) == (plain.cases, plain.complete)
    failing = [kinds for _, kinds in cases if {"failed", "error", "skip"} & set(kinds)]
    assert len(plain.cases) == min(CASES, len(failing))
