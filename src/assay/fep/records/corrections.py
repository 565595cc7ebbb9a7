"""
The corrections of people to the cases of an evaluation: effective outcomes beside the recorded ones.

An evaluation has no event for a case, so a correction names the case as the node of its target. A case that was not
measured stays so: a correction replaces a verdict, and there is none.
"""

from collections.abc import Mapping, Sequence
from math import inf

import msgspec
from msgspec import UNSET, Struct

from assay.cases.case_search import results_total, results_with_id
from assay.cases.table import CaseEntry, CaseFilter, entries
from assay.concurrency.threads import off_loop
from assay.fep.records.case_content import CaseContent, EffectiveScore, RecordedScore
from assay.fep.records.evaluation_statistics import CASES_PASSED
from assay.ports import CaseBlock, Run, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED
from assay.protocol.annotations import Annotation, ScoreCorrection
from assay.runs.annotations import case_corrections
from assay.runs.run_statistics import RunStatistics

VERDICTS = {PASSED: True, FAILED: False}
BAR = 1.0  # a case whose score alone is corrected passes from here on: all its checks do


class CorrectedRun(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    An evaluation with the corrections of people. The recorded result stays.

    `score` is the share of cases that passed; null if the score of the run is another number.
    """

    score: float | None
    passed_count: int
    corrected: tuple[str, ...]  # ids of cases


def is_passed(correction: ScoreCorrection) -> bool:
    """The verdict of a person. If only the score is corrected, it follows from it."""
    if correction.passed is not UNSET:
        return correction.passed
    return correction.score is not UNSET and correction.score >= BAR


def with_corrections(content: CaseContent, entry: CaseEntry, notes: Sequence[Annotation]) -> CaseContent:
    """A case with its recorded score, the effective one beside it, and its annotations."""
    recorded = RecordedScore(score=entry.score, passed=VERDICTS.get(entry.status))
    own = [note for note in notes if note.target.node_id == content.case_id]
    correction = case_corrections(own).get(content.case_id)
    effective = UNSET
    if correction is not None and entry.status not in (ERROR, SKIPPED):
        passed = is_passed(correction)
        known = float(passed) if entry.score is None else entry.score
        effective = EffectiveScore(
            score=known if correction.score is UNSET else correction.score,
            passed=passed,
            annotation_id=[one.annotation_id for one in own if one.signal.kind == "correction"][-1],
        )
    return msgspec.structs.replace(content, recorded=recorded, effective=effective, annotations=tuple(own))


async def corrected_run(
    store: Store,
    run: Run,
    notes: Sequence[Annotation],
    statistics: RunStatistics,
    blocks: Sequence[CaseBlock],
) -> CorrectedRun | None:
    """The result with the corrections of these annotations; None if they correct no case that was measured."""
    corrections = case_corrections(notes)
    if not corrections:
        return None
    found, _ = await results_with_id(store, run.id, frozenset(corrections), results_total(run), inf)
    near = [block for block in blocks if any(block.first <= number <= block.last for number in found)]
    size = sum(len(block.data) for block in near)
    rows = await off_loop(size, lambda: list(entries(near, 1, CaseFilter(positions=frozenset(found)))))
    outcomes: dict[str, list[str]] = {}
    for entry in rows:
        outcomes.setdefault(found[entry.position], []).append(entry.status)
    return _corrected(corrections, outcomes, statistics)


def _corrected(
    corrections: Mapping[str, ScoreCorrection],
    outcomes: Mapping[str, Sequence[str]],
    statistics: RunStatistics,
) -> CorrectedRun | None:
    """`outcomes` are those of the trials of each case that is corrected."""
    measured = {id: trials for id, trials in outcomes.items() if not {ERROR, SKIPPED} & {*trials}}
    if not measured:
        return None
    passed_count, score = statistics.counts.passed, statistics.score
    total, cases = (score.value * score.cases, score.cases) if score is not None else (0.0, 0)
    for id, trials in measured.items():
        verdicts = [VERDICTS[outcome] for outcome in trials if outcome in VERDICTS]
        passed = is_passed(corrections[id])
        passed_count += passed - (bool(verdicts) and all(verdicts))
        total += passed - (sum(verdicts) / len(verdicts) if verdicts else 0.0)
        cases += not verdicts
    is_share = score is None or score.name == CASES_PASSED
    return CorrectedRun(
        score=round(total / cases, 12) if is_share and cases else None,
        passed_count=passed_count,
        corrected=tuple(measured),
    )


async def has_case(store: Store, run: Run, case: str) -> bool:
    """Whether an evaluation has a result of a case with this id."""
    found, _ = await results_with_id(store, run.id, frozenset({case}), results_total(run), inf)
    return bool(found)
