"""What a result says by itself: rates with intervals, slices, what failed, tables, and what a notebook shows."""

import pickle
import re
from html.parser import HTMLParser

import pandas  # pyright: ignore[reportMissingTypeStubs]
import pytest

import assay
from assay.errors import UsageError

HOSTILE = "</table><script>alert(1)</script><img src=x onerror=y> & \x1b[31m\u202e"
CONTAINS = {"type": "contains", "arguments": {"text": "$.output.value", "phrases": ["yes"]}}


def evaluated(values, *, checks=(CONTAINS,), **members):
    cases = [
        {"id": f"c{at}", "input": "?", "topic": "tax" if at % 2 else "law", **members}
        for at in range(len(values))
    ]
    return assay.evaluate_sync(cases, [{"value": value} for value in values], list(checks))


def test_a_pass_rate_is_a_float_with_its_interval():
    rate = evaluated(["yes"] * 9 + ["no"] * 3).pass_rate
    assert rate is not None
    assert rate == 0.75
    assert rate + 1 == 1.75
    assert f"{rate:.1%}" == "75.0%"
    assert (round(rate.low, 3), round(rate.high, 3), rate.method, rate.cases) == (0.468, 0.911, "wilson", 12)
    assert repr(rate) == "75.0% (46.8–91.1%)"
    assert pickle.loads(pickle.dumps(rate)).low == rate.low


def test_nothing_measured_has_no_pass_rate():
    assert evaluated([]).pass_rate is None
    assert (
        evaluated(
            [1], checks=[{"type": "contains", "arguments": {"text": "$.x", "phrases": ["y"]}}]
        ).pass_rate
        is None
    )


def test_slices_are_those_of_the_command():
    found = evaluated(["yes", "no", "yes", "yes"]).slices("topic", "tag")
    assert [(one.by, one.name, one.passed, one.failed, one.case_pass_rate) for one in found] == [
        ("topic", "law", 2, 0, 1.0),
        ("topic", "tax", 1, 1, 0.5),
        ("tag", "(none)", 3, 1, 0.75),
    ]
    assert found[0].case_pass_rate.low > 0
    with pytest.raises(UsageError, match=r"^by: expected tag"):
        evaluated(["yes"]).slices("a=b")


def test_slices_take_a_list_of_names_and_refuse_what_is_no_name():
    result = evaluated(["yes", "no"])
    assert result.slices(["topic", "tag"]) == result.slices("topic", "tag")
    for wrong in (3, [3], None, {}, [["topic"]]):
        with pytest.raises(UsageError, match=r"^by: expected tag, the name of a member or a path"):
            result.slices(wrong)


@pytest.mark.parametrize("name", ["topci", "metadata.topic", "$.test_case.topci"])
def test_a_slice_that_no_case_has_is_refused_with_the_members(name):
    result, other = evaluated(["yes", "no"], late=True), evaluated(["yes", "yes"])
    expected = f"({re.escape(f'by={name!r}')}|policy: by {re.escape(name)})" + re.escape(
        ": no case has a value there; the members are topic, late"
    )
    expected += "; did you mean topic\\?$" if name == "topci" else "$"
    for door in (
        lambda: result.slices(name),
        lambda: assay.compare(result, other, by=name),
        lambda: assay.compare(result, other, by=["topic", name]),
        lambda: assay.gate(result, baseline=other, policy={"by": [name]}),
    ):
        with pytest.raises(UsageError, match=expected):
            door()
    assert {one.slice for one in assay.compare(result, other, by="late").pair.slices} == {"true"}
    assert {one.slice for one in assay.compare(other, result, by="tag").pair.slices} == {"(none)"}


def test_failing_cases_have_their_reasons_in_words():
    unmeasured = {"type": "threshold", "arguments": {"value": "$.output.value", "min_value": 1}}
    (first, second) = evaluated(["no", "yes"], checks=[CONTAINS, unmeasured]).failing
    assert [one.check for one in first.checks] == ["contains", "threshold"]
    assert first.checks[0].reason == "expected a text that contains 'yes', got 'no'"
    assert (second.id, [one.check for one in second.checks]) == ("c1", ["threshold"])


def test_a_table_has_every_column_of_the_input():
    cases = [
        {
            "id": "a",
            "input": "?",
            "topic": "law",
            "score": 7,
            "metadata": {"topic": "x", "human": [1, 2], "n": 3},
        },
        {"id": "b", "input": "?", "late": True},
    ]
    outputs = [{"value": "yes", "metadata": {"model": "m", "cost_usd": 1}}, {"value": "no"}]
    frame = assay.evaluate_sync(cases, outputs, [CONTAINS, CONTAINS]).to_pandas()
    added = frame.loc[:, "error_message":].iloc[:, 1:]
    assert list(added.columns) == ["topic", "human", "n", "case_topic", "case_score", "model", "late"]
    assert added.iloc[1].tolist()[:6] == ["x", "[1,2]", 3, "law", 7, "m"]
    assert pandas.isna(added["topic"][2])
    assert bool(added["late"][3])


