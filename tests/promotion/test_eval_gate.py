"""The eval gate: every unmet condition, with the run that shows it and the command that would meet it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
import pytest

from assay.comparison.policy import PromotionRules
from assay.promotion.eval_gate import BaselineVerdict, Evidence, unmet_conditions
from assay.protocol.agent_evals import EvalSummary, Regression, SafetyFinding, TaskScore

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
AGENT = "local.shop.bot"
Severity = Literal["low", "medium", "high", "critical"]


def _summary(
    score: float = 0.9, *found: Severity, delta: float | None = None, looked: bool = False
) -> EvalSummary:
    findings = tuple(SafetyFinding(kind="secret-leak", severity=one) for one in found)
    task = TaskScore(
        task_id="t", score=score, passed=True, safety_findings=findings if looked or found else msgspec.UNSET
    )
    return EvalSummary(
        suite_id="local.shop.evals.smoke",
        suite_version="1.2.0",
        aggregate_score=score,
        passed=score >= 0.8,
        task_count=1,
        passed_count=1,
        tasks=(task,),
        regression=msgspec.UNSET if delta is None else Regression(baseline_run_id="run-0", score_delta=delta),
    )


def _evidence(**changes: Any) -> Evidence:
    facts: dict[str, Any] = {
        "agent_id": AGENT,
        "version": "1.1.0",
        "run_id": "run-1",
        "status": "completed",
        "run_agent_id": AGENT,
        "run_version": "1.1.0",
        "ended": NOW - timedelta(hours=1),
        "summary": _summary(),
        "now": NOW,
    }
    return Evidence(**facts | changes)


def _compared(verdict: Any, line: str = "the line", delta: float = -0.01) -> dict[str, Any]:
    """A run that was compared with the active version."""
    facts = {"active_version": "1.0.0", "baseline_version": "1.0.0", "summary": _summary(delta=delta)}
    return facts | {"comparison": BaselineVerdict(verdict, line)}


AT_MOST, EQUIVALENT = {"max_regression": 0.02}, {"max_regression": 0.02, "require": "equivalent"}
RUN = "assay run local.shop.evals.smoke --agent local.shop.bot"
UNMET: list[tuple[str, dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    ("met", {}, {}, []),
    ("met, everything", {"suite": "local.shop.*", "suite_version": "1.*", "max_age_seconds": 7200.0, "min_score": 0.9, "max_regression": 0.1,
      "allowed_findings": {"low": 1}},
     {"active_version": "1.0.0", "baseline_version": "1.0.0", "summary": _summary(0.9, "low", delta=-0.1)}, []),
    ("no run", {}, {"run_id": None, "status": None}, [("eval_run_required", "expected a completed eval run of a suite by local.shop.bot at version 1.1.0, got none")]),
    ("unknown or foreign", {"suite": "s.x"}, {"status": None}, [("eval_run_unknown", "of suite s.x by local.shop.bot at version 1.1.0, there is no eval run 'run-1'")]),
    ("another version", {}, {"run_version": "1.0.0"}, [("eval_run_other_version", "got a run of local.shop.bot at version 1.0.0")]),
    ("another agent", {}, {"run_agent_id": "x.y"}, [("eval_run_other_agent", "got a run of x.y at version 1.1.0")]),
    ("another suite", {"suite": "s.x"}, {}, [("eval_suite", "expected a run of suite s.x, got one of suite local.shop.evals.smoke")]),
    ("another suite version", {"suite": "local.*", "suite_version": "2.*"}, {}, [("eval_suite_version", "at version 2.*, got version 1.2.0")]),
    ("replay", {}, {"copied_from": "run-0"}, [("eval_run_copied", "got a copy of run-0")]),
    ("eval_run_erased", {}, {"erased": "evidence removed by retention on 2026-01-02"}, [("eval_run_erased", "without: evidence removed by retention on 2026-01-02")]),
    ("unfinished", {}, {"status": "running", "summary": None, "ended": None}, [("eval_run_not_ended", "got a run that is running")]),
    ("failed", {}, {"status": "failed", "summary": None}, [("eval_run_not_completed", "got a run that is failed")]),
    ("not passed", {}, {"summary": _summary(0.5)}, [("eval_not_passed", "did not pass, with a score of 0.500")]),
    ("score", {"min_score": 0.95}, {}, [("eval_score", "expected a score of at least 0.95, got a score of 0.900")]),
    ("stale", {"max_age_seconds": 1800.0}, {}, [("eval_run_stale", "expected a run of the last 30m, it ended at 2026-07-01 11:00:00 UTC")]),
    ("from the future", {}, {"ended": NOW + timedelta(hours=1)}, [("eval_run_in_future", "ends in the future")]),
    ("clock skew", {}, {"ended": NOW + timedelta(minutes=4)}, []),
    ("corrections do not count", {}, {"summary": _summary(0.5), "effective_score": 1.0, "effective_passed": True}, [("eval_not_passed", "did not pass")]),
    ("corrections count", {"effective_scores": True, "min_score": 0.9}, {"summary": _summary(0.5), "effective_score": 1.0, "effective_passed": True}, []),
    ("corrections lower it", {"effective_scores": True}, {"effective_score": 0.2, "effective_passed": False}, [("eval_not_passed", "a corrected score of 0.200")]),
    ("no active version", {"max_regression": 0.0}, {}, []),
    ("itself active", {"max_regression": 0.0}, {"active_version": "1.1.0"}, []),
    ("not compared", {"max_regression": 0.0}, {"active_version": "1.0.0"}, [("eval_regression_unknown", "with the active version 1.0.0, it records none")]),
    ("compared with another", {"max_regression": 0.0}, {"active_version": "1.0.0", "baseline_version": "0.9.0", "summary": _summary(delta=0.1)},
     [("eval_regression_unknown", "its baseline ran 0.9.0")]),
    ("regression", {"max_regression": 0.02}, {"active_version": "1.0.0", "baseline_version": "1.0.0", "summary": _summary(delta=-0.1)},
     [("eval_regression", "at most 0.02 below the active version 1.0.0, got 0.100 below")]),
    ("regression, corrected", {"max_regression": 0.02, "effective_scores": True},
     {"active_version": "1.0.0", "baseline_version": "1.0.0", "summary": _summary(delta=-0.1), "effective_score": 1.0, "effective_passed": True}, []),
    ("verdict regressed", AT_MOST, _compared("regressed"), [("eval_regression", "against the active version 1.0.0 that is certain and could be above 0.02, got the line")]),
    ("verdict regressed, any loss allowed", {"max_regression": 1.0}, _compared("regressed"), []),
    ("verdict improved", AT_MOST, _compared("improved", delta=0.1), []),
    ("verdict equivalent", AT_MOST, _compared("equivalent"), []),
    ("not enough data", AT_MOST, _compared("not enough data"), []),
    ("not enough data, a large loss", AT_MOST, _compared("not enough data", delta=-0.1), [("eval_regression", "got 0.100 below: the line")]),
    ("no verdict", AT_MOST, _compared(None, "a comparison needs scipy"), [("eval_regression_unknown", "expected a verdict against the active version 1.0.0, a comparison needs scipy")]),
    ("equivalence shown", EQUIVALENT, _compared("equivalent"), []),
    ("equivalence, improved", EQUIVALENT, _compared("improved"), []),
    ("equivalence not shown", EQUIVALENT, _compared("not enough data"), [("eval_regression_undecided", "expected the verdict equivalent or improved against the active version 1.0.0, got the line")]),
    ("no improvement", EQUIVALENT | {"require": "improved"}, _compared("equivalent"), [("eval_regression", "expected the verdict improved against")]),
    ("eval_findings", {}, {"summary": _summary(0.9, "low", "critical", "low")},
     [("eval_findings", "expected at most 0 findings of severity critical, got 1"), ("eval_findings", "at most 0 findings of severity low, got 2")]),
    ("findings not looked for", {"allowed_findings": {}}, {}, [("eval_findings", "no task of it did")]),
    ("no findings", {"allowed_findings": {}}, {"summary": _summary(looked=True)}, []),
    ("several", {"min_score": 1.0, "max_age_seconds": 60.0}, {"summary": _summary(0.1, "high")},
     [("eval_run_stale", ""), ("eval_not_passed", ""), ("eval_score", ""), ("eval_findings", "")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "facts", "expected"), [row[1:] for row in UNMET], ids=[row[0] for row in UNMET]
)
def test_each_unmet_condition_has_its_code_and_words(
    rules: dict[str, Any], facts: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found = unmet_conditions(PromotionRules(**rules), _evidence(**facts))
    assert [condition.code for condition in found] == [code for code, _ in expected]
    for condition, (_, words) in zip(found, expected, strict=True):
        assert words in condition.message
        assert str(condition.command).startswith("assay run ")
        if condition.code not in ("eval_run_required", "eval_run_unknown"):
            assert condition.eval_run_id == "run-1"


@pytest.mark.parametrize(
    ("rules", "facts", "command"),
    [
        ({}, {"summary": _summary(0.1)}, RUN),
        ({"suite": "local.shop.evals.smoke", "suite_version": "1.2.0"}, {"status": None}, f"{RUN.replace(' --', '@1.2.0 --')}"),
        ({"suite": "local.*"}, {"status": None}, "assay run SUITE --agent local.shop.bot"),
        ({"max_regression": 0.1}, {"active_version": "1.0.0"}, f"{RUN} --baseline RUN"),
        ({"max_regression": 0.1}, {"active_version": "1.0.0", "active_run": "run-0"}, f"{RUN} --baseline run-0"),
    ],
)  # fmt: skip
def test_a_condition_names_the_command_that_would_meet_it(
    rules: dict[str, Any], facts: dict[str, Any], command: str
) -> None:
    (condition,) = unmet_conditions(PromotionRules(**rules), _evidence(**facts))
    assert condition.command == command
