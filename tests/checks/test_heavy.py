"""Checks with much to compare: they answer the same in a worker process, and are sent there where they are large."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.checks import STANDARD
from assay.checks.arguments import bind, build
from assay.checks.standard.exact_match import FoldedMatch
from assay.checks.worker_tasks import (
    CHARACTERS_PER_VALUE,
    INLINE_VALUES,
    WorkerTask,
    is_large,
    offload,
    run_tasks,
)
from assay.errors import TimeFault
from assay.ports import Services
from assay.protocol.evaluation import Check

leaf = (
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
)
value = st.recursive(
    leaf,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=2), below, max_size=3),
    max_leaves=6,
)
some = st.lists(value, max_size=4)
ARGUMENTS = {
    "has_items": st.fixed_dictionaries({"items": some, "required_items": some, "forbidden_items": some.filter(bool), "ordered": st.booleans()}),
    "json_match": st.fixed_dictionaries({"actual": value, "expected": value, "mode": st.sampled_from(["equal", "subset"])}),
    "json_schema": st.fixed_dictionaries({"value": value, "schema": st.sampled_from([{"type": "array", "items": {"type": "string"}}, {"enum": [1]}, True])}),
    "contains": st.fixed_dictionaries({"text": st.text(), "phrases": st.lists(st.text(min_size=1, max_size=1), min_size=1), "case_sensitive": st.booleans()}),
    "exact_match": st.fixed_dictionaries({"actual": st.text(max_size=3), "expected": st.text(max_size=3), "case_sensitive": st.booleans()}),
}  # fmt: skip


def made(kind, arguments):
    literal = {
        name: f"\\{one}" if isinstance(one, str) and one.startswith("$.") else one
        for name, one in arguments.items()
    }
    bound = bind(Check(type=kind, arguments=literal), STANDARD, "check")
    return build(bound, {})


@settings(max_examples=20, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_worker_process_answers_the_same(kind, data):
    checks = [made(kind, data.draw(ARGUMENTS[kind])) for _ in range(3)]
    shared = ("schema",) if kind == "json_schema" else ()
    expected = [msgspec.json.decode(msgspec.json.encode(check.answer(Services()))) for check in checks]
    assert run_tasks([offload(check, *shared) for check in checks]) == expected


LONG = "x" * 9_000_000
LARGE = {
    "has_items": {"items": list(range(INLINE_VALUES + 1)), "required_items": [1]},
    "json_match": {"actual": list(range(INLINE_VALUES + 1)), "expected": list(range(INLINE_VALUES + 1))},
    "json_schema": {"value": list(range(10 * INLINE_VALUES)), "schema": {"items": {"type": "integer"}}},
    "contains": {"text": LONG, "phrases": ["x", "xx"]},
    "exact_match": {"actual": LONG, "expected": LONG.upper(), "case_sensitive": False},
}


@settings(max_examples=20, deadline=None)
@given(one=value.filter(lambda one: one is not None and not isinstance(one, str)), negate=st.booleans())
def test_values_without_case_are_the_same_in_a_worker_process(one, negate):
    folded = FoldedMatch(actual=one, expected=swapped(one), negate=negate)
    plain = made(
        "exact_match", {"actual": one, "expected": swapped(one), "case_sensitive": False, "negate": negate}
    )
    assert run_tasks([offload(folded)]) == [plain.answer(Services())]


def swapped(one):
    """The value with the case of its texts changed; names stay, since they are sorted."""
    match one:
        case str():
            return one.swapcase()
        case list():
            return [swapped(part) for part in one]
        case dict():
            return {name: swapped(part) for name, part in one.items()}
        case _:
            return one


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([1, "a"] * (INLINE_VALUES // 2), [1.0, "A"] * (INLINE_VALUES // 2)),  # many parts
        (["a" * 300_000], ["A" * 300_000]),  # few parts, much text
    ],
)
def test_large_values_without_case_are_sent_to_a_worker_process(one, two):
    work = made("exact_match", {"actual": one, "expected": two, "case_sensitive": False}).run(Services())
    assert isinstance(work, WorkerTask)
    assert run_tasks([work]) == [{"passed": True}]


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_check_is_sent_to_a_worker_process(kind):
    work = made(kind, LARGE[kind]).run(Services())
    assert isinstance(work, WorkerTask)
    assert run_tasks([work]) == [{"passed": True}]


@pytest.mark.parametrize(
    ("values", "large"),
    [([[]] * INLINE_VALUES, False), ([[]] * (INLINE_VALUES + 1), True), ({"a": [0] * INLINE_VALUES}, True), ("x" * (INLINE_VALUES * CHARACTERS_PER_VALUE), False), ("x" * (INLINE_VALUES + 1) * CHARACTERS_PER_VALUE, True), ([["x" * CHARACTERS_PER_VALUE] * (INLINE_VALUES // 2)] * 2, True), (1, False)],
)  # fmt: skip
def test_is_large_stops_at_its_limit(values, large):
    assert is_large(values) is large


def test_a_check_that_takes_too_long_is_a_fault(monkeypatch):
    monkeypatch.setattr("assay.checks.worker_tasks.SECONDS", 0.05)
    items = [[at] for at in range(200_000)]
    (outcome,) = run_tasks([offload(made("has_items", {"items": items, "required_items": items}))])
    assert isinstance(outcome, TimeFault)
