"""Erases the content of an evaluation, and keeps its rates and its cost: numbers without content."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.fep.run_header import KIND
from assay.fep.service import EvaluationService
from assay.ports import ERASED_BY, RETENTION, RequireCount, Run
from assay.runs.erasure import erase_run, erase_runs

RATES = "rates"  # in the metadata of an erased run


class Rates(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The rates and the cost of an evaluation. None: nothing was measured, or the cost is unknown."""

    pass_rate: float | None = None  # of its checks
    case_pass_rate: float | None = None
    cost_usd: float | None = None


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
    """The numbers that are only in the evidence of a run, as members of its metadata."""
    if run.kind != KIND or run.erased:
        return {}
    return {RATES: msgspec.to_builtins(await rates_of(evaluations, run))}


async def rates_of(evaluations: EvaluationService, run: Run) -> Rates:
    """The rates of an evaluation, from its tally. The tally of an erased run is gone, so its metadata has them."""
    if run.erased:
        return msgspec.convert(run.metadata.get(RATES, {}), Rates)
    tally = await evaluations.tally(run)
    statistics = tally.statistics()
    cases = statistics.case_pass_rate if statistics else None
    passed = sum(row.passed for row in tally.rows.values())
    decided = passed + sum(row.failed for row in tally.rows.values())
    return Rates(
        pass_rate=passed / decided if decided else None,
        case_pass_rate=cases.rate if cases else None,
        cost_usd=tally.spending.cost_usd if tally.spending else None,
    )
