"""
Scores a case: its checks compiled once per run, with paths as getters and the constant parts of the result encoded.

`checks/runner.py` is the interpreted form. A compiled check that meets an unusual value falls back to it. A property
test asserts that both forms give the same bytes, apart from clocks.
"""

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.checks.arguments import BoundCheck, PathArgument, build, follow
from assay.checks.checker import FALLBACK, AnswerWithMetadata, Checker
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
from assay.checks.worker_tasks import WorkerTask
from assay.errors import Fault, PathFault, ValueFault
from assay.fep.planning.compiled_scorer import CompiledChecks, Run, ScoredParts, ValueReader
from assay.fep.planning.source_builder import YES
from assay.inputs.context import Context
from assay.jsonpath import MISSING, Query
from assay.jsonpath.query import Getter, batch_getter
from assay.ports import Limits, Services
from assay.protocol.results import CheckResult, Status, TestCaseResult, TestCaseSummary
from assay.results.case_answers import Answers
from assay.results.number_ranges import declared_ranges
from assay.results.spending import NOTHING, Spending, spending_of_all
from assay.results.tally import Tally

_encode = msgspec.json.Encoder().encode
read_result = msgspec.json.Decoder(TestCaseResult).decode
COMPILED = 100  # checks: compiling the function holds the GIL, about 0.2 ms a check
INTERPRETED = 20  # microseconds for a check that is not compiled


class ScoredCase(Struct, frozen=True):
    """An encoded TestCaseResult, its status and its spending."""

    line: bytes
    status: Status
    spending: Spending = NOTHING

    def result(self) -> TestCaseResult:
        return read_result(self.line)


class CompiledCase(ScoredCase, frozen=True, kw_only=True):
    """A case that the compiled form scored. Its bytes are written when `line` is read."""

    compiled: CompiledChecks
    context: Context
    parts: ScoredParts

    @property
    def is_passed(self) -> bool:
        """Whether every check passed, with no other member in its answer."""
        answers = self.parts[1]
        return answers.count(YES) == len(answers)

    @property
    def line(self) -> bytes:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.compiled.line(self.context.line, self.parts)

    def result(self) -> TestCaseResult:
        """The result. It may hold the document of the context."""
        build = self.compiled.build_result
        return read_result(self.line) if build is None else build(self.context.document, self.parts)


class OpenCase:
    """A case some of whose checks have no result yet."""

    __slots__ = ("answers", "context", "is_skipped", "remaining", "results", "scorer", "started", "tasks")

    def __init__(
        self,
        context: Context,
        scorer: "Scorer",
        answers: Answers,
        results: Sequence[CheckResult | None] | None = None,
        tasks: Mapping[int, "OpenTask"] = MappingProxyType({}),
    ) -> None:
        """`tasks`: of checks that worker processes answer, by the number of the check."""
        self.context, self.scorer, self.answers, self.tasks = context, scorer, answers, tasks
        self.results: list[CheckResult | None] = list(results or [None] * len(scorer.checks))
        self.remaining = self.results.count(None)
        self.started = False  # a started case is finished even if the budget is exhausted
        self.is_skipped = False

    def set_result(self, index: int, result: CheckResult) -> None:
        if self.results[index] is None:
            self.results[index] = result
            self.remaining -= 1

    def result(self) -> ScoredCase:
        return self.scorer.result_of(
            self.context, [one for one in self.results if one is not None], self.answers
        )


class OpenTask(NamedTuple):
    """A check that waits for a worker process, and its task there."""

    check: PreparedCheck
    task: WorkerTask


