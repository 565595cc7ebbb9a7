"""The document of failing cases: bounded, complete in its counts, and with foreign text under `data` alone."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.render.failing_cases import LEAST_BYTES, FailingCases, bounded, failing_case
from assay.comparison.views.shown_cases import ShownCase

texts = st.text(max_size=300) | st.integers(1, 30_000).map(lambda n: "é\\n" * n)
values = texts | st.dictionaries(st.text(max_size=10), texts, max_size=3)


def shown(id, value, expected, steps):
    check = {
        "check_type": "exact_match",
        "status": "completed",
        "results": {"passed": False},
        "resolved_arguments": {
            "actual": {"value": value},
            "expected": {"value": expected},
            "negate": {"value": True},
        },
    }
    return ShownCase(
        id=id,
        failing=True,
        result={
            "status": "completed",
            "execution_context": {
                "test_case": {"id": id, "input": value, "expected": expected},
                "output": {"value": value},
            },
            "check_results": [check] * 3,
        },
        trajectory=[
            {"type": "said", "role": "user", "turn": n, "content": text} for n, text in enumerate(steps)
        ],
    )


cases = st.builds(
    shown, st.text("abc-", min_size=1, max_size=40), values, values, st.lists(texts, max_size=20)
)


@given(st.lists(cases, max_size=12), st.integers(LEAST_BYTES, 50_000), st.integers(0, 100))
def test_a_document_keeps_to_its_bytes_and_counts_what_it_leaves_out(found, max_bytes, more):
    whole = FailingCases(
        "run-1", "completed", "", cases=[failing_case(case, "run-1") for case in found], more=more
    )
    text = bounded(whole, max_bytes)
    assert len(text) <= max_bytes
    document = msgspec.json.decode(text)
    kept = document.get("cases", [])
    assert [case["data"]["id"] for case in kept] == [case.id for case in found[: len(kept)]]
    assert len(kept) + document.get("more", 0) == len(found) + more
    if len(msgspec.json.encode(whole)) <= max_bytes:
        assert document == msgspec.to_builtins(whole)


def test_arguments_that_repeat_the_content_are_left_out():
    found = failing_case(shown("a", "got", "expected", []), "run-1")
    assert found.data.reasons[0].arguments == {"negate": True}


def test_a_long_trajectory_keeps_its_ends_and_what_failed():
    case = shown("a", "x", "y", [str(n) for n in range(100)])
    case.trajectory[50]["error"] = {"code": "boom", "message": "broken"}
    steps = failing_case(case, "run-1").data.steps
    assert [step.split(": ")[-1] for step in steps] == [
        "0", "1", "[48 steps are left out]", "50", "[43 steps are left out]", *map(str, range(94, 100))
    ]  # fmt: skip
