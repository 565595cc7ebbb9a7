"""The cases that passed in all trials of the baseline, and in none of the run."""

from collections.abc import Iterator
from math import isnan

from assay.comparison.compare import MAX_IDS, CaseList
from assay.comparison.pairing import CaseIndex, CaseValues
from assay.comparison.policy import LEAST_TRIALS
from assay.comparison.run_scores import RunScores
from assay.concurrency.loop_budget import paced

TrialCounts = tuple[int, int]  # trials, and those that passed; 0 trials: not measured, or not in the run


def newly_failing(baseline: RunScores, run: RunScores) -> CaseList:
    """Those with at least three measured trials in both runs. Both runs were read with the metric `passed`."""
    index = CaseIndex([baseline, run])
    pairs = zip(_counts(index, 0), _counts(index, 1), strict=True)
    found = [
        case
        for case, ((trials, passed), (others, others_passed)) in enumerate(paced(pairs))
        if min(trials, others) >= LEAST_TRIALS and passed == trials and not others_passed
    ]
    return CaseList(len(found), tuple(map(index.id_of, found[:MAX_IDS])))


def _counts(index: CaseIndex, at: int) -> Iterator[TrialCounts]:
    run = index.runs[at]
    if not run.is_eval:
        values = CaseValues(index, at, run.metrics["passed"])
        for trials, measured, total in values.counts():
            yield (trials, round(total)) if measured == trials else (0, 0)
        return
    tasks = {case: row for row, case in enumerate(index.cases_of_rows[at]) if row >= run.tasks}
    series = run.metrics["passed"]
    measured_rows = {row for row, value in zip(series.rows, series.values, strict=True) if not isnan(value)}
    for case in range(index.count):
        row = tasks.get(case)
        is_measured = row is not None and row in measured_rows
        yield (run.trials[row], run.trials_passed[row]) if is_measured and row is not None else (0, 0)
