"""The policy file: its form, every problem at once, and which rules count."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.comparison import policy as gate_policy
from assay.comparison.policy import DEFAULT_RULES, matches, read_policy, read_policy_file
from assay.errors import InvalidRequest
from assay.ports import Limits

WHOLE = """
agents:
  local.shop.bot:
    states: [active]
    suite: local.shop.evals.smoke
    suite_version: 1.*
    max_age: 7d
    min_score: 0.9
    max_regression: 0.02
    allowed_findings: {low: 3}
    effective_scores: true
    approval: {approvers: [key-a, key-b], quorum: 2, author_may_approve: true, timeout: 12h, overriders: [key-c]}
  local.*: {}
"""


def test_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(WHOLE)
    policy = read_policy_file(str(file), Limits())
    rules = policy.rules_for("local.shop.bot")
    assert (rules.eval_states, rules.suite, rules.suite_version) == (
        ("active",),
        "local.shop.evals.smoke",
        "1.*",
    )
    assert (rules.max_age_seconds, rules.min_score, rules.max_regression) == (7 * 86_400, 0.9, 0.02)
    assert (rules.allowed_findings, rules.effective_scores) == ({"low": 3}, True)
    assert rules.approval is not None
    assert (rules.approval.quorum, rules.approval.author_may_approve, rules.approval.seconds) == (
        2,
        True,
        43_200,
    )
    assert (rules.approval.approvers, rules.approval.overriders) == (("key-a", "key-b"), ("key-c",))
    assert policy.rules_for("local.other") == DEFAULT_RULES
    assert policy.rules_for("vendor.x") == DEFAULT_RULES  # no pattern matches: a passed run is needed
    assert DEFAULT_RULES.eval_states == ("staged", "active")


A = 'agents."a"'
WRONG: list[tuple[Any, list[tuple[str, str]]]] = [
    (None, [("agents", "expected rules by agent id or pattern, got nothing")]),
    ([], [("agents", "expected rules by agent id or pattern, got nothing")]),
    ({"agents": []}, [("agents", "expected rules by agent id or pattern, got a list of 0")]),
    ({"agents": {}}, [("agents", "expected rules by agent id or pattern, got an object")]),
    ({"agents": {"a": {}}, "agent": 1}, [("agent", "no such member; there are agents and gate")]),
    ({"agents": {"a": {}}, "gate": {"min_mean": "x"}}, [("gate.min_mean", "expected a number or null, got a string")]),
    ({"agents": {"a": None}}, [(A, "expected an object, got null")]),
    ({"agents": {"": {}}}, [('agents.""', "expected an agent id or a pattern of 1 to 256 characters, got 0")]),
    ({"agents": {"a": {"min": 1}}}, [(f"{A}.min", "no such member; there are states, suite, suite_version")]),
    ({"agents": {"a": {"min_score": 2}}}, [(f"{A}.min_score", "expected a number <= 1.0, got 2")]),
    ({"agents": {"a": {"min_score": float("nan")}}}, [(f"{A}.min_score", "expected")]),
    ({"agents": {"a": {"max_age": "7 days"}}}, [(f"{A}.max_age", "expected a span such as 30m, 12h, 7d or 2w")]),
    ({"agents": {"a": {"max_age": 7}}}, [(f"{A}.max_age", "expected a span such as 30m, 12h, 7d or 2w, got 7")]),
    ({"agents": {"a": {"max_age": "0d"}}}, [(f"{A}.max_age", "expected a span")]),
    ({"agents": {"a": {"states": ["draft"]}}}, [(f"{A}.states[0]", "expected one of active, staged, test, got 'draft'")]),
    ({"agents": {"a": {"suite_version": "1.*"}}}, [(f"{A}.suite_version", "expected `suite` beside it, got none")]),
    ({"agents": {"a": {"require": "improved"}}}, [(f"{A}.require", "expected `max_regression` beside it, got none")]),
    ({"agents": {"a": {"require": "equivalent", "max_regression": 0}}}, [(f"{A}.require", "equivalent needs a `max_regression` above 0 and below 1, got 0")]),
    ({"agents": {"a": {"require": "better", "max_regression": 0.1}}}, [(f"{A}.require", "expected one of equivalent, improved, not-regressed, got 'better'")]),
    ({"agents": {"a": {"allowed_findings": {"huge": 1}}}}, [(f"{A}.allowed_findings", "expected one of low, medium, high, critical, got 'huge'")]),
    ({"agents": {"a": {"allowed_findings": {"low": -1}}}}, [(f"{A}.allowed_findings[...]", "expected")]),
    ({"agents": {"a": {"approval": {"approvers": []}}}}, [(f"{A}.approval.approvers", "expected at least one principal, got none")]),
    ({"agents": {"a": {"approval": {"quorum": 0}}}}, [(f"{A}.approval.quorum", "expected")]),
    ({"agents": {"a": {"approval": {"approvers": ["x"], "quorum": 2}}}}, [(f"{A}.approval.quorum", "expected at most 1, as many as there are approvers, got 2")]),
    ({"agents": {"a": {"approval": {"timeout": "soon"}}}}, [(f"{A}.approval.timeout", "expected a span")]),
    ({"agents": {"*": {}, "a": {}}}, [(A, "these rules never count: '*' comes first and matches the same agents")]),
    ({"agents": {"a.*": {}, "a.b.*": {}}}, [('agents."a.b.*"', "these rules never count: 'a.*' comes first")]),
    (
        {"agents": {"a": {"min_score": "x", "max_age": 1, "approval": {"by": []}}, "b": {"suite": 1}}},
        [(f"{A}.max_age", "expected a span"), (f"{A}.min_score", "expected a number or null, got a string"),
         (f"{A}.approval.by", "no such member; there are gate"), ('agents."b".suite', "expected a string")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "problems"), WRONG)
def test_every_problem_is_listed_with_its_place(document: Any, problems: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_policy(document)
    found = refusal.value.problems
    assert [problem.place for problem in found] == [place for place, _ in problems]
    for problem, (_, beginning) in zip(found, problems, strict=True):
        assert problem.message.startswith(beginning), problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: [", "not YAML"),
        ("agents:\n  a: {min_score: 7}\n", 'policy.yaml: agents."a".min_score: expected a number <= 1.0'),
        ("agents:\n  a: {}\n  a: {}\n", "policy.yaml:3"),
        ("", "policy.yaml: agents: expected rules"),
    ],
)
def test_a_problem_names_the_file(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(InvalidRequest) as refusal:
        read_policy_file(str(file), Limits())
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: {a: {}}\n", "gate: expected an object with rules, got nothing"),
        ("agents: {a: {}}\ngate: 3\n", "gate: expected an object with rules, got a number"),
        (
            "min_mean: 0.5\ngate: {min_mean: 0.9}\n",
            "gate: expected an object with rules, got 'min_mean' beside it",
        ),
        ("gate: {most: 1}\n", "policy.yaml: gate.most: no such member"),
        ("agents: {a: {}}\ngate: {min_mean: 0.9}\n", ""),
        ("min_mean: 0.9\n", ""),
    ],
)
def test_a_gate_reads_the_same_file(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    if not words:
        assert gate_policy.read_gate_policy(str(file), Limits()).min_mean == 0.9
        return
    with pytest.raises(InvalidRequest) as refusal:
        gate_policy.read_gate_policy(str(file), Limits())
    assert words in str(refusal.value)


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_a_pattern_matches_as_fnmatch_does(pattern: str, text: str) -> None:
    assert matches(pattern, text) == fnmatchcase(text, pattern)
