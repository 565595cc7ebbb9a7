"""
The columns of the table of cases (ADR-0068), from the results of a unit.

`outcomes_of` reads the lines of results. `scored_outcomes` makes the same from the answers that the compiled scorer has
counted already.
"""

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from math import isfinite, nan
from typing import Any

import msgspec
from msgspec import Struct

from assay.cases.table import WIDE, indexes, share_of
from assay.inputs.context import Context
from assay.ports.cases import (
    ABSENT,
    ERROR,
    FAILED,
    MAX_CHECKS,
    PASSED,
    SKIPPED,
    UNGRADED,
    CaseBlock,
    CaseColumns,
)
from assay.protocol.json_types import JSON, is_object
from assay.protocol.results import Status
from assay.results.case_answers import Answers
from assay.results.check_names import free_label
from assay.results.reasons import number_of, score_of
from assay.results.spending import Spending
from assay.results.tally import Tally

RESULTS = "results"  # the kind of evidence, of evaluations and of evals
IDS = "case-ids"  # of a unit of several cases: a list, so that a page of cases need not read the results
NOT_MEASURED: dict[str, str] = {"error": ERROR, "skip": SKIPPED}
STATUSES: tuple[str, ...] = (PASSED, FAILED, UNGRADED, ERROR, SKIPPED)
FEW_CHECKS = 64  # patterns of so few checks are cached
_pack = msgspec.msgpack.Encoder().encode


class CaseOutcomes(Struct, frozen=True, kw_only=True, array_like=True):
    """The columns of some results. The checks of a pattern are numbered by `labels`."""

    labels: tuple[str, ...]
    columns: CaseColumns
    spent: float = 0.0
    unknown: int = 0


class CheckLabels:
    """The columns of a run by label, in the order of their first use."""

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self.labels = list(labels)
        self._numbers = {label: at for at, label in enumerate(self.labels)}

    def numbers(self, labels: Iterable[str]) -> list[int | None]:
        """The column of each label. None: the run has too many of them."""
        found: list[int | None] = []
        for label in labels:
            if label not in self._numbers and len(self.labels) < MAX_CHECKS:
                self._numbers[label] = len(self.labels)
                self.labels.append(label)
            found.append(self._numbers.get(label))
        return found

    def block(self, first: int, outcomes: CaseOutcomes) -> CaseBlock:
        """The row of the table for results that begin with number `first`."""
        columns = outcomes.columns
        numbers = self.numbers(outcomes.labels)
        if numbers != list(range(len(numbers))):
            patterns = tuple(_renumbered(pattern, numbers) for pattern in columns.patterns)
            columns = msgspec.structs.replace(columns, patterns=patterns)
        index = indexes(columns)
        counts: dict[str, int] = dict.fromkeys(STATUSES, 0)
        if isinstance(index, bytes):
            for number, pattern in enumerate(columns.patterns):
                counts[pattern[0]] += index.count(number)
        else:
            for number, many in Counter(index).items():
                counts[columns.patterns[number][0]] += many
        return CaseBlock(
            first=first,
            last=first + len(index) - 1,
            passed=counts[PASSED],
            failed=counts[FAILED],
            ungraded=counts[UNGRADED],
            error=counts[ERROR],
            skipped=counts[SKIPPED],
            spent=outcomes.spent,
            unknown=outcomes.unknown,
            data=_pack(columns),
        )


def _renumbered(pattern: str, numbers: Sequence[int | None]) -> str:
    placed = [number for number in numbers if number is not None]
    cells = [ABSENT] * (max(placed, default=-1) + 1)
    for outcome, number in zip(pattern[1:], numbers, strict=False):
        if number is not None:
            cells[number] = outcome
    return pattern[0] + "".join(cells).rstrip(ABSENT)


