"""An evaluation of cases in memory: its plan, and the two ways to run it, with an event loop and without one."""

import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from msgspec import Struct

from assay.api.agents import AgentLike, agent_for, agent_results, empty_outputs
from assay.api.cases_from_rows import Columns, GivenCases, cases_and_outputs
from assay.backends.provider_config import LazyProviders, ProviderPolicy
from assay.checks.function_check import function_checker, is_function
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.concurrency.garbage import gc_paused
from assay.errors import InvalidRequest, Problem
from assay.fep.execution.execute import Execution, ExecutionOptions
from assay.fep.outputs.run_result import RunResult, metadata_of, run_result
from assay.fep.planning.plan import Plan, ProblemCollector, is_sequence
from assay.fep.planning.request import contexts_in, experiment_from, own_problems, plan_of, scorers_of
from assay.fep.planning.scorer import ScoredCase, read_result
from assay.fep.planning.short_checks import expand_checks
from assay.host import parts
from assay.inputs.context import Context, kind_of
from assay.inputs.frames import DataFrame
from assay.protocol.evaluation import Check, ExperimentMetadata, Output, TestCase
from assay.results.run_end import RunFooter
from assay.results.tally import Tally
from assay.runs.intake import new_id
from assay.runs.run_names import name_tag
from assay.settings import Settings, load

Document = dict[str, Any]
OneCheck = Check | Document | str | Callable[..., object]  # a text is the type of a check without arguments
Checks = Sequence[OneCheck | Sequence[OneCheck]]
Cases = Sequence[TestCase | Document] | DataFrame
Outputs = Sequence[Output | Document] | DataFrame
DEFER_AFTER = 64  # cases: for fewer, another generated function costs more than it saves


class Progress(Struct, frozen=True):
    """How far a run is: cases done, cases in all (None if unknown), and cases with an errored check."""

    done: int
    total: int | None
    errors: int


OnProgress = Callable[[Progress], object]


class EvaluationArguments(Struct, frozen=True, kw_only=True):
    """The arguments of `evaluate` and `evaluate_sync`."""

    test_cases: Cases
    outputs: Outputs | None
    checks: Checks | None
    experiment_metadata: ExperimentMetadata | Document | None
    agent: AgentLike | None
    trials: int
    concurrency: int | None
    timeout: float | None
    fail_fast: bool
    on_progress: OnProgress | None
    max_cost: float | None
    cache: bool
    resolved_arguments: bool
    registry: Registry | None
    map: Columns | None
    name: str | None


class InMemoryEvaluation:
    """
    One evaluation. The constructor plans it, or refuses with all problems.

    `run_in_place` scores the cases that need no event loop; `run` scores the others.
    """

    def __init__(self, arguments: EvaluationArguments) -> None:
        settings = load()
        collector = ProblemCollector()
        execution = collector.read(
            lambda: execution_options(
                settings,
                arguments.concurrency,
                arguments.timeout,
                arguments.max_cost,
                fail_fast=arguments.fail_fast,
                skip_rest=True,
            )
        )
        seconds = settings.limits.check_seconds if execution is None else execution.seconds
        services = parts.services(settings, ProviderPolicy(seconds=seconds), cache=arguments.cache)
        self._started = services.clock.now()
        options = ResultOptions(resolved_arguments=arguments.resolved_arguments)
        available = collector.read(lambda: registry_for(arguments.registry, settings)) or parts.registry(
            settings
        )
        expanded = collector.read(lambda: with_short_forms(arguments.checks))
        checks, available = with_functions(
            [] if expanded is None and arguments.checks else expanded, available
        )
        plan = collector.read(lambda: plan_of(checks, available, services, options))
        given = collector.read(
            lambda: cases_and_outputs(
                arguments.test_cases,
                arguments.outputs,
                arguments.map,
                answered=arguments.agent is not None,
            )
        )
        asked = arguments.agent is not None and arguments.outputs is None
        # if they are refused, their number is no second problem
        test_cases, outputs, self._columns = given or GivenCases([], None if asked else [])
        self._agent = collector.read(
            lambda: agent_for(
                arguments.agent,
                outputs,
                arguments.trials,
                settings,
                max_cost=arguments.max_cost,
                cases=len(test_cases) if hasattr(test_cases, "__len__") else None,
            )
        )
        with gc_paused():
            parsed = contexts_in(
                test_cases,
                empty_outputs(test_cases) if outputs is None else outputs,
                settings.limits,
            )
        collector.problems += parsed.problems
        self._tags = collector.read(lambda: _tags(arguments.name)) or []
        self._experiment = collector.read(lambda: experiment_from(arguments.experiment_metadata))
        if plan is None:
            collector.problems += own_problems(parsed, Plan(None, available, services))
        else:
            collector.read(lambda: scorers_of(plan, parsed))
        collector.refuse()
        assert plan is not None
        assert execution is not None
        self._arguments, self._settings, self._services, self._plan = arguments, settings, services, plan
        self._contexts, self._tally = parsed.contexts, Tally()
        self._scored: list[ScoredCase | bytes] = []
        execution = execution._replace(deferred=len(parsed.contexts) >= DEFER_AFTER)
        self._execution = Execution(plan, parsed.contexts, self._tally, execution)

    def run_in_place(self) -> RunResult | None:
        """
        Score the cases that need no event loop. Return the result if these are all cases, else None: then call `run`
        for the rest.
        """
        cases = self._execution.score_in_place()
        if self._arguments.on_progress is None:
            self._scored.extend(cases)
        else:
            for case in cases:
                self._add(case)
        providers = self._services.providers
        if not self._execution.is_complete or (isinstance(providers, LazyProviders) and providers.exist):
            return None
        result = self._result()
        self._save(result)
        return result

    async def run(self) -> RunResult:
        """Score the cases that are left, and close what was opened."""
        from assay.fep.execution.stream import stream  # deferred import: asyncio, with TLS and sockets

        try:
            if self._agent is not None:
                async for line in agent_results(
                    self._agent,
                    self._plan,
                    _each(self._contexts),
                    self._tally,
                    self._execution.options,
                    self._settings,
                    self._arguments.trials,
                    self._arguments.timeout,
                ):
                    self._add(line)
            elif not self._execution.is_complete:
                async for scored in stream(self._execution):
                    self._add(scored)
        finally:
            await self._services.close()
        result = self._result()
        if self._tags:
            from assay.concurrency.threads import in_thread  # deferred import: asyncio, with TLS and sockets

            await in_thread(lambda: self._save(result))
        return result

    def _add(self, case: ScoredCase | bytes) -> None:
        self._scored.append(case)
        if self._arguments.on_progress is not None:
            total = self._arguments.trials * len(self._contexts)
            self._arguments.on_progress(Progress(len(self._scored), total, self._tally.error_cases))

    def _result(self) -> RunResult:
        with gc_paused():
            now = self._services.clock.now()
            results = [read_result(one) if isinstance(one, bytes) else one.result() for one in self._scored]
            return run_result(
                new_id("eval_"), self._started, now, self._tally, results, self._experiment, self._columns
            )

    def _save(self, result: RunResult) -> None:
        """Store the run under its name, if it has one."""
        if not self._tags:
            return
        from assay.fep.records.save import StoreSink  # deferred import: most runs are not stored
        from assay.runs.provenance import provenance_of  # deferred import: the same

        store, clock = parts.store(self._settings, light=True), self._services.clock
        sink = StoreSink(
            store,
            self._plan.checks,
            self._experiment,
            self._tally,
            clock,
            result.evaluation_id,
            self._tags,
            self._columns,
            provenance_of(),
        )
        for one in self._scored:
            sink.write(one if isinstance(one, bytes) else one.line)
        sink.close(
            RunFooter(
                evaluation_id=result.evaluation_id,
                started_at=result.started_at,
                completed_at=result.completed_at,
                status=result.status,
                summary=result.summary,
                experiment=self._experiment,
                metadata=metadata_of(self._tally) or None,
            )
        )


