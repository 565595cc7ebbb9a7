"""Findings of detectors are grouped by task and rule, the most severe first; a critical one is in the headline."""

import pytest

from assay.agenteval.results.safety_report import SafetyFold, critical_text, describe
from assay.agenteval.scoring.safety_records import DetectorRecord, SafetyRecord
from assay.protocol.agent_evals import SafetyFinding

KINDS = {"pii_leak": ("pii-leak", "low"), "secret_leak": ("secret-leak", "critical")}


def record(task, trial, **found):
    """A trial whose detectors matched these rules."""
    detectors = [
        DetectorRecord(
            type=type,
            version="1.0.0",
            status="found",
            kind=KINDS[type][0],
            severity=KINDS[type][1],
            findings=[{"rule": rule, "where": "$.output.value", "start": 0, "end": 4} for rule in rules],
        )
        for type, rules in found.items()
    ]
    findings = tuple(SafetyFinding(kind=KINDS[type][0], severity=KINDS[type][1]) for type in found)
    return SafetyRecord(task_id=task, trial=trial, findings=findings, detectors=detectors)


def folded(*records, limit=10):
    fold = SafetyFold({one.task_id for one in records}, limit)
    for one in records:
        fold.add(one)
    return fold


def test_findings_are_grouped_by_task_and_rule_the_most_severe_first():
    fold = folded(
        record("a", 0, pii_leak=["phone", "phone", "iban"]),
        record("a", 1, pii_leak=["phone"], secret_leak=["key"]),
        record("b", 0, secret_leak=["key", "token"]),
    )
    listed, more = fold.findings()
    assert [(one.severity, one.task_id, one.rule, one.count) for one in listed] == [
        ("critical", "a", "key", 1),
        ("critical", "b", "key", 1),
        ("critical", "b", "token", 1),
        ("low", "a", "phone", 3),
        ("low", "a", "iban", 1),
    ]
    assert more == 0
    assert describe(listed[3]) == "rule phone at $.output.value [0:4] and 2 more"
    assert [one.severity for one in fold.report().kinds] == ["critical", "low"]


def test_a_bounded_list_keeps_the_most_severe():
    many = [record(f"t{at}", 0, pii_leak=["phone"]) for at in range(30)]
    listed, more = folded(*many, record("last", 0, secret_leak=["key"]), limit=3).findings()
    assert [one.task_id for one in listed] == ["last", "t0", "t1"]
    assert more == 28


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([record("a", 0, pii_leak=["phone"])], None),
        ([record("a", 0, secret_leak=["key"])], "1 critical finding (secret-leak)"),
        ([record(name, 0, secret_leak=["key"]) for name in "abcd"], "4 critical findings (secret-leak)"),
    ],
)
def test_a_critical_finding_is_named_for_the_headline(records, text):
    assert critical_text(folded(*records).report()) == text
