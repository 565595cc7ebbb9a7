"""The result of a run with the corrections of people, for its overview. The recorded result stays."""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.results.detail import Corrections, detail_of
from assay.fep.records.corrections import corrected_run
from assay.ports import CaseBlock, Run, Store
from assay.runs.annotations import annotations, effective
from assay.runs.run_statistics import RunStatistics
from assay.stats.number_text import score_text, value_text


class EffectiveResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The result with the corrections of people. The recorded one stays.

    `score` is null for an evaluation whose score is not the share of cases that passed.
    """

    score: float | None
    text: str | None
    passed: bool | None
    passed_count: int
    corrected: tuple[str, ...]


async def effective_result(
    store: Store, run: Run, statistics: RunStatistics, blocks: Sequence[CaseBlock]
) -> EffectiveResult | UnsetType:
    """UNSET: nothing is corrected. `blocks` are the table of cases of the run."""
    notes = await annotations(store, run)
    if run.kind == EVAL:
        return await _of_tasks(store, run, effective(notes)) if effective(notes) else UNSET
    found = await corrected_run(store, run, notes, statistics, blocks)
    if found is None:
        return UNSET
    return EffectiveResult(
        score=found.score,
        text=None if found.score is None else value_text(found.score, "rate"),
        passed=None,  # an evaluation has no bar
        passed_count=found.passed_count,
        corrected=found.corrected,
    )


async def _of_tasks(store: Store, run: Run, corrections: Corrections) -> EffectiveResult | UnsetType:
    found = (await detail_of(store, run, corrections, first=0, limit=0, max_reasons=0)).effective
    if found is UNSET:
        return UNSET
    return EffectiveResult(
        score=found.score,
        text=score_text(found.score),
        passed=None if found.verdict is None else found.verdict.passed,
        passed_count=found.passed_count,
        corrected=found.corrected,
    )