class OutcomeColumns:
    """Collects the columns of results, one after the other."""

    def __init__(self) -> None:
        self._patterns: dict[str, int] = {}
        self._index = array("H")
        self._scores = array("d")
        self._shared = True  # so far, every score follows from the pattern of its result
        self._numbers = {name: array("d") for name in ("cost", "latency", "bar", "findings", "judges")}
        self._labels: dict[str, int] = {}
        self.seen: dict[Hashable, tuple[int, float]] = {}  # see `add_result`

    def add(
        self,
        status: str,
        cells: Iterable[tuple[str, str]],
        *,
        score: float | None = None,
        **numbers: float | None,
    ) -> tuple[int, float]:
        """
        A result: its outcome, the outcome of each check with its label, and what is known of it.

        Returns what `repeat` needs for a result with the same outcomes and the same score.
        """
        outcomes = dict(cells)
        for label in outcomes:
            self._labels.setdefault(label, len(self._labels))
        text = status + "".join([outcomes.get(label, ABSENT) for label in self._labels]).rstrip(ABSENT)
        self._shared = self._shared and share_of(text) == score
        entry = self._patterns.setdefault(text, len(self._patterns)), nan if score is None else score
        self.repeat(entry, **numbers)
        return entry

    def repeat(self, entry: tuple[int, float], **numbers: float | None) -> None:
        """A result with the outcomes and the score of one before."""
        at = len(self._index)
        self._index.append(entry[0])
        self._scores.append(entry[1])
        for name, value in numbers.items():
            if value is not None:
                _place(self._numbers[name], at, value)

    def outcomes(self, spending: Spending | None = None) -> CaseOutcomes:
        patterns, many = tuple(self._patterns), len(self._index)
        wide = len(patterns) > WIDE
        columns = CaseColumns(
            patterns=patterns,
            index=self._index.tobytes() if wide else bytes(self._index.tolist()),
            score=b"" if self._shared else self._scores.tobytes(),
            **{name: _filled(column, many) for name, column in self._numbers.items()},
        )
        labels = tuple(self._labels)
        if spending is None:
            return CaseOutcomes(labels=labels, columns=columns)
        return CaseOutcomes(
            labels=labels, columns=columns, spent=spending.known_cost_usd, unknown=spending.unknown_costs
        )


class _Check(Struct, gc=False):
    check_type: str
    status: Status
    results: JSON
    metadata: Any = None


class _Output(Struct, gc=False):
    metadata: Any = None


class _Case(Struct, gc=False):
    id: Any = ""
    expected: Any = None


class _Context(Struct, gc=False):
    test_case: _Case
    output: _Output


class ResultSummary(Struct, gc=False):
    """A TestCaseResult, as far as the table of cases needs it."""

    status: Status
    execution_context: _Context
    check_results: list[_Check]
    metadata: Any = None

    @property
    def id(self) -> str:
        return str(self.execution_context.test_case.id)


read_result = msgspec.json.Decoder(ResultSummary).decode


def outcomes_of(lines: Iterable[bytes], spending: Spending | None = None) -> CaseOutcomes:
    """The columns of lines of results."""
    return summarized(map(read_result, lines), spending)


def summarized(results: Iterable[ResultSummary], spending: Spending | None = None) -> CaseOutcomes:
    """`outcomes_of` for lines that are read already."""
    columns = OutcomeColumns()
    for result in results:
        add_result(columns, result)
    return columns.outcomes(spending)


def add_result(columns: OutcomeColumns, result: ResultSummary) -> None:
    """Add a result. What follows from its outcomes is computed once for all results that have the same."""
    metadata = result.execution_context.output.metadata
    about: JSON = metadata if is_object(metadata) else {}
    judged = number_of(result.metadata.get("cost_usd")) if is_object(result.metadata) else None
    cost, latency = cost_of(about, judged), number_of(about.get("latency_ms"))
    key = _outcome_key(result)
    if key is not None and (entry := columns.seen.get(key)) is not None:
        columns.repeat(entry, cost=cost, latency=latency, judges=judged)
        return
    status, cells, score = _outcome(result)
    entry = columns.add(status, cells, score=score, cost=cost, latency=latency, judges=judged)
    if key is not None:
        columns.seen[key] = entry


def _outcome(result: ResultSummary) -> tuple[str, list[tuple[str, str]], float | None]:
    """The outcome of a result, that of each check with its label, and the score."""
    cells, scores = list[tuple[str, str]](), list[float | None]()
    for label, check in zip(labels_of(result.check_results), result.check_results, strict=True):
        document: JSON = {"results": check.results}
        outcome = NOT_MEASURED.get(check.status) or verdict_of(document)
        cells.append((label, outcome))
        scores.append(score_of(document) if check.status == "completed" else None)
    status = status_of(result.status, [outcome for _, outcome in cells])
    return status, cells, None if status in (ERROR, SKIPPED) else mean_score(scores)


def mean_score(scores: Iterable[float | None]) -> float | None:
    """The score of a case from those of its checks; None if no check has one."""
    known = [score for score in scores if score is not None and isfinite(score)]
    return sum(known) / len(known) if known else None