class Scorer:
    """Runs the checks of one case or of every case."""

    def __init__(
        self,
        checks: Sequence[BoundCheck],
        labels: Sequence[str],
        services: Services,
        options: ResultOptions,
        *,
        compile_after: int = 0,
    ) -> None:
        """`compile_after`: how many cases the interpreted form scores before the checks are compiled."""
        self.checks = tuple(checks)
        self.labels = tuple(labels)
        self.ranges = [declared_ranges(bound) for bound in checks]
        self.waits = any(waits(bound.checker) for bound in checks)
        self.value_indexes: list[list[int]] = []
        self._services, self._options = services, options
        self._compile_after = compile_after
        self._compiled: CompiledChecks | None = None
        if compile_after == 0:
            self._compile()

    def _compile(self) -> None:
        if self.waits or self._options.timings or len(self.checks) > COMPILED:
            return
        checks, services = self.checks, self._services
        value_reader, self.value_indexes = make_reader(checks, services.limits)
        self._read = value_reader.read
        self._runs: list[Run] = [compiled_form(bound) or default_form(bound, services) for bound in checks]
        arguments = self._options.resolved_arguments
        compiled = CompiledChecks(checks, self._runs, self.value_indexes, value_reader, arguments=arguments)
        self._score = compiled.score  # generated here: not on an event loop, with the first case
        self._compiled = compiled

    @property
    def steps(self) -> int:
        """The estimated microseconds of a case. An interpreted check takes twenty times as long as a compiled one."""
        return len(self.checks) * (1 if self._compiled is not None else INTERPRETED)

    def answers_in(self, tally: Tally) -> Answers:
        """The answers of these checks in a tally. Call it once per run or once per case."""
        answers = tally.answers(self.labels)
        answers.declare(self.ranges)
        return answers

    def begin(self, context: Context, answers: Answers, *, deferred: bool = False) -> ScoredCase | OpenCase:
        """
        Score a case whose checks do not wait. An OpenCase: worker processes have tasks for it.

        `deferred`: a case that the compiled form scored is a CompiledCase, which does not have its bytes yet.
        """
        compiled = self._compiled
        if compiled is None:
            self._compile_after -= 1
            if self._compile_after == 0:
                self._compile()
            prepared = [prepare(bound, context.document, self._services) for bound in self.checks]
            return self._from_answers(context, prepared, [FALLBACK] * len(prepared), answers)
        now = self._services.clock.now
        if deferred:
            outcome = compiled.parts(context.document, answers, now)
            if isinstance(outcome, tuple):
                return CompiledCase(b"", "completed", compiled=compiled, context=context, parts=outcome)
        else:
            outcome = self._score(context.document, context.line, answers, now)
            if isinstance(outcome, bytes):
                return ScoredCase(outcome, "completed")
        return self._fallback(context, outcome, answers)

    def _fallback(
        self,
        context: Context,
        answers: list[Any] | None,
        answer_fold: Answers,
    ) -> ScoredCase | OpenCase:
        """
        Score a case that the compiled form returned: a value is missing, a check failed or needs the interpreted form.
        """
        values = self._read(context.document)
        if answers is None:
            answers = [self._call(at, values) for at in range(len(self.checks))]
        prepared = [
            prepare(bound, context.document, self._services)
            if answer is FALLBACK
            else self._prepare(at, values)
            for at, (bound, answer) in enumerate(zip(self.checks, answers, strict=True))
        ]
        return self._from_answers(context, prepared, answers, answer_fold)

    def _from_answers(
        self,
        context: Context,
        checks: Sequence[PreparedCheck],
        answers: Sequence[Any],
        answer_fold: Answers,
    ) -> ScoredCase | OpenCase:
        """The case from the answers of its checks. A FALLBACK answer is replaced by the interpreted form."""
        tasks: dict[int, OpenTask] = {}
        called: list[Any] = []
        for at, (check, answer) in enumerate(zip(checks, answers, strict=True)):
            called.append(call(check, self._services) if answer is FALLBACK else answer)
            if isinstance(called[-1], WorkerTask):
                tasks[at] = OpenTask(check, called[-1])
        results = [
            None if at in tasks else self.to_result(check, answer)
            for at, (check, answer) in enumerate(zip(checks, called, strict=True))
        ]
        case = OpenCase(context, self, answer_fold, results, tasks)
        return case if tasks else case.result()

    def to_result(self, check: PreparedCheck, answer: Any, *, seconds: float | None = None) -> CheckResult:
        return to_result(check, answer, self._services, self._options, seconds=seconds)

    def score_interpreted(self, context: Context, answers: Answers, *, fail_fast: bool = False) -> ScoredCase:
        """Score a case in the interpreted form. With `fail_fast`, checks after an error are skipped."""
        results: list[CheckResult] = []
        for at, bound in enumerate(self.checks):
            if fail_fast and results and results[-1].status != "completed":
                results.append(self.skip_check(at))
            else:
                results.append(run_check(bound, context.document, self._services, self._options))
        return self.result_of(context, results, answers)

    def skip_check(self, index: int) -> CheckResult:
        return skip_result(self.checks[index], self._services)

    def skip_case(self, context: Context, answers: Answers) -> ScoredCase:
        """The result of a case that was not started."""
        return self.result_of(context, [*map(self.skip_check, range(len(self.checks)))], answers)

    def result_of(self, context: Context, results: Sequence[CheckResult], answers: Answers) -> ScoredCase:
        """The result of a case from the results of its checks; counts them."""
        id, code = context.document["test_case"]["id"], 0
        for at, result in enumerate(results):
            error = result.error.message if result.error else ""
            code |= answers.record(at, result.status, result.results, id, error)
        answers.close(id, code)
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

    def _call(self, index: int, values: list[Any]) -> Any:
        arguments = [values[which] for which in self.value_indexes[index]]
        if MISSING in arguments:
            return FALLBACK
        try:
            return self._runs[index](*arguments)
        except Fault as fault:
            return fault

    def _prepare(self, index: int, values: list[Any]) -> PreparedCheck:
        """The check with its resolved values, for an answer of the compiled form."""
        bound = self.checks[index]
        resolved = {
            path.field.name: values[which]
            for path, which in zip(bound.paths, self.value_indexes[index], strict=True)
        }
        return PreparedCheck(bound, resolved, ValueFault(""), 0.0)