def _tags(name: Any) -> list[str]:
    """The tag that gives the run its name."""
    if name is None:
        return []
    if not isinstance(name, str):
        raise InvalidRequest(Problem("name", f"expected a text, got {kind_of(name)}"))
    return [name_tag(name)]


async def _each(contexts: Iterable[Context]) -> AsyncIterator[Context]:
    for context in contexts:
        yield context


def execution_options(
    settings: Settings,
    concurrency: int | None,
    timeout: float | None,
    max_cost: float | None,
    *,
    fail_fast: bool,
    skip_rest: bool,
) -> ExecutionOptions:
    problems = [
        Problem(name, f"expected a {'whole ' if name == 'concurrency' else ''}number above 0, got {value!r}")
        for name, value in (("concurrency", concurrency), ("timeout", timeout), ("max_cost", max_cost))
        if value is not None and not _above_zero(value, integer=name == "concurrency")
    ]
    if problems:
        raise InvalidRequest(problems)
    return ExecutionOptions(
        concurrency=concurrency or settings.concurrency,
        seconds=timeout or settings.limits.check_seconds,
        run_seconds=settings.limits.run_seconds,
        fail_fast=fail_fast,
        skip_rest=skip_rest,
        max_cost=max_cost,
    )


def registry_for(registry: Any, settings: Settings) -> Registry:
    if registry is None:
        return parts.registry(settings)
    if not isinstance(registry, Registry):
        message = f"expected a registry, such as assay.STANDARD.with_checks([Mine]), got {kind_of(registry)}"
        raise InvalidRequest(Problem("registry", message))
    return registry


def _above_zero(value: Any, *, integer: bool) -> bool:
    kind = Integral if integer else Real
    return not isinstance(value, bool) and isinstance(value, kind) and 0 < float(value) < math.inf


# Short forms, as in a file of checks: `{"contains": "Paris"}`.


def with_short_forms(checks: Any) -> Any:
    """The checks with every short form written out. An InvalidRequest lists what is wrong with them."""
    if not is_sequence(checks):
        return checks
    expanded, problems = expand_checks([list(one) if is_sequence(one) else one for one in checks], "checks")
    if problems:
        raise InvalidRequest(problems)
    return expanded


# Functions among the checks of the library: `assay.evaluate_sync(cases, outputs, [polite])`.


def with_functions(checks: Any, registry: Registry) -> tuple[Any, Registry]:
    """The checks with a Check for every function, and a registry that has those functions."""
    functions: dict[Callable[..., Any], Check] = {}
    if not is_sequence(checks) or not any(map(_has_function, checks)):
        return checks, registry
    replaced = [
        [_check(inner, functions) for inner in one] if is_sequence(one) else _check(one, functions)
        for one in checks
    ]
    return replaced, registry.with_checks([function_checker(one) for one in functions])


def _has_function(value: Any) -> bool:
    return any(map(is_function, value)) if is_sequence(value) else is_function(value)


def _check(value: Any, functions: dict[Callable[..., Any], Check]) -> Any:
    if not is_function(value):
        return value
    check = functions.get(value)
    if check is None:
        check = functions[value] = Check(type=getattr(value, "__name__", type(value).__name__), arguments={})
    return check
