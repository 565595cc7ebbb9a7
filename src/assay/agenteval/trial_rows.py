"""The row of a trial in the table of cases (ADR-0068)."""

from msgspec import UNSET

from assay.agenteval.safety_records import is_blocking
from assay.agenteval.scoring import bar_of
from assay.agenteval.trial import TrialResult
from assay.cases.outcomes import (
    NOT_MEASURED,
    CaseOutcomes,
    OutcomeColumns,
    labels_of,
    read_result,
    verdict_of,
)
from assay.ports.cases import ERROR, FAILED, PASSED, UNGRADED
from assay.protocol.events import TrialEnded


def trial_row(trial: TrialResult, ended: TrialEnded, pass_score: float) -> CaseOutcomes:
    """The columns of one trial. A rubric passes if the score of the trial reaches the bar."""
    findings = trial.safety.findings if trial.safety is not None else None
    bar = bar_of(trial.kind, pass_score)
    columns, result = OutcomeColumns(), read_result(trial.line)
    score = None if ended.score is UNSET else ended.score
    blocked = findings is not None and is_blocking(findings)
    measured = FAILED if score is None or score < bar or blocked else PASSED
    cells: list[tuple[str, str]] = []
    for label, check in zip(labels_of(result.check_results), result.check_results, strict=True):
        outcome = NOT_MEASURED.get(check.status) or verdict_of({"results": check.results})
        cells.append((label, measured if outcome == UNGRADED else outcome))
    cost = None if ended.cost_usd is UNSET else ended.cost_usd
    columns.add(
        ERROR if score is None else measured,
        cells,
        score=score,
        cost=cost,
        latency=None if ended.latency_ms is UNSET else float(ended.latency_ms),
        bar=bar,
        findings=None if findings is None else float(-len(findings) if blocked else len(findings)),
    )
    made = columns.outcomes()
    return CaseOutcomes(
        labels=made.labels, columns=made.columns, spent=cost or 0.0, unknown=int(cost is None)
    )
