"""The verdict on two eval runs, from their reports."""

from msgspec import UNSET

from assay.agenteval.planning.run_header import TASKS_OF_SUITE
from assay.agenteval.results.report import EvalReport
from assay.comparison.compare import PairComparison, compare_runs
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.errors import InvalidRequest
from assay.extras import missing_packages, require
from assay.stats.distributions import FEATURE


def compare_reports(
    baseline: EvalReport, report: EvalReport, margin: float | None = None
) -> PairComparison | None:
    """The comparison of the scores of tasks; None if the tasks are others, or without the extra `compare`."""
    if missing_packages("compare"):
        return None
    try:
        return require_comparison(baseline, report, margin)
    except InvalidRequest:
        return None


def require_comparison(
    baseline: EvalReport, report: EvalReport, margin: float | None = None
) -> PairComparison:
    """The comparison of scores. Raises InvalidRequest if the tasks are others, MissingExtra without `compare`."""
    require(FEATURE, "compare")
    found = compare_runs([_scores(baseline), _scores(report)], margin=margin).comparisons[0]
    if found.unpaired:
        raise InvalidRequest(
            f"nothing can be compared: {found.in_both:,} tasks are in both {baseline.run} and {report.run}, fewer than"
            " half of those of either"
        )
    return found


def _scores(report: EvalReport) -> RunScores:
    scores = RunScores(report.run, ReadOptions(), is_eval=True)
    if report.selection is not UNSET:
        scores.note_part(report.selection, TASKS_OF_SUITE)
    for task in report.tasks:
        scores.add_score(task.task_id, task.score, task.passed, task.trials, task.trials_passed)
    return scores