@lru_cache(maxsize=512)
def waits(checker: type[Checker]) -> bool:
    return checker.waits or checker.isolate or inspect.iscoroutinefunction(checker.run)


def make_reader(checks: Sequence[BoundCheck], limits: Limits) -> tuple[ValueReader, list[list[int]]]:
    """A reader of all values that the checks take, each path once, and for every check the indexes of its values."""
    indexes: dict[tuple[str, str], int] = {}
    gets: list[Getter] = []
    names: list[tuple[str, ...] | None] = []
    value_indexes: list[list[int]] = []
    for bound in checks:
        value_indexes.append([])
        for path in bound.paths:
            key = path.text, path.field.takes
            if key not in indexes:
                indexes[key] = len(gets)
                gets.append(getter(path, limits))
                names.append(member_names(path))
            value_indexes[-1].append(indexes[key])
    simple = [path for path in names if path is not None]
    if len(simple) == len(gets):
        return ValueReader(batch_getter(simple, gets), simple), value_indexes

    def read(document: Any) -> list[Any]:
        return [get(document) for get in gets]

    return ValueReader(read, None), value_indexes


def member_names(path: PathArgument) -> tuple[str, ...] | None:
    """The member names of a path, if it consists of names only and its argument takes one value. Else None."""
    return path.query.names if isinstance(path.query, Query) and path.field.takes == "one" else None


def getter(path: PathArgument, limits: Limits) -> Getter:
    """A getter of the argument of a path. MISSING: the interpreted form reports the fault."""
    query = path.query
    if isinstance(query, Query) and query.singular and path.field.takes == "one":
        return query.get

    def get(document: Any) -> Any:
        try:
            return follow(path, document, limits)
        except PathFault:
            return MISSING

    return get


def default_form(bound: BoundCheck, services: Services) -> Run:
    """A function for a check without a compiled form: it builds the check, then runs it."""
    argument_names = [path.field.name for path in bound.paths]

    def run(*arguments: Any) -> Any:
        values = dict(zip(argument_names, arguments, strict=True))
        prepared = PreparedCheck(bound, values, build(bound, values), 0.0)
        answer = call(prepared, services)
        if isinstance(answer, WorkerTask | AnswerWithMetadata):
            return answer
        return validate_answer(answer, bound.checker)

    return run
