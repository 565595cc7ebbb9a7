"""
A case as a row of the table that a page shows: outcome, numbers, and the outcomes of each check over its trials. No
content.
"""

from collections import Counter

from msgspec import UNSET, Struct, UnsetType

from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.runs.case_table import CaseEntry, cells_of

WORDS = {PASSED: "passed", FAILED: "failed", UNGRADED: "ungraded", ERROR: "error", SKIPPED: "skipped"}


class CheckCell(Struct, frozen=True, kw_only=True):
    """The outcomes of one check over the trials of a case."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    skipped: int = 0
    ungraded: int = 0


class CaseTrials(Struct, frozen=True, kw_only=True):
    """The trials of a case by outcome. `total` is 1 if the run does not repeat its cases."""

    total: int
    passed: int
    failed: int
    unmeasured: int


class CasePreview(Struct, frozen=True, kw_only=True):
    """The beginnings of the texts of a case. `reason`: null if nothing failed."""

    input: str
    output: str
    expected: str | None
    reason: str | None


class CaseRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    One case. A number that is null was not measured or is not known. `cells` has null for a check that the case does
    not have.
    """

    position: int
    case_id: str | None  # null: erased
    status: str
    score: float | None
    cost_usd: float | None
    latency_ms: float | None
    trials: CaseTrials
    cells: list[CheckCell | None]
    findings: int | UnsetType = UNSET
    preview: CasePreview | UnsetType = UNSET


def row_of(
    entry: CaseEntry, columns: int, case_id: str | None, preview: CasePreview | UnsetType = UNSET
) -> CaseRow:
    """The row of a case in a table with this many columns of checks."""
    passed, failed = entry.count(PASSED), entry.count(FAILED)
    return CaseRow(
        position=entry.position,
        case_id=case_id,
        status=WORDS[entry.status],
        score=entry.score,
        cost_usd=entry.cost,
        latency_ms=entry.latency,
        trials=CaseTrials(
            total=len(entry.patterns),
            passed=passed,
            failed=failed,
            unmeasured=entry.count(ERROR) + entry.count(SKIPPED),
        ),
        cells=[None if counts is None else _cell(counts) for counts in cells_of(entry.patterns, columns)],
        findings=UNSET if entry.findings is None else entry.findings,
        preview=preview,
    )


def _cell(counts: Counter[str]) -> CheckCell:
    return CheckCell(**{word: counts[letter] for letter, word in WORDS.items()})
