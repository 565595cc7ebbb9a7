"""Labels of people about the cases of a run: what each of them said last, about a case or one of its checks."""

import json
from datetime import UTC, datetime

import pytest
from msgspec import UNSET

from assay.errors import InvalidRequest
from assay.protocol.annotations import Actor, Annotation, Signal, Target
from assay.runs.annotations import case_corrections, effective, parse_correction
from assay.runs.labels import people_labels, read_label

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def note(case, who="ada", **signal):
    if "correction" in signal:
        signal["correction"] = json.dumps(signal["correction"])
    (kind,) = signal
    return Annotation(
        annotation_id=f"ann-{case}-{who}-{json.dumps(signal)}",
        target=Target(run_id="run", node_id=case, event_id=case),
        signal=Signal(kind=kind, **signal),
        actor=Actor(principal_ref=who),
        created_at=NOW,
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pass", ("", True)),
        (" Fail ", ("", False)),
        ("helpful: pass", ("helpful", True)),
        ("a: b: failed", ("a: b", False)),
        ("judge-sample", None),
        ("pass: maybe", None),
        ("", None),
    ],
)
def test_a_label_says_pass_or_fail_of_a_case_or_a_check(text, found):
    assert read_label(text) == found


def labels_of(notes, check="helpful"):
    """By person: what counts for a check of the case `a`."""
    people = people_labels(notes, lambda one: one.target.node_id)
    found = {who: labels["a"].about(check) for who, labels in people.items() if "a" in labels}
    return {who: one and one.correction.passed for who, one in found.items()}


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ([note("a", label="pass"), note("a", "bob", label="fail")], {"ada": True, "bob": False}),
        ([note("a", label="pass"), note("a", label="helpful: fail")], {"ada": False}),
        ([note("a", label="helpful: fail"), note("a", label="pass")], {"ada": True}),  # the last one counts
        ([note("a", label="kind: fail")], {"ada": None}),  # about another check
        ([note("a", correction={"passed": True})], {"ada": True}),  # a correction is a label too
        ([note("a", correction={"check": "helpful", "passed": False})], {"ada": False}),
        ([note("a", label="unclear"), note("b", label="pass")], {}),
        ([note("a", label="pass"), note("a", correction={"withdrawn": True})], {}),
    ],
)
def test_the_last_opinion_of_each_person_counts(notes, found):
    assert labels_of(notes) == found


@pytest.mark.parametrize(
    ("given", "whole", "checks"),
    [
        ([{"passed": True}], True, {}),
        ([{"passed": True}, {"passed": False}], False, {}),
        ([{"check": "x", "passed": False}, {"check": "y", "passed": True}], None, {"x": False, "y": True}),
        ([{"check": "x", "passed": False}, {"check": "x", "withdrawn": True}], None, None),
        ([{"passed": True}, {"check": "x", "passed": False}], True, {"x": False}),
        ([{"passed": True}, {"check": "x", "passed": False}, {"withdrawn": True}], None, None),
    ],
)
def test_the_last_correction_of_a_case_and_of_each_check_counts(given, whole, checks):
    notes = [note("a", correction=one) for one in given]
    found = case_corrections(notes).get("a")
    if checks is None:
        assert found is None
        assert effective(notes) == {}
        return
    assert ((found.whole and found.whole.passed), found.checks) == (whole, checks)
    assert found.annotation_id == notes[-1].annotation_id
    assert {event: one.passed for event, one in effective(notes).items()} == (
        {} if whole is None else {"a": whole}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"check": "x", "score": 1}', "with passed alone"),
        ('{"check": "x", "score": 1, "passed": true}', "with passed alone"),
        ('{"check": "", "passed": true}', "check"),
        ('{"withdrawn": true, "passed": true}', "withdrawn beside"),
        ('{"withdrawn": false}', "withdrawn"),
        ('{"check": "x"}', "neither score nor passed"),
    ],
)
def test_a_correction_that_contradicts_itself_is_refused(text, message):
    with pytest.raises(InvalidRequest, match=message):
        parse_correction(text)
    assert parse_correction('{"check": "x", "withdrawn": true}').passed is UNSET