TABLE = pandas.DataFrame(
    {
        "key": [10, 11],
        "question": [{"q": 1}, "b"],
        "model": ["yes", "no"],
        "gold": [1, 2],
        "empty": [None, None],
        "votes": pandas.array([3, None], dtype="Int64"),
        "seen": pandas.array([True, None], dtype="boolean"),
        "share": [0.5, None],
        "id": ["old", "ids"],
        "metadata.lang": ["de", "en"],
        "topic": ["law", "tax"],
        "data": [b"x", b"y"],
    }
)
COLUMNS = {"id": "key", "input": "question", "output": "model", "expected": "gold", "metadata.topic": "votes"}


@pytest.mark.parametrize("form", ["frame", "list"])
def test_a_table_has_the_columns_of_a_table_under_their_names(form):
    rows = TABLE if form == "frame" else TABLE.to_dict("records")
    result = assay.evaluate_sync(rows, checks=[CONTAINS], map=COLUMNS)
    found = result.to_pandas()
    assert list(found.columns)[: len(TABLE.columns)] == list(TABLE.columns)
    assert list(found.columns)[len(TABLE.columns) :][:2] == ["metadata.topic", "test_case_id"]
    assert found["metadata.lang"].tolist() == ["de", "en"]
    assert found["topic"].tolist() == ["law", "tax"]
    assert found["metadata.topic"].tolist()[0] == found["votes"].tolist()[0] == 3
    assert found["key"].tolist() == ["10", "11"]
    assert found["question"].tolist() == ['{"q":1}', "b"]
    assert found["id"].tolist() == ["old", "ids"]
    assert found["empty"].isna().all()
    types = {name: str(found[name].dtype) for name in ("gold", "votes", "seen", "share")}
    assert types == {"gold": "int64", "votes": "Int64", "seen": "boolean", "share": "float64"}
    assert found["data"].tolist() == ["eA==", "eQ=="]


@pytest.mark.parametrize("by", ["topic", "seen", "tag", "gold", "question", "votes"])
def test_a_slice_of_a_result_is_the_same_in_its_table(by):
    result = assay.evaluate_sync(TABLE, checks=[CONTAINS], map=COLUMNS)
    other = assay.evaluate_sync(TABLE.assign(model="no"), checks=[CONTAINS], map=COLUMNS)
    slices = [
        [(one.slice, one.result.cases) for one in compared.pair.slices]
        for compared in (
            assay.compare(result, other, by=by),
            assay.compare(result.to_pandas(), other.to_pandas(), by=by),
            assay.compare(result, other.to_pandas(), by=by),
        )
    ]
    assert slices[0] == slices[1] == slices[2]
    assert sum(cases for _, cases in slices[0]) == 2
    assert sorted(one.name for one in result.slices(by)) == sorted(name for name, _ in slices[0])
    report = assay.report(result, other, by=by)
    assert all(f"| {name} |" in report for name, _ in slices[0]), report


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def notebook_text(thing):
    parser = Tags()
    parser.feed(thing._repr_html_())
    parser.close()
    assert parser.tags <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    return "\n".join(parser.texts)


def test_a_notebook_shows_content_as_text():
    good = evaluated(["yes"] * 6, kind=HOSTILE)
    bad = evaluated([HOSTILE] * 6, kind=HOSTILE)
    result, compared = notebook_text(bad), notebook_text(assay.compare(good, bad, by="kind"))
    assert "pass rate 0.0% (0.0–39.0%) over 6 cases" in result
    assert "<script>alert(1)</script>" in result
    assert "\x1b" not in result + compared
    assert "regressed" in compared
    assert "contains: expected" in compared
    decision = notebook_text(assay.gate(bad))
    assert decision.startswith("failed: not every case passed")


def test_the_html_of_a_notebook_is_bounded():
    many = evaluated(["x" * 100_000] * 200)
    assert len(many._repr_html_()) < 30_000
    assert "… and 180 more" in notebook_text(many)
    assert len(assay.compare(evaluated(["yes"] * 200), many, limit=1_000)._repr_html_()) < 60_000


def test_a_notebook_shows_an_empty_result():
    assert "0 cases" in notebook_text(evaluated([]))
