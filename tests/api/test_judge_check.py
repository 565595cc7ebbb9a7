"""`assay.judge_check`: a judge beside the labels of people, in columns, files and dictionaries."""

import json

import pandas  # pyright: ignore[reportMissingTypeStubs]
import pytest

import assay
from assay.errors import InvalidRequest, UsageError

ANSWERS = [True, True, True, False, False, True]
HUMANS = {"human_a": [1, 1, 1, 0, 0, 0], "human_b": ["yes", "yes", "no", "no", "no", "no"]}


def careful(output):
    return output == "good"


@pytest.fixture(scope="module")
def result():
    frame = pandas.DataFrame(
        {
            "id": [f"c{at}" for at in range(6)],
            "input": "?",
            "output": ["good" if one else "bad" for one in ANSWERS],
            **HUMANS,
        }
    )
    return assay.evaluate_sync(frame, checks=[careful])


def test_a_judge_is_held_against_columns_of_labels(result):
    checked = assay.judge_check(result, ["human_a", "human_b"], check="careful")
    alone = assay.judge_check(result, "human_a", check="careful")
    assert isinstance(checked, assay.JudgeCheck)
    assert alone == assay.judge_check(result.to_pandas(), "human_a", check="careful")


def test_labels_may_be_a_dictionary_or_a_file(result, tmp_path):
    by_id = {f"c{at}": value for at, value in enumerate(HUMANS["human_a"])}
    (tmp_path / "labels.csv").write_text(
        "id,label\n" + "".join(f"{id},{value}\n" for id, value in by_id.items()), "utf-8"
    )
    expected = json.loads(_encoded(assay.judge_check(result, "human_a", check="careful")))
    for labels in (by_id, str(tmp_path / "labels.csv")):
        found = json.loads(_encoded(assay.judge_check(result, labels, check="careful")))
        assert {name: found[name] for name in found if name != "annotators"} == {
            name: expected[name] for name in expected if name != "annotators"
        }


def test_labels_of_a_dictionary_may_be_numbers_and_missing():
    table = pandas.DataFrame(
        {"id": range(6), "input": "?", "output": ["good", "bad"] * 3, "human": HUMANS["human_a"]}
    )
    result = assay.evaluate_sync(table, checks=[careful])
    whole = assay.judge_check(result, dict(zip(table["id"], table["human"], strict=True)), check="careful")
    assert (whole.labelled, whole.agreement) == (
        6,
        assay.judge_check(result, "human", check="careful").agreement,
    )
    series = table.assign(human=[1, None, 0, 1, None, 0]).set_index("id")["human"]
    assert assay.judge_check(result, series.to_dict(), check="careful").labelled == 4
    for labels, message in (
        ({1.5: 1}, "labels[0]: expected the ids of cases, texts or whole numbers, got 1.5"),
        ({1: 1, "1": 0}, "labels[0]: the case '1' is there twice, as a text and as a number"),
    ):
        with pytest.raises(UsageError) as refusal:
            assay.judge_check(result, labels, check="careful")
        assert str(refusal.value) == message


def test_a_notebook_shows_how_far_a_judge_agrees(result):
    checked = assay.judge_check(result, ["human_a", "human_b"], check="careful")
    assert repr(checked).splitlines()[0] == "JudgeCheck careful: 6 cases, 6 with labels"
    for part in ("human_a", "majority", "judge passed: people passed"):
        assert part in repr(checked)
        assert part in checked._repr_html_()
    odd = assay.judge_check(result, {"c0": 1, "<b>": 1}, check="careful")
    assert "<b>" not in odd._repr_html_()


def _encoded(value):
    import msgspec

    return msgspec.json.encode(value)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ("human_c", {"check": "careful"}, "labels='human_c': no case has a label there"),
        ("human_a", {}, "there is no check in these results that asks a judge"),
        ([], {"check": "careful"}, "labels: expected a member of the cases"),
        ([7], {"check": "careful"}, "labels[0]: expected a member of the cases"),
        ("human_a", {"check": "vibes"}, "check: no check of these results is called 'vibes'"),
    ],
)
def test_a_refusal_says_what_is_missing(result, labels, options, message):
    with pytest.raises((InvalidRequest, UsageError)) as refusal:
        assay.judge_check(result, labels, **options)
    assert message in str(refusal.value)
