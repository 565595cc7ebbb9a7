"""
The checks of a case, compiled once a run: paths to getters, constant parts encoded, the context copied through.

The plain form is `checks.run`. Whatever a compiled check finds unusual is put to the plain form instead, and a
property test says that the two give the same bytes, clocks aside.
"""

import inspect
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.arguments import Bound, Path, build, follow
from assay.checks.checker import PLAIN, Checker
from assay.checks.run import Options, Prepared, ask, concluded, examined, quick_form, run_here, skipped
from assay.errors import Fault, PathFault, ValueFault
from assay.fep.compiled import Reading, Run, Score, Told, write_score
from assay.fep.context import Context
from assay.fep.spending import NOTHING, Spending, spending_of_all
from assay.fep.tally import Row, Tally
from assay.paths import MISSING, Query
from assay.paths.together import Get, together
from assay.ports import Limits, Services
from assay.protocol.results import CheckResult, Status, TestCaseSummary

_encode = msgspec.json.Encoder().encode


class Scored(Struct, frozen=True):
    """A TestCaseResult as it goes out, and how it ended."""

    line: bytes
    status: Status
    spending: Spending = NOTHING


class Sheet:
    """The checks that one case, or every case, is put to."""

    def __init__(
        self,
        bounds: Sequence[Bound],
        labels: Sequence[str],
        services: Services,
        options: Options,
        *,
        patience: int = 0,
    ) -> None:
        """`patience` is how many cases are put to the plain form before the compiled one is worth writing."""
        self.bounds = tuple(bounds)
        self.labels = tuple(labels)
        self.waits = any(waits(bound.checker) for bound in bounds)
        self.takes: list[list[int]] = []
        self._services, self._options = services, options
        self._patience = patience
        self._score: Score | None = None
        if patience == 0:
            self._compile()

    def _compile(self) -> None:
        if self.waits or self._options.timings:
            return
        bounds, services = self.bounds, self._services
        reading, self.takes = reader(bounds, services.limits)
        self._read = reading.read
        self._runs: list[Run] = [quick_form(bound) or default(bound, services) for bound in bounds]
        shown = self._options.resolved_arguments
        self._score = write_score(bounds, self._runs, self.takes, reading, arguments=shown)

    def rows(self, tally: Tally) -> list[Row]:
        """The lines of a tally that these checks count in: take them once a run, or once a case."""
        return [tally.row(label) for label in self.labels]

    def score(self, context: Context, rows: list[Row], told: list[Told | None] | None = None) -> Scored:
        """A case whose checks do not wait, from beginning to end. In `told` goes what its line is made of, or None."""
        if self._score is None:
            self._patience -= 1
            if self._patience == 0:
                self._compile()
            return _untold(told, self.plainly(context, rows))
        made = self._score(context.document, context.line, rows, self._services.clock.now, told)
        return Scored(made, "completed") if isinstance(made, bytes) else self._odd(context, made, rows, told)

    def lines(
        self, contexts: Iterable[Context], tally: Tally, told: list[Told | None] | None = None
    ) -> list[bytes]:
        """`score` of one case after the other, counted, where only the bytes are wanted."""
        rows, score = self.rows(tally), self._score
        found: list[bytes] = []
        if score is None:
            for scored in (self.score(context, rows, told) for context in contexts):
                tally.case(scored.status)
                found.append(scored.line)
            return found
        now = self._services.clock.now
        for context in contexts:
            made = score(context.document, context.line, rows, now, told)
            if isinstance(made, bytes):
                tally.completed_cases += 1
                found.append(made)
            else:
                odd = self._odd(context, made, rows, told)
                tally.case(odd.status)
                found.append(odd.line)
        return found

    def _odd(
        self, context: Context, answers: list[Any] | None, rows: list[Row], told: list[Told | None] | None
    ) -> Scored:
        """A case in which something is missing, erred, or is for the plain form; with the answers that were given, if any were."""
        values = self._read(context.document)
        if answers is None:
            answers = [self._answer(at, values) for at in range(len(self.bounds))]
        results = [self._result(at, answer, values, context) for at, answer in enumerate(answers)]
        return _untold(told, self.closed(context, results, rows))

    def plainly(self, context: Context, rows: list[Row], *, fail_fast: bool = False) -> Scored:
        """The same, by the plain form; what follows an error may be skipped."""
        results: list[CheckResult] = []
        for bound in self.bounds:
            if fail_fast and results and results[-1].status != "completed":
                results.append(skipped(bound, self._services))
            else:
                results.append(run_here(bound, context.document, self._services, self._options))
        return self.closed(context, results, rows)

    def skipped(self, context: Context, rows: list[Row]) -> Scored:
        """A case that was not begun."""
        return self.closed(context, [skipped(bound, self._services) for bound in self.bounds], rows)

    def closed(self, context: Context, results: Sequence[CheckResult], rows: Sequence[Row]) -> Scored:
        """A case from the results of its checks."""
        for result, row in zip(results, rows, strict=True):
            row.note(result.status, result.results, result.error.message if result.error else "")
        statuses = [result.status for result in results]
        summary = TestCaseSummary(
            total_checks=len(statuses),
            completed_checks=statuses.count("completed"),
            error_checks=statuses.count("error"),
            skipped_checks=statuses.count("skip"),
        )
        status: Status = "error" if "error" in statuses else "skip" if "skip" in statuses else "completed"
        spending = spending_of_all(results) if self.waits else NOTHING
        parts = (
            b'{"status":"',
            status.encode(),
            b'","execution_context":',
            context.line,
            b',"check_results":',
            _encode(results),
            b',"summary":',
            _encode(summary),
            b',"metadata":' + _encode(spending) if spending else b"",
            b"}",
        )
        return Scored(b"".join(parts), status, spending)

    def _answer(self, at: int, values: list[Any]) -> Any:
        given = [values[which] for which in self.takes[at]]
        if MISSING in given:
            return PLAIN
        try:
            return self._runs[at](*given)
        except Fault as fault:
            return fault

    def _result(self, at: int, answer: Any, values: list[Any], context: Context) -> CheckResult:
        """From an answer that was given, or by the plain form."""
        bound = self.bounds[at]
        if answer is PLAIN:
            return run_here(bound, context.document, self._services, self._options)
        seen = {
            path.field.name: values[which] for path, which in zip(bound.paths, self.takes[at], strict=True)
        }
        prepared = Prepared(bound, seen, ValueFault(""), 0.0)
        return concluded(prepared, answer, self._services, self._options)


