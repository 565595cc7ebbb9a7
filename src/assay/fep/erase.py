"""Erases the content of an evaluation, and keeps its statistics: numbers without content."""

from collections.abc import Sequence
from typing import Any

from assay.fep.evaluation_statistics import read_statistics
from assay.fep.run_header import KIND
from assay.fep.service import EvaluationService
from assay.ports import ERASED_BY, RETENTION, RequireCount, Run
from assay.runs.erasure import erase_run, erase_runs
from assay.runs.run_statistics import statistics_metadata


async def erase(evaluations: EvaluationService, run: Run) -> Run:
    """Erase the content of a run of any kind. RunNotFinished: it has not ended."""
    return await erase_run(evaluations.store, run, await stored_numbers(evaluations, run))


async def erase_by_retention(
    evaluations: EvaluationService, runs: Sequence[Run], requires: Sequence[RequireCount] = ()
) -> None:
    """Erase the content of runs that a policy has chosen, if `requires` holds. They say so afterwards."""
    chosen = [(run, await stored_numbers(evaluations, run) | {ERASED_BY: RETENTION}) for run in runs]
    await erase_runs(evaluations.store, chosen, RETENTION, requires)


async def stored_numbers(evaluations: EvaluationService, run: Run) -> dict[str, Any]:
    """The statistics of an evaluation as a member of its metadata. Its records are erased."""
    if run.kind != KIND or run.erased:
        return {}
    return statistics_metadata(await read_statistics(evaluations.store, run))
