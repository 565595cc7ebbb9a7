"""
Pages, counts and sums of the table of cases (ADR-0068). Pure functions of its rows.

A result is one trial of one case: of a run with `trials` trials, the results of case n are numbered from n * trials on.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import fsum, nan
from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.ports.cases import ABSENT, ERROR, FAILED, PASSED, SKIPPED, UNGRADED, CaseBlock, CaseColumns

WIDE = 256  # patterns; with more, an index has two octets
read_columns = msgspec.msgpack.Decoder(CaseColumns).decode


class CaseEntry(NamedTuple):
    """One case: the numbers are means over its trials, the cost is their sum. None: not known."""

    position: int
    status: str
    score: float | None
    cost: float | None
    latency: float | None
    patterns: tuple[str, ...]  # of each trial
    findings: int | None = None

    def count(self, outcome: str) -> int:
        """The number of trials with this outcome."""
        return sum(pattern[0] == outcome for pattern in self.patterns)


class NumberRange(NamedTuple):
    """Which numbers of a case fit: above `above` and below `below`. An unknown number never does."""

    name: Literal["score", "cost", "latency"]
    above: float | None = None
    below: float | None = None

    def has(self, value: float | None) -> bool:
        if value is None:
            return False
        return (self.above is None or value > self.above) and (self.below is None or value < self.below)


class CheckFilter(NamedTuple):
    """The outcome of the check of a column, in any trial of a case."""

    column: int
    outcome: str = FAILED

    def has(self, pattern: str) -> bool:
        return pattern[self.column + 1 : self.column + 2] == self.outcome


class CaseFilter(Struct, frozen=True, kw_only=True):
    """Which cases are listed: by their outcome, and by those of some checks. Empty: all."""

    statuses: str = ""
    checks: tuple[CheckFilter, ...] = ()
    positions: frozenset[int] | None = None
    findings: bool = False  # only cases with a finding of a detector
    numbers: tuple[NumberRange, ...] = ()

    @property
    def by_status_only(self) -> bool:
        return not self.checks and not self.by_numbers

    @property
    def by_numbers(self) -> bool:
        """Whether more than the outcomes of a case decides."""
        return self.positions is not None or self.findings or bool(self.numbers)

    def matches(self, case: CaseEntry) -> bool:
        return (
            (not self.statuses or case.status in self.statuses)
            and all(any(one.has(pattern) for pattern in case.patterns) for one in self.checks)
            and (self.positions is None or case.position in self.positions)
            and (not self.findings or bool(case.findings))
            and all(one.has(getattr(case, one.name)) for one in self.numbers)
        )

    def matches_pattern(self, pattern: str) -> bool:
        """For a case with one trial: what its pattern says."""
        wanted = not self.statuses or pattern[0] in self.statuses
        return wanted and all(one.has(pattern) for one in self.checks)


def indexes(columns: CaseColumns) -> Sequence[int]:
    """The number of the pattern of each result."""
    return columns.index if len(columns.patterns) <= WIDE else memoryview(columns.index).cast("H")


def share_of(pattern: str) -> float | None:
    """The share of the checks of a measured result that passed; None if none says pass or fail."""
    if pattern[0] in (ERROR, SKIPPED):
        return None
    passed, failed = pattern.count(PASSED, 1), pattern.count(FAILED, 1)
    return passed / (passed + failed) if passed + failed else None


def entries(
    blocks: Iterable[CaseBlock], trials: int, filter: CaseFilter, *, complete: bool = True
) -> Iterator[CaseEntry]:
    """The cases that match, by position. A case whose trials are not all recorded is listed when the run has ended."""
    if trials == 1:
        for block in blocks:
            yield from single_entries(block, filter)
        return
    for position, results in _groups(blocks, trials):
        if len(results) == trials or complete:
            case = combined(position, results, trials)
            if filter.matches(case):
                yield case


class _Result(NamedTuple):
    number: int
    pattern: str
    score: float | None
    cost: float | None
    latency: float | None
    bar: float | None
    findings: float | None


def single_entries(block: CaseBlock, filter: CaseFilter) -> Iterator[CaseEntry]:
    columns = read_columns(block.data)
    wanted = {at for at, pattern in enumerate(columns.patterns) if filter.matches_pattern(pattern)}
    if not wanted:
        return
    index = indexes(columns)
    score, cost, latency, _, findings = numbers_of(columns, index)
    patterns = [(pattern,) for pattern in columns.patterns]
    for at, number in enumerate(index):
        if number not in wanted:
            continue
        found = known_number(findings[at]) if findings else None
        case = CaseEntry(
            block.first + at,
            columns.patterns[number][0],
            known_number(score[at]) if score else None,
            known_number(cost[at]) if cost else None,
            known_number(latency[at]) if latency else None,
            patterns[number],
            None if found is None else abs(int(found)),
        )
        if found is not None and found < 0:
            case = case._replace(score=0.0)
        if filter.by_status_only or filter.matches(case):
            yield case


def numbers_of(columns: CaseColumns, index: Sequence[int]) -> list[Sequence[float]]:
    """The columns of numbers; an empty one if nothing is known."""
    score: Sequence[float] = _doubles(columns.score)
    if not columns.score:
        shares = [nan if (share := share_of(pattern)) is None else share for pattern in columns.patterns]
        score = [shares[number] for number in index]
    rest = (columns.cost, columns.latency, columns.bar, columns.findings)
    return [score, *map(_doubles, rest)]


def _doubles(octets: bytes) -> "array[float]":
    column = array("d")
    column.frombytes(octets)
    return column


def known_number(number: float) -> float | None:
    return None if number != number else number


def _results(block: CaseBlock) -> Iterator[_Result]:
    columns = read_columns(block.data)
    index = indexes(columns)
    known = [
        [known_number(value) for value in column] or [None] * len(index)
        for column in numbers_of(columns, index)
    ]
    for at, number in enumerate(index):
        yield _Result(block.first + at, columns.patterns[number], *(column[at] for column in known))


def _groups(blocks: Iterable[CaseBlock], trials: int) -> Iterator[tuple[int, list[_Result]]]:
    position, group = -1, list[_Result]()
    for block in blocks:
        for result in _results(block):
            if result.number // trials != position:
                if group:
                    yield position, group
                position, group = result.number // trials, []
            group.append(result)
    if group:
        yield position, group


def combined(position: int, results: Sequence[_Result], trials: int) -> CaseEntry:
    """A case of several trials. It is not measured if one of them is not; with a bar, their mean decides."""
    outcomes = "".join(result.pattern[0] for result in results)
    scores = [result.score for result in results if result.score is not None]
    costs = [result.cost for result in results if result.cost is not None]
    latencies = [result.latency for result in results if result.latency is not None]
    findings = [result.findings for result in results if result.findings is not None]
    score = round(sum(scores) / len(scores), 12) if scores else None
    bar = results[0].bar
    if ERROR in outcomes:
        status, score = ERROR, None
    elif SKIPPED in outcomes or len(results) < trials:
        status, score = SKIPPED, None
    elif bar is not None:
        blocked = any(found < 0 for found in findings)
        score = 0.0 if blocked else score
        status = PASSED if score is not None and score >= bar else FAILED
    else:
        status = FAILED if FAILED in outcomes else PASSED if PASSED in outcomes else UNGRADED
    return CaseEntry(
        position,
        status,
        score,
        sum(costs) if costs else None,
        sum(latencies) / len(latencies) if latencies else None,
        tuple(result.pattern for result in results),
        max(abs(int(found)) for found in findings) if findings else None,
    )


def cells_of(patterns: Sequence[str], columns: int) -> list[Counter[str] | None]:
    """For each check, the number of trials by outcome; None if the case does not have the check."""
    cells: list[Counter[str] | None] = []
    for at in range(1, columns + 1):
        counts = Counter(pattern[at : at + 1] or ABSENT for pattern in patterns)
        del counts[ABSENT]
        cells.append(counts or None)
    return cells


def check_counts(blocks: Iterable[CaseBlock], columns: int) -> list[Counter[str]]:
    """For each check, the number of results by outcome."""
    counts = [Counter[str]() for _ in range(columns)]
    for block in blocks:
        decoded = read_columns(block.data)
        for number, many in Counter(indexes(decoded)).items():
            for at, outcome in enumerate(decoded.patterns[number][1 : columns + 1]):
                if outcome != ABSENT:
                    counts[at][outcome] += many
    return counts


def measured_latencies(columns: CaseColumns) -> list[float]:
    """The known latencies of the results that were measured."""
    if not columns.latency:
        return []
    measured = [pattern[0] not in (ERROR, SKIPPED) for pattern in columns.patterns]
    pairs = zip(indexes(columns), _doubles(columns.latency), strict=True)
    return [value for number, value in pairs if measured[number] and value == value]


def known_costs(columns: CaseColumns) -> tuple[float, float]:
    """The sums of the known costs of the results: of their outputs, and of their judges."""
    judges = fsum(cost for cost in _doubles(columns.judges) if cost == cost)
    return max(0.0, fsum(cost for cost in _doubles(columns.cost) if cost == cost) - judges), judges


# A case as a row of the table that a page shows: outcome, numbers, and the outcomes of each check over its
# trials. No content.

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
