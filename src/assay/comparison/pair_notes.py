"""What a reader must know about two runs before their difference, and why there may be none."""

from collections.abc import Iterable

from assay.comparison.pairing import PairedRuns
from assay.comparison.run_scores import RunScores


def notes_of(baseline: RunScores, run: RunScores, *, is_paired: bool) -> Iterable[str]:
    """Runs that are not complete, checks that only one of them has, and a standardization that does nothing."""
    for one in (baseline, run):
        if one.incomplete:
            yield f"{one.title} is not complete: {one.incomplete}"
    if baseline.checks and run.checks and baseline.checks.keys() != run.checks.keys():
        removed = [name for name in baseline.checks if name not in run.checks]
        added = [name for name in run.checks if name not in baseline.checks]
        parts = [f"only in {baseline.title}: {', '.join(removed[:5])}"] if removed else []
        parts += [f"only in {run.title}: {', '.join(added[:5])}"] if added else []
        yield f"the runs have different checks; {'; '.join(parts)}"
    standard = baseline.options.standard
    if is_paired and standard is not None:
        yield f"the cases are paired, so both runs have one mix by {standard.name}: nothing is standardized"


def nothing_shared(paired: PairedRuns, at: int) -> str:
    """Why two runs have no case to compare. `at` is the number of the run."""
    baseline, run = paired.runs[0], paired.runs[at]
    if at not in paired.unpaired:
        return f"nothing can be compared: no case has the metric in both {baseline.title} and {run.title}"
    without = next(one for one in (0, at) if next(paired.cases(one), None) is None)
    return f"nothing can be compared: no case of {paired.runs[without].title} has the metric"
