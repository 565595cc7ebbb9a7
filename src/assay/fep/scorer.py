"""
The checks of a case, compiled once a run: paths to getters, constant parts encoded, the context copied through.

The plain form is `checks.run`. Whatever a compiled check finds unusual is put to the plain form instead, and a
property test says that the two give the same bytes, clocks aside.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from assay.checks.arguments import BoundCheck, PathArgument, build, follow
from assay.checks.checker import FALLBACK, Checker
from assay.checks.runner import (
    PreparedCheck,
    ResultOptions,
    call,
    compiled_form,
    prepare,
    run_check,
    skip_result,
    to_result,
    validate_answer,
)
from assay.checks.worker_tasks import WorkerTask, run_tasks
from assay.errors import Fault, PathFault, ValueFault
from assay.fep.context import Context
from assay.fep.scorer_source import Run, Score, ScoredParts, ValueReader, generate_scorer
from assay.fep.spending import NOTHING, Spending, spending_of_all
from assay.fep.tally import Answers, Tally
from assay.jsonpath import MISSING, Query
from assay.jsonpath.batch_getter import Get, batch_getter
from assay.ports import Limits, Services
from assay.protocol.results import CheckResult, Status, TestCaseSummary

_encode = msgspec.json.Encoder().encode
COMPILED = 100  # checks: compiling the function holds the GIL, about 0.2 ms a check
INTERPRETED = 20  # microseconds of a check that is not compiled


class ScoredCase(Struct, frozen=True):
    """A TestCaseResult as it goes out, and how it ended."""

    line: bytes
    status: Status
    spending: Spending = NOTHING


class Scorer:
    """The checks that one case, or every case, is put to."""

    def __init__(
        self,
        bounds: Sequence[BoundCheck],
        labels: Sequence[str],
        services: Services,
        options: ResultOptions,
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
        if self.waits or self._options.timings or len(self.bounds) > COMPILED:
            return
        bounds, services = self.bounds, self._services
        reading, self.takes = reader(bounds, services.limits)
        self._read = reading.read
        self._runs: list[Run] = [compiled_form(bound) or default(bound, services) for bound in bounds]
        shown = self._options.resolved_arguments
        self._score = generate_scorer(bounds, self._runs, self.takes, reading, arguments=shown)

    @property
    def steps(self) -> int:
        """About how many microseconds a case takes: interpreted, a check takes twenty times as long."""
        return len(self.bounds) * (1 if self._score is not None else INTERPRETED)

    def counts(self, tally: Tally) -> Answers:
        """Where a tally counts what these checks answer: take it once a run, or once a case."""
        return tally.answers(self.labels)

    def score(
        self, context: Context, counts: Answers, told: list[ScoredParts | None] | None = None
    ) -> ScoredCase:
        """A case whose checks do not wait, from beginning to end; for work of another process this thread waits."""
        begun = self.begin(context, counts, told)
        return begun if isinstance(begun, ScoredCase) else begun.closed(run_tasks(begun.works))

    def begin(
        self, context: Context, counts: Answers, told: list[ScoredParts | None] | None = None
    ) -> "ScoredCase | PendingCase":
        """
        A case whose checks do not wait, to its end or to where another process has to work for it.

        In `told` goes what its line is made of, or None.
        """
        if self._score is None:
            self._patience -= 1
            if self._patience == 0:
                self._compile()
            return self._plain(context, counts, told)
        made = self._score(context.document, context.line, counts, self._services.clock.now, told)
        return (
            ScoredCase(made, "completed")
            if isinstance(made, bytes)
            else self._odd(context, made, counts, told)
        )

    def lines(
        self, contexts: Iterable[Context], tally: Tally, told: list[ScoredParts | None] | None = None
    ) -> "list[bytes | PendingCase]":
        """`begin` of one case after the other, counted if it ended, where only the bytes are wanted."""
        counts, score = self.counts(tally), self._score
        if score is None:
            return [_ended(self.begin(context, counts, told), tally) for context in contexts]
        now = self._services.clock.now
        found: list[bytes | PendingCase] = []
        for context in contexts:
            made = score(context.document, context.line, counts, now, told)
            if isinstance(made, bytes):
                tally.completed_cases += 1
                found.append(made)
            else:
                found.append(_ended(self._odd(context, made, counts, told), tally))
        return found

    def _odd(
        self,
        context: Context,
        answers: list[Any] | None,
        counts: Answers,
        told: list[ScoredParts | None] | None,
    ) -> "ScoredCase | PendingCase":
        """A case in which something is missing, erred, or is for the plain form; with the answers that were given, if any were."""
        values = self._read(context.document)
        if answers is None:
            answers = [self._answer(at, values) for at in range(len(self.bounds))]
        prepared = [
            prepare(bound, context.document, self._services) if answer is FALLBACK else self._seen(at, values)
            for at, (bound, answer) in enumerate(zip(self.bounds, answers, strict=True))
        ]
        return self._begun(context, prepared, answers, counts, told)

    def _plain(
        self, context: Context, counts: Answers, told: list[ScoredParts | None] | None
    ) -> "ScoredCase | PendingCase":
        """`begin`, by the plain form."""
        prepared = [prepare(bound, context.document, self._services) for bound in self.bounds]
        return self._begun(context, prepared, [FALLBACK] * len(prepared), counts, told)

    def _begun(
        self,
        context: Context,
        prepared: Sequence[PreparedCheck],
        answers: Sequence[Any],
        counts: Answers,
        told: list[ScoredParts | None] | None,
    ) -> "ScoredCase | PendingCase":
        """From the answers; PLAIN is asked for by the plain form."""
        services = self._services
        answers = [
            call(one, services) if answer is FALLBACK else answer
            for one, answer in zip(prepared, answers, strict=True)
        ]
        if told is not None:
            told.append(None)  # there is more to this one than its compiled form can tell

        def close(answers: Sequence[Any]) -> ScoredCase:
            results = [
                answer if isinstance(answer, CheckResult) else to_result(one, answer, services, self._options)
                for one, answer in zip(prepared, answers, strict=True)
            ]
            return self.closed(context, results, counts)

        if any(isinstance(one, WorkerTask) for one in answers):
            return PendingCase(self, answers, close)
        return close(answers)

    def plainly(self, context: Context, counts: Answers, *, fail_fast: bool = False) -> ScoredCase:
        """The same, by the plain form; what follows an error may be skipped."""
        results: list[CheckResult] = []
        for bound in self.bounds:
            if fail_fast and results and results[-1].status != "completed":
                results.append(skip_result(bound, self._services))
            else:
                results.append(run_check(bound, context.document, self._services, self._options))
        return self.closed(context, results, counts)

    def skip(self, bound: BoundCheck) -> CheckResult:
        return skip_result(bound, self._services)

    def skipped(self, context: Context, counts: Answers) -> ScoredCase:
        """A case that was not begun."""
        return self.closed(context, [skip_result(bound, self._services) for bound in self.bounds], counts)

    def closed(self, context: Context, results: Sequence[CheckResult], counts: Answers) -> ScoredCase:
        """A case from the results of its checks."""
        id, code = context.document["test_case"]["id"], 0
        for at, result in enumerate(results):
            why = result.error.message if result.error else ""
            code |= counts.note(at, result.status, result.results, id, why)
        counts.close(id, code)
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
        return ScoredCase(b"".join(parts), status, spending)

    def _answer(self, at: int, values: list[Any]) -> Any:
        given = [values[which] for which in self.takes[at]]
        if MISSING in given:
            return FALLBACK
        try:
            return self._runs[at](*given)
        except Fault as fault:
            return fault

    def _seen(self, at: int, values: list[Any]) -> PreparedCheck:
        """What an answer that was given is concluded from."""
        bound = self.bounds[at]
        seen = {
            path.field.name: values[which] for path, which in zip(bound.paths, self.takes[at], strict=True)
        }
        return PreparedCheck(bound, seen, ValueFault(""), 0.0)


class PendingCase:
    """A case for which another process has to work: some of its answers are still to come."""

    def __init__(
        self, sheet: Scorer, answers: Sequence[Any], close: Callable[[Sequence[Any]], ScoredCase]
    ) -> None:
        self._sheet, self._answers, self._close = sheet, answers, close
        self.works = [one for one in answers if isinstance(one, WorkerTask)]

    def closed(self, answers: Iterable[Any]) -> ScoredCase:
        """With the answer to each of its works; None: the check is skipped."""
        given = iter(answers)
        found = [next(given) if isinstance(one, WorkerTask) else one for one in self._answers]
        bounds = self._sheet.bounds
        return self._close(
            [self._sheet.skip(bounds[at]) if one is None else one for at, one in enumerate(found)]
        )


def _ended(begun: ScoredCase | PendingCase, tally: Tally) -> bytes | PendingCase:
    if isinstance(begun, PendingCase):
        return begun
    tally.case(begun.status)
    return begun.line


@lru_cache(maxsize=512)
def waits(checker: type[Checker]) -> bool:
    return checker.waits or checker.isolate or inspect.iscoroutinefunction(checker.run)


def reader(bounds: Sequence[BoundCheck], limits: Limits) -> tuple[ValueReader, list[list[int]]]:
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
        return ValueReader(batch_getter(followed, gets), followed), takes

    def read(document: Any) -> list[Any]:
        return [get(document) for get in gets]

    return ValueReader(read, None), takes


def names_of(path: PathArgument) -> tuple[str, ...] | None:
    """The members a path follows, where it is made of nothing else and its argument takes one value."""
    return path.query.names if isinstance(path.query, Query) and path.field.takes == "one" else None


def getter(path: PathArgument, limits: Limits) -> Get:
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


def default(bound: BoundCheck, services: Services) -> Run:
    """Build and run: what a check does that has no faster form."""
    names = [path.field.name for path in bound.paths]

    def run(*given: Any) -> Any:
        values = dict(zip(names, given, strict=True))
        prepared = PreparedCheck(bound, values, build(bound, values), 0.0)
        answer = call(prepared, services)
        return answer if isinstance(answer, WorkerTask) else validate_answer(answer, bound.checker)

    return run
