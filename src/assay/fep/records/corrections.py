"""
The corrections of people to the cases of an evaluation: effective outcomes beside the recorded ones.

An evaluation has no event for a case, so a correction names the case as the node of its target. It replaces the verdict
of the whole case, or that of one check; then the case passes if all its checks do. A case that was not measured stays
so: a correction replaces a verdict, and there is none.
"""

from collections.abc import Mapping, Sequence
from math import inf

import msgspec
from msgspec import UNSET, Struct

from assay.cases.case_search import results_total, results_with_id
from assay.cases.fold import CHECKS
from assay.cases.table import CaseEntry, CaseFilter, entries, share_of
from assay.concurrency.threads import off_loop
from assay.errors import InvalidRequest, Problem
from assay.fep.records.case_content import CaseContent, EffectiveScore, RecordedScore
from assay.fep.records.evaluation_statistics import CASES_PASSED
from assay.ports import CaseBlock, Run, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.protocol.annotations import Annotation, ScoreCorrection
from assay.runs.annotations import CaseCorrection, case_corrections
from assay.runs.run_statistics import RunStatistics

VERDICTS = {PASSED: True, FAILED: False}
LETTERS = {True: PASSED, False: FAILED}
BAR = 1.0  # a case whose score alone is corrected passes from here on: all its checks do