def _outcome_key(result: ResultSummary) -> Hashable | None:
    """Everything that `_outcome` reads, if each check was not measured or says only whether it passed; else None."""
    key: list[Hashable] = [result.status]
    for check in result.check_results:
        results, metadata = check.results, check.metadata
        measured = check.status == "completed"
        passed = results.get("passed") if measured else None
        if measured and (len(results) != 1 or not isinstance(passed, bool)):
            return None
        name = metadata.get("check_name") if is_object(metadata) else None
        if name is not None and not isinstance(name, str):
            return None
        key += (check.check_type, name, check.status, passed)
    return tuple(key)


def verdict_of(check: JSON) -> str:
    """The outcome of a completed check."""
    results: JSON = check["results"]
    response = results.get("response")
    passed = results.get("passed", response.get("passed") if is_object(response) else None)
    return PASSED if passed is True else FAILED if passed is False else UNGRADED


def status_of(status: Status, outcomes: Sequence[str]) -> str:
    """The outcome of a case from those of its checks."""
    if status != "completed":
        return NOT_MEASURED[status]
    return FAILED if FAILED in outcomes else PASSED if PASSED in outcomes else UNGRADED


def cost_of(about: JSON, judged: float | None) -> float | None:
    """The cost of a case: that of its output, and that of its judges; None if neither is known."""
    known = [cost for cost in (number_of(about.get("cost_usd")), judged) if cost is not None]
    return sum(known) if known else None


def labels_of(checks: Sequence[_Check]) -> list[str]:
    """A label for every check of a result: its name, or its type, numbered if another would have the same."""
    named = [_name(check) for check in checks]
    labels = [label for label, _ in named]
    if len(set(labels)) == len(labels):
        return labels
    names = {label for label, own in named if own}
    types = Counter(label for label, own in named if not own)
    counts = Counter[str]()
    for at, (label, own) in enumerate(named):
        if not own and (types[label] > 1 or label in names):
            labels[at] = free_label(label, counts, names)
    return labels


def _name(check: _Check) -> tuple[str, bool]:
    name = check.metadata.get("check_name") if is_object(check.metadata) else None
    return (name, True) if isinstance(name, str) and name else (check.check_type, False)


def scored_outcomes(tally: Tally, contexts: Sequence[Context], lines: Sequence[bytes]) -> CaseOutcomes:
    """`outcomes_of` the lines of these contexts. If the compiled scorer made all of them, the lines are not read."""
    answers = tally.compiled_answers(len(lines))
    if answers is None or len(contexts) != len(lines):
        return outcomes_of(lines, tally.spending)
    return _compiled_outcomes(answers, contexts, tally.spending)


def _compiled_outcomes(answers: Answers, contexts: Sequence[Context], spending: Spending) -> CaseOutcomes:
    codes = answers.codes
    numbers: dict[int, int] = {}
    index = [numbers.setdefault(code, len(numbers)) for code in codes]
    size = answers.size
    few = size <= FEW_CHECKS
    patterns = tuple([_few_pattern(code, size) if few else _pattern(code, size) for code in numbers])
    metadata = [context.document["output"].get("metadata") for context in contexts]
    found = any(metadata)
    columns = CaseColumns(
        patterns=patterns,
        index=bytes(index) if len(patterns) <= WIDE else array("H", index).tobytes(),
        cost=_number_column(metadata, "cost_usd") if found else b"",
        latency=_number_column(metadata, "latency_ms") if found else b"",
    )
    return CaseOutcomes(
        labels=answers.labels, columns=columns, spent=spending.known_cost_usd, unknown=spending.unknown_costs
    )


def _number_column(metadata: Iterable[Any], name: str) -> bytes:
    """A number of the metadata of each output; empty if none has it."""
    members = [one.get(name) if is_object(one) else None for one in metadata]
    if members.count(None) == len(members):
        return b""
    numbers = list(map(number_of, members))
    if numbers.count(None) == len(numbers):
        return b""
    return array("d", [nan if number is None else number for number in numbers]).tobytes()


def _place(column: "array[float]", at: int, value: float) -> None:
    column.extend([nan] * (at - len(column)))
    column.append(value)


def _filled(column: "array[float]", many: int) -> bytes:
    if not any(map(isfinite, column)):
        return b""
    column.extend([nan] * (many - len(column)))
    return column.tobytes()


def _pattern(code: int, size: int) -> str:
    """The pattern of a case of whose checks each passed or failed."""
    cells = "".join(PASSED if code >> at & 1 else FAILED for at in range(size))
    return (FAILED if FAILED in cells else PASSED if cells else UNGRADED) + cells


_few_pattern = lru_cache(maxsize=4096)(_pattern)
