"""A judge held against labels of people, from the result lines of an evaluation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.comparison.judged_results import JudgedResults
from assay.comparison.labels import mapped_labels, read_labels
from assay.errors import Refusal
from assay.ports import Limits
from assay.results.judge_check import JudgedCase, draw
from support.commands.result_lines import check_result, result_line


def line(id, *checks, **members):
    """A result line. A check that is not an object is the verdict of the judge; members are of the case."""
    checks = [judged(one) if isinstance(one, bool | None) else one for one in checks]
    made = result_line(id, *checks)
    made["execution_context"]["test_case"]["metadata"] = members
    return made


def judged(passed, **response):
    if passed is None:
        return check_result(None, type="llm_judge", error="the judge refused")
    return check_result(None, type="llm_judge", response={"passed": passed, **response}, metadata={})


def encoded(lines):
    return [(f"f.jsonl:{at}", json.dumps(one).encode()) for at, one in enumerate(lines, 1)]


def checked(lines, *labels, seed=None, **options):
    sources = [one if not isinstance(one, str) else read_labels(one, Limits()) for one in labels]
    results = JudgedResults(sources, **options)
    for place, line in encoded(lines):
        results.add(line, place)
    return results.check(seed)


def test_agreement_and_confusion_are_those_of_the_judge_and_a_column():
    found = checked(
        [
            line("a", True, human="yes"),
            line("b", True, human="no"),
            line("c", False, human="no"),
            line("d", True),
            line("e", None, human="yes"),
        ],
        "human",
    )
    assert (found.judge, found.judged, found.unmeasured, found.labelled) == ("llm_judge", 4, 1, 3)
    assert (found.agreement.cases, found.agreement.observed) == (3, 2 / 3)
    assert [(one.judge, one.people, one.cases) for one in found.confusion] == [
        (True, True, 1),
        (True, False, 1),
        (False, False, 1),
    ]
    assert found.pass_rate is None
    assert "no sample was drawn; labels of cases that a person chose" in found.uncorrected
    assert (found.people, found.pairs) == (None, [])


def test_two_annotators_are_held_against_the_judge_each_other_and_their_majority():
    found = checked(
        [
            line("a", True, one=1, two=1),
            line("b", True, one=1, two=0),
            line("c", False, one=0, two=0),
            line("d", False, two=1),
        ],
        "one",
        "two",
    )
    assert [(who.name, who.labelled, who.agreement.observed) for who in found.annotators] == [
        ("one", 3, 1.0),
        ("two", 4, 0.5),
    ]
    (pair,) = found.pairs
    assert (pair.first, pair.second, pair.agreement.cases, pair.agreement.observed) == (
        "one",
        "two",
        3,
        2 / 3,
    )
    assert found.people.cases == 3
    assert found.ties == ["b"]  # no majority: it is in no agreement …
    assert (found.agreement.cases, found.agreement.observed) == (3, 2 / 3)
    assert found.pass_rate.mean == (1 + 0.5 + 0 + 1) / 4  # … and half a pass in the rate


def test_three_annotators_have_a_majority():
    found = checked([line("a", True, x="pass", y="fail", z="pass")], "x", "y", "z")
    assert (found.ties, found.agreement.observed) == ([], 1.0)


def test_labels_of_a_draw_correct_the_pass_rate():
    lines = [line(f"c{at}", True) for at in range(20)]
    drawn = [case.id for case in draw([JudgedCase(id=f"c{at}", verdict=True) for at in range(20)], 5, 3)]
    labels = mapped_labels("a", dict(zip(drawn, [True, True, True, True, False], strict=True)))
    found = checked(lines, labels, seed=3)
    assert (found.sample.drawn, found.sample.judged, found.sample.seed) == (5, 20, 3)
    assert (found.pass_rate.uncorrected, found.pass_rate.mean) == (1.0, pytest.approx(0.8))
    other = mapped_labels("a", {f"c{at}": True for at in range(5)})
    with pytest.raises(Refusal, match="the labelled cases are not a draw with this seed"):
        checked(lines, other, seed=3)


@pytest.mark.parametrize(
    ("answer", "label", "options", "agrees"),
    [
        ({"passed": True}, "PASSED ", {}, True),
        ({"passed": True}, 0, {}, False),
        ({"passed": True}, False, {}, False),
        ({"passed": True}, 4, {"bar": 4}, True),
        ({"passed": True}, "3.5", {"bar": 4}, False),
        ({"score": 0.8}, "yes", {"bar": 0.5}, True),  # the bar also decides for a judge without a verdict
        ({"passed": True, "tone": "rude"}, "rude", {"check": "llm_judge:tone"}, True),
        ({"passed": True, "tone": "rude"}, "kind", {"check": "llm_judge:tone"}, False),
        ({"passed": True, "stars": 4}, "4.0", {"check": "llm_judge:stars"}, True),
        ({"passed": True, "stars": 4}, 5, {"check": "llm_judge:stars", "bar": 4}, True),  # both are a pass
        ({"passed": False, "polite": True}, "y", {"check": "llm_judge:polite"}, True),
    ],
)
def test_a_label_is_read_as_the_answer_is(answer, label, options, agrees):
    check = check_result(None, type="llm_judge", response=answer, metadata={})
    found = checked([line("a", check, human=label)], "human", **options)
    assert found.agreement.observed == float(agrees)


def test_texts_have_agreement_and_no_rate():
    lines = [
        line("a", judged(True, tone="rude"), human="rude"),
        line("b", judged(True, tone="kind"), human="rude"),
    ]
    found = checked(lines, "human", check="llm_judge:tone")
    assert (found.agreement.observed, found.pass_rate) == (0.5, None)
    assert "the labels are texts" in found.uncorrected
    assert found.judge == "llm_judge:tone"


def test_a_case_with_several_trials_counts_once():
    found = checked(
        [
            line("a", True, human=1),
            line("a", False, human=1),
            line("b", True, human=1),
            line("b", None, human=1),
        ],
        "human",
    )
    assert (found.judged, found.unmeasured) == (
        1,
        1,
    )  # a: it failed one of its trials; b: a trial has no answer
    assert [(one.judge, one.people) for one in found.confusion] == [(False, True)]


def test_a_label_of_a_trial_stands_in_the_output():
    trials = [line("a", True), line("a", True)]
    for one, label in zip(trials, (1, 0), strict=True):
        one["execution_context"]["output"]["metadata"] = {"human": label}
    found = checked(trials, "$.output.metadata.human")
    assert [(one.judge, one.people) for one in found.confusion] == [
        (True, False)
    ]  # people failed a trial of it


LABELS = {
    "labels.csv": "id,passed,note\na,yes,\nb,,unsure\nz,no,\n",
    "labels.jsonl": '{"test_case_id": "a", "human": true}\n',
    "two.csv": "case_id,ann,bob\na,1,0\nb,1,1\n",
    "empty.csv": "id,passed\n",
    "twice.csv": "id,passed\na,1\na,0\n",
    "names.csv": "name,passed\na,1\n",
    "wide.csv": "id,ann,bob\na,1,0\n",
    "others.csv": "id,passed\ny,1\n",
    "odd.csv": "id,passed\na,perhaps\n",
    "stars.csv": "id,passed\na,4\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in LABELS.items():
        (tmp_path / name).write_text(text)


@pytest.mark.usefixtures("files")
def test_labels_come_from_files():
    lines = [line("a", True), line("b", True)]
    found = checked(lines, "labels.csv", "labels.jsonl", "two.csv:bob")
    assert [(who.name, who.labelled) for who in found.annotators] == [
        ("labels.csv", 1),
        ("labels.jsonl", 1),
        ("two.csv:bob", 2),
    ]
    assert found.unmatched == 1  # z is not in the results


REFUSED = [
    (["human"], {}, "labels='human': no case has a label there; the members are topic"),
    (["empty.csv"], {}, "expected rows with the id of a case and a label, got none"),
    (
        ["twice.csv"],
        {},
        "twice.csv:3: the case 'a' has a label twice; another annotator has a column or a file",
    ),
    (["names.csv"], {}, "expected a column id or test_case_id with the id of the case, got name, passed"),
    (
        ["wide.csv"],
        {},
        "expected a column passed, label or verdict, got id, ann, bob; FILE:COLUMN names another",
    ),
    (["wide.csv:eve"], {}, "expected a column eve, got id, ann, bob"),
    (["missing.csv"], {}, "missing.csv: there is no such file"),
    (["others.csv"], {}, "labels='others.csv': it has no label for a case of these results"),
    (
        ["odd.csv"],
        {},
        "labels='odd.csv', the case 'a': expected a pass (pass, passed, true, yes …), a fail (fail, failed, ",
    ),
    (["stars.csv"], {}, "got 4; bar=N says from which number on a label is a pass"),
    (
        ["two.csv:ann"],
        {"check": "vibes"},
        "no check of these results is called 'vibes'; the checks are llm_judge",
    ),
    (["two.csv:ann"], {"check": "llm_judge:no"}, "no answer of llm_judge has the member 'no'"),
    (["a=b"], {}, "labels='a=b': expected the name of a member of the cases, a path"),
    (["$.["], {}, "labels='$.[': expected the name of a member of the cases, a path"),
]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("labels", "options", "message"), REFUSED)
def test_labels_that_cannot_be_used_are_refused(labels, options, message):
    with pytest.raises(Refusal) as refused:
        checked([line("a", True, topic="x")], *labels, **options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        (
            [check_result(True)],
            "there is no check in these results that asks a judge; the checks are contains",
        ),
        (
            [judged(True), check_result(True, type="safety_judge")],
            "expected one judge, these results have 2; name one of them: check='llm_judge' or check='safety_judge'",
        ),
        ([judged(True), judged(False)], "name one of them: check='llm_judge #1' or check='llm_judge #2'"),
        ([judged(None)], "llm_judge has no answer to compare: it was not measured in any of 1 cases"),
        (
            [check_result(None, type="llm_judge", response={"score": 0.3})],
            "expected a judge that passes or fails, got one that gives a number; bar=N",
        ),
        (
            [check_result(None, type="llm_judge", response={"tone": "x"})],
            "check='llm_judge:MEMBER' names a member",
        ),
        ([], "they have no checks"),
    ],
)
def test_results_without_one_judge_are_refused(checks, message):
    with pytest.raises(Refusal) as refused:
        checked([line("a", *checks, human=1)], "human")
    assert message in str(refused.value)


def test_no_results_are_refused():
    with pytest.raises(Refusal, match="there are no results"):
        checked([], "human")


def test_a_check_that_is_not_a_judge_is_held_against_labels_if_it_is_named():
    found = checked([line("a", check_result(True), human=1)], "human", check="contains")
    assert found.agreement.observed == 1.0


def test_the_answers_of_a_panel_are_compared_with_each_other():
    check = judged(True)
    check["results"]["metadata"] = {"panel": {"votes": {"passed": [True, True, False]}}}
    found = checked([line("a", check, human=1), line("b", True, human=1)], "human")
    assert (found.panel.agreement.cases, found.panel.split) == (1, ["a"])


verdicts = st.sampled_from([True, False, None])


@given(st.lists(st.tuples(verdicts, verdicts, verdicts), min_size=1, max_size=20))
def test_every_case_is_counted_once(rows):
    """Each case is judged or unmeasured, each judged one labelled or not, each labelled one decided or tied."""
    results = JudgedResults([mapped_labels(n, {str(i): r[n] for i, r in enumerate(rows)}) for n in (1, 2)])
    for place, raw in encoded([line(str(at), row[0]) for at, row in enumerate(rows)]):
        results.add(raw, place)
    if all(row[0] is None for row in rows) or any(all(row[n] is None for row in rows) for n in (1, 2)):
        return  # refused: see above
    found = results.check()
    assert found.judged + found.unmeasured == len(rows)
    assert found.labelled == sum(row[0] is not None and row[1:] != (None, None) for row in rows)
    assert found.agreement.cases + len(found.ties) == found.labelled
    assert sum(one.cases for one in found.confusion) == found.agreement.cases