class CorrectedRun(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    An evaluation with the corrections of people. The recorded result stays.

    `score` is the share of cases that passed; null if the score of the run is another number.
    """

    score: float | None
    passed_count: int
    failed_count: int
    corrected: tuple[str, ...]  # ids of cases


class EffectiveEntry(Struct, frozen=True, kw_only=True):
    """A row of the table of cases with the corrections of people. `checks`: the verdicts on corrected columns."""

    case_id: str
    status: str  # a letter of ports.cases
    score: float | None
    checks: Mapping[int, bool]


def is_passed(correction: ScoreCorrection) -> bool:
    """The verdict of a person on a case. If only the score is corrected, it follows from it."""
    if correction.passed is not UNSET:
        return correction.passed
    return correction.score is not UNSET and correction.score >= BAR


def effective_entry(
    case_id: str, entry: CaseEntry, labels: Sequence[str], correction: CaseCorrection
) -> EffectiveEntry | None:
    """The row with these corrections; None if it was not measured, or has none of the checks."""
    if entry.status in (ERROR, SKIPPED):
        return None
    columns = {at: correction.checks[label] for at, label in enumerate(labels) if label in correction.checks}
    changed = {at: passed for at, passed in columns.items() if any(_has(one, at) for one in entry.patterns)}
    whole = correction.whole
    if whole is None and not changed:
        return None
    patterns = [_with(pattern, changed) for pattern in entry.patterns]
    status, score = entry.status, entry.score
    if changed:
        outcomes = "".join(pattern[1:] for pattern in patterns)
        status = FAILED if FAILED in outcomes else PASSED if PASSED in outcomes else UNGRADED
        shares = [share for pattern in patterns if (share := share_of(pattern)) is not None]
        score = round(sum(shares) / len(shares), 12) if shares else None
    if whole is not None:
        status = LETTERS[is_passed(whole)]
        score = entry.score if whole.score is UNSET else whole.score
        score = float(status == PASSED) if score is None else score
    return EffectiveEntry(case_id=case_id, status=status, score=score, checks=changed)


def _has(pattern: str, column: int) -> bool:
    """Whether a trial has a verdict, or none but an answer, of the check in this column."""
    return pattern[column + 1 : column + 2] in (PASSED, FAILED, UNGRADED)


def _with(pattern: str, changed: Mapping[int, bool]) -> str:
    letters = list(pattern)
    for at, passed in changed.items():
        if _has(pattern, at):
            letters[at + 1] = LETTERS[passed]
    return "".join(letters)


def with_corrections(
    content: CaseContent, entry: CaseEntry, labels: Sequence[str], notes: Sequence[Annotation]
) -> CaseContent:
    """A case with its recorded score, the effective one beside it, and its annotations."""
    recorded = RecordedScore(score=entry.score, passed=VERDICTS.get(entry.status))
    own = [note for note in notes if note.target.node_id == content.case_id]
    correction = case_corrections(own).get(content.case_id)
    found = correction and effective_entry(content.case_id, entry, labels, correction)
    effective = UNSET
    if correction is not None and found is not None and found.status in VERDICTS:
        effective = EffectiveScore(
            score=float(found.status == PASSED) if found.score is None else found.score,
            passed=VERDICTS[found.status],
            annotation_id=correction.annotation_id,
            checks={labels[at]: passed for at, passed in found.checks.items()} or UNSET,
        )
    return msgspec.structs.replace(content, recorded=recorded, effective=effective, annotations=tuple(own))


async def effective_entries(
    store: Store, run: Run, notes: Sequence[Annotation], blocks: Sequence[CaseBlock], trials: int
) -> dict[int, tuple[CaseEntry, EffectiveEntry]]:
    """The rows of the table of cases that are corrected, by position, as recorded and with the corrections."""
    rows = await _rows(store, run, notes, blocks, trials)
    return {entry.position: (entry, found) for _, entry, found in rows if found is not None}


async def _rows(
    store: Store, run: Run, notes: Sequence[Annotation], blocks: Sequence[CaseBlock], trials: int
) -> list[tuple[str, CaseEntry, EffectiveEntry | None]]:
    """Every row of a case that has a correction; None if it changes nothing there."""
    corrections = case_corrections(notes)
    if not corrections:
        return []
    results, _ = await results_with_id(store, run.id, frozenset(corrections), results_total(run), inf)
    ids = {number // trials: id for number, id in results.items()}
    near = [
        block
        for block in blocks
        if any(at * trials <= block.last and block.first < (at + 1) * trials for at in ids)
    ]
    size, labels = sum(len(block.data) for block in near), list(run.metadata.get(CHECKS, ()))
    rows = await off_loop(size, lambda: list(entries(near, trials, CaseFilter(positions=frozenset(ids)))))
    found = [(ids[entry.position], entry) for entry in rows]
    return [(id, entry, effective_entry(id, entry, labels, corrections[id])) for id, entry in found]


async def corrected_run(
    store: Store,
    run: Run,
    notes: Sequence[Annotation],
    statistics: RunStatistics,
    blocks: Sequence[CaseBlock],
) -> CorrectedRun | None:
    """The result with the corrections of these annotations; None if they correct no case that was measured."""
    results: dict[
        str, list[tuple[str, str]]
    ] = {}  # the recorded and the effective outcome of each result of a case
    changed: set[str] = set()
    for id, entry, found in await _rows(store, run, notes, blocks, 1):
        results.setdefault(id, []).append((entry.status, entry.status if found is None else found.status))
        changed |= {id} if found is not None else set()
    measured = {  # a case of which a trial was not measured is not measured
        id: outcomes
        for id, outcomes in results.items()
        if id in changed and not {ERROR, SKIPPED} & {before for before, _ in outcomes}
    }
    return _corrected(measured, statistics) if measured else None


def _corrected(measured: Mapping[str, Sequence[tuple[str, str]]], statistics: RunStatistics) -> CorrectedRun:
    """`measured` are the outcomes of each case that is corrected."""
    passed_count, failed_count, score = statistics.counts.passed, statistics.counts.failed, statistics.score
    total, cases = (score.value * score.cases, score.cases) if score is not None else (0.0, 0)
    for outcomes in measured.values():
        before = [VERDICTS[one] for one, _ in outcomes if one in VERDICTS]
        after = [VERDICTS[one] for _, one in outcomes if one in VERDICTS]
        passed_count += _all_pass(after) - _all_pass(before)
        failed_count += (bool(after) and not all(after)) - (bool(before) and not all(before))
        total += _share(after) - _share(before)
        cases += bool(after) - bool(before)
    is_share = score is None or score.name == CASES_PASSED
    return CorrectedRun(
        score=round(total / cases, 12) if is_share and cases else None,
        passed_count=passed_count,
        failed_count=failed_count,
        corrected=tuple(measured),
    )


def _all_pass(verdicts: Sequence[bool]) -> bool:
    return bool(verdicts) and all(verdicts)


def _share(verdicts: Sequence[bool]) -> float:
    return sum(verdicts) / len(verdicts) if verdicts else 0.0


def require_check(run: Run, correction: ScoreCorrection) -> None:
    """Refuse the correction of a check that the evaluation does not have."""
    names: list[str] = run.metadata.get(CHECKS, [])
    if correction.check is not UNSET and correction.check not in names:
        known = f"its checks are {', '.join(names)}" if names else "it has none"
        message = f"evaluation {run.id} has no check {correction.check!r}; {known}"
        raise InvalidRequest(Problem("signal.correction", message[:500]))


async def has_case(store: Store, run: Run, case: str) -> bool:
    """Whether an evaluation has a result of a case with this id."""
    found, _ = await results_with_id(store, run.id, frozenset({case}), results_total(run), inf)
    return bool(found)
