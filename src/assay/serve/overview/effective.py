"""The result of a run with the corrections of people, for its overview and its cases. The recorded one stays."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.results.detail import Corrections, corrected_report, detail_of
from assay.agenteval.results.report import report_of
from assay.cache import ByteCache
from assay.cases.pages import all_blocks
from assay.cases.table import WORDS
from assay.fep.records.corrections import corrected_run, effective_entries
from assay.fep.records.run_header import KIND as EVALUATION
from assay.ports import CLOSED, CaseBlock, Run, Store
from assay.protocol.annotations import Annotation
from assay.runs.annotations import annotations, effective
from assay.runs.run_statistics import RunStatistics
from assay.stats.number_text import score_text, value_text

CACHED = 8 << 20  # bytes of the corrected cases that are stored
BYTES_PER_CASE = 400


class EffectiveResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The result with the corrections of people. The recorded one stays.

    `score` is null for an evaluation whose score is not the share of cases that passed.
    """

    score: float | None
    text: str | None
    passed: bool | None
    passed_count: int
    failed_count: int
    corrected: tuple[str, ...]


class EffectiveCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of the table of cases with the corrections of people. `checks`: verdicts on single checks, by column."""

    status: str
    score: float | None
    checks: dict[int, bool] = {}


class EffectiveCases(Struct, frozen=True, kw_only=True):
    """The corrected cases of a run by position, each with its recorded outcome."""

    cases: Mapping[int, tuple[str, EffectiveCase]] = {}

    def counts(self, recorded: Mapping[str, int]) -> dict[str, int]:
        """The rows by effective outcome."""
        counts = Counter(recorded)
        for before, after in self.cases.values():
            counts[before] -= 1
            counts[after.status] += 1
        return {name: counts[name] for name in recorded}

    def of(self, position: int) -> EffectiveCase | UnsetType:
        found = self.cases.get(position)
        return UNSET if found is None else found[1]


NOTHING = EffectiveCases()


class EffectiveCache:
    """The corrected cases of ended runs. They change with the last annotation."""

    def __init__(self) -> None:
        self._stored = ByteCache[EffectiveCases](CACHED, largest=CACHED)

    async def get(self, store: Store, run: Run) -> EffectiveCases:
        notes = await annotations(store, run)
        if not any(note.signal.kind == "correction" for note in notes):
            return NOTHING
        key = run.id, len(notes), notes[-1].annotation_id, run.status
        found = self._stored.get(key, run.tenant)
        if found is None:
            found = await effective_cases(store, run, notes)
            if run.status in CLOSED:
                self._stored.put(key, found, BYTES_PER_CASE * (1 + len(found.cases)), run.tenant)
        return found


async def effective_cases(store: Store, run: Run, notes: Sequence[Annotation]) -> EffectiveCases:
    """The cases that these annotations correct."""
    if run.kind == EVAL:
        return await _tasks(store, run, effective(notes))
    if run.kind != EVALUATION:
        return NOTHING
    trials = int(run.metadata.get("trials", 1))
    found = await effective_entries(store, run, notes, await all_blocks(store, run.id), trials)
    return EffectiveCases(
        cases={
            position: (
                WORDS[entry.status],
                EffectiveCase(status=WORDS[one.status], score=one.score, checks=dict(one.checks)),
            )
            for position, (entry, one) in found.items()
        }
    )


async def _tasks(store: Store, run: Run, corrections: Corrections) -> EffectiveCases:
    if not corrections:
        return NOTHING
    detail = await detail_of(store, run, corrections, first=0, limit=0, max_reasons=0)
    if detail.effective is UNSET:
        return NOTHING
    changed = set(detail.effective.corrected)
    report = await report_of(store, run)
    after = await corrected_report(store, run, report, corrections)
    pairs = enumerate(zip(report.tasks, after.tasks, strict=True))
    words = {True: "passed", False: "failed"}
    return EffectiveCases(
        cases={
            at: (
                words[before.passed is True],
                EffectiveCase(status=words[task.passed is True], score=task.score),
            )
            for at, (before, task) in pairs
            if task.task_id in changed
        }
    )


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
        failed_count=found.failed_count,
        corrected=found.corrected,
    )


async def _of_tasks(store: Store, run: Run, corrections: Corrections) -> EffectiveResult | UnsetType:
    detail = await detail_of(store, run, corrections, first=0, limit=0, max_reasons=0)
    found = detail.effective
    if found is UNSET:
        return UNSET
    scored = sum(task.score is not None for task in detail.report.tasks)
    return EffectiveResult(
        score=found.score,
        text=score_text(found.score),
        passed=None if found.verdict is None else found.verdict.passed,
        passed_count=found.passed_count,
        failed_count=scored - found.passed_count,
        corrected=found.corrected,
    )