def _untold(told: list[Told | None] | None, scored: Scored) -> Scored:
    """There is more to this one than its compiled form can tell."""
    if told is not None:
        told.append(None)
    return scored


@lru_cache(maxsize=512)
def waits(checker: type[Checker]) -> bool:
    return checker.waits or checker.isolate or inspect.iscoroutinefunction(checker.run)


def reader(bounds: Sequence[Bound], limits: Limits) -> tuple[Reading, list[list[int]]]:
    """All the values that checks take, each path once; and for every check, which of them are its own."""
    known: dict[tuple[str, str], int] = {}
    gets: list[Get] = []
    names: list[tuple[str, ...] | None] = []
    takes: list[list[int]] = []
    for bound in bounds:
        takes.append([])
        for path in bound.paths:
            key = path.text, path.field.takes
            if key not in known:
                known[key] = len(gets)
                gets.append(getter(path, limits))
                names.append(names_of(path))
            takes[-1].append(known[key])
    followed = [one for one in names if one is not None]
    if len(followed) == len(gets):
        return Reading(together(followed, gets), followed), takes

    def read(document: Any) -> list[Any]:
        return [get(document) for get in gets]

    return Reading(read, None), takes


def names_of(path: Path) -> tuple[str, ...] | None:
    """The members a path follows, where it is made of nothing else and its argument takes one value."""
    return path.query.names if isinstance(path.query, Query) and path.field.takes == "one" else None


def getter(path: Path, limits: Limits) -> Get:
    """What a path yields for its argument, or MISSING where the plain form has something to say."""
    query = path.query
    if isinstance(query, Query) and query.singular and path.field.takes == "one":
        return query.get

    def get(document: Any) -> Any:
        try:
            return follow(path, document, limits)
        except PathFault:
            return MISSING

    return get


def default(bound: Bound, services: Services) -> Run:
    """Build and run: what a check does that has no faster form."""
    names = [path.field.name for path in bound.paths]

    def run(*given: Any) -> Any:
        values = dict(zip(names, given, strict=True))
        prepared = Prepared(bound, values, build(bound, values), 0.0)
        return examined(ask(prepared, services), bound.checker)

    return run
