"""What a reader must know about two runs before their difference, and why there may be none."""

from collections.abc import Iterable

from assay.comparison.pairing import CaseIndex
from assay.comparison.run_scores import RunScores


def notes_of(baseline: RunScores, run: RunScores) -> Iterable[str]:
    """Runs that are not complete, and checks that only one of them has."""
    for one in (baseline, run):
        if one.incomplete:
            yield f"{one.title} is not complete: {one.incomplete}"
    if baseline.checks and run.checks and baseline.checks.keys() != run.checks.keys():
        removed = [name for name in baseline.checks if name not in run.checks]
        added = [name for name in run.checks if name not in baseline.checks]
        parts = [f"only in {baseline.title}: {', '.join(removed[:5])}"] if removed else []
        parts += [f"only in {run.title}: {', '.join(added[:5])}"] if added else []
        yield f"the runs have different checks; {'; '.join(parts)}"


def nothing_shared(baseline: RunScores, run: RunScores, index: CaseIndex, at: int) -> str:
    """Why two runs have no case to compare. `at` is the number of the run in the index."""
    if any(index.row_of(0, case) >= 0 <= index.row_of(at, case) for case in range(index.count)):
        return f"nothing can be compared: no case has the metric in both {baseline.title} and {run.title}"
    first, second = baseline.id_of(0)[:60], run.id_of(0)[:60]
    return (
        f"nothing can be compared: {baseline.title} and {run.title} have no case in common; cases are paired by"
        f" test_case.id, and their first ids are {first!r} and {second!r}"
    )
