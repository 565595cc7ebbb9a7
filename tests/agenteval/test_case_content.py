"""One case of a run with its content, for evaluations and eval runs."""

import asyncio
import json
from datetime import UTC, datetime

import msgspec
import pytest

from assay.agenteval import task_content
from assay.agenteval.task_content import eval_case
from assay.errors import NotFound
from assay.fep.records.case_content import check_rows
from assay.protocol.annotations import Anchor, AnnotationCreate, Signal
from assay.runs.annotations import annotate
from support.evals import FunctionAgent, eval_host, golden, rubric, suite_of

TOOLS = {"toolResponses": [{"tool": "shop:orders", "response": {"state": "sent"}}]}
JUDGED = {
    "reasoning": "",
    "criterion_1": {"reason": "no date", "met": False},
    "criterion_2": {"reason": "it is", "met": True},
}


async def _answer(task, scene):
    if task == "crash":
        raise ValueError("no template")
    scene.reason("I look it up.")
    if task == "tool":
        return (await scene.call("shop:orders", {"id": 17}))["state"]
    return task


SUITE = suite_of(
    golden("good", "Paris", "Paris"),
    golden("bad", "Rome", "Paris"),
    golden("tool", "sent", "tool", fixtures=TOOLS),
    golden("crash", "x", "crash"),
    rubric("kind", ("gives a date", 0.7), ("is polite", 0.3), input="soon"),
    *(golden(f"more-{number}", f"{number}", f"{number}") for number in range(40)),
    modes=("golden", "rubric"),
)


def _checked(check, trials=1):
    """What `check(store, run)` says about a run of the suite."""

    async def main():
        agent = FunctionAgent(_answer)
        async with eval_host(agent, judge=lambda request: JUDGED) as hosted:
            return await check(hosted.store, await hosted.run(SUITE, trials=trials))

    return asyncio.run(main())


def _case(position, trials=1):
    async def read(store, run):
        return json.loads(msgspec.json.encode(await eval_case(store, run, position, ["exact_match"])))

    return _checked(read, trials)


def test_a_task_has_its_content_reasons_and_trajectory():
    case = _case(1, trials=2)
    assert (case["caseId"], case["input"], case["expected"]) == ("bad", "Paris", "Rome")
    assert [trial["trial"] for trial in case["trials"]] == [0, 1]
    trial = case["trials"][1]
    assert (trial["output"], trial["score"], trial["outcome"], trial["live"]) == (
        "Paris",
        0.0,
        "completed",
        False,
    )
    assert trial["checks"][0] | {"result": None} == {
        "label": "exact_match", "column": 0, "checkType": "exact_match", "status": "completed", "passed": False,
        "reason": "expected 'Rome', got 'Paris'", "title": "exact_match", "result": None,
    }  # fmt: skip
    assert [step["text"] for step in trial["trajectory"]] == ["I look it up."]
    assert case["recorded"] == {"score": 0.0, "passed": False}
    assert "effective" not in case
    assert case["annotations"] == []


def test_tools_criteria_and_errors_of_an_agent():
    steps = _case(2)["trials"][0]["trajectory"]
    assert [step["type"] for step in steps] == ["reasoned", "tool-called", "tool-returned"]
    assert (steps[1]["inputs"], steps[2]["outcome"]) == ({"id": 17}, {"state": "sent"})
    assert "no template" in _case(3)["trials"][0]["error"]
    judged = _case(4)["trials"][0]
    assert judged["criteria"][0] == {
        "criterion": "gives a date",
        "weight": 0.7,
        "met": False,
        "reason": "no date",
    }
    assert judged["score"] == pytest.approx(0.3)


def test_a_long_log_is_searched_around_the_place_of_the_task(monkeypatch):
    """Whatever part of the log is read first, a task has the same content."""

    async def read(store, run):
        whole = [await eval_case(store, run, at, []) for at in (0, 2, 20, 44)]
        monkeypatch.setattr(task_content, "WHOLE", 0)
        monkeypatch.setattr(task_content, "WINDOW", 3)
        return whole, [await eval_case(store, run, at, []) for at in (0, 2, 20, 44)]

    whole, parts = _checked(read, trials=2)
    assert parts == whole


def test_a_correction_is_beside_the_recorded_score():
    async def read(store, run):
        before = await eval_case(store, run, 1, [])
        for correction, note in (('{"score": 0.2}', "first"), ('{"score": 0.9}', "last")):
            create = AnnotationCreate(
                signal=Signal(kind="correction", correction=correction),
                target=Anchor(event_id=before.event_id),
                note=note,
            )
            last = await annotate(store, run, create, "ada", datetime.now(UTC), str)
        after = await eval_case(store, run, 1, [])
        other = await eval_case(store, run, 0, [])
        return last, after, other, await eval_case(store, run, 1, [], feedback=False)

    last, after, other, without = _checked(read)
    assert (after.recorded.score, after.effective.score, after.effective.annotation_id) == (
        0.0,
        0.9,
        last.annotation_id,
    )
    assert after.effective.passed is False  # a golden task passes with 1
    assert [note.note for note in after.annotations] == ["first", "last"]
    assert other.annotations == without.annotations == ()


def test_a_position_without_a_result_is_not_found():
    async def read(store, run):
        with pytest.raises(NotFound, match="no result at position 45"):
            await eval_case(store, run, 45, [])

    _checked(read)


@pytest.mark.parametrize(
    ("types", "columns", "expected"),
    [
        (["contains", "regex"], ["regex", "contains"], [1, 0]),
        (["contains", "contains"], ["contains #1", "contains #2"], [0, 1]),
        (["contains"], ["other"], [None]),
        ([], ["contains"], []),
    ],
)
def test_checks_find_their_columns(types, columns, expected):
    checks = [{"check_type": type, "status": "completed", "results": {"passed": True}} for type in types]
    assert [row.column for row in check_rows(checks, columns, {})] == expected
