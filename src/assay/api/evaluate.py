"""The library without a server (FEP 3.1): `evaluate`, `evaluate_sync`, `evaluate_stream`."""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing
from contextvars import copy_context
from typing import Any, TypeGuard

from assay.api.agents import UNANSWERED, AgentLike, agent_for, agent_results
from assay.api.cases_from_rows import streamed_contexts
from assay.api.evaluation import (
    Cases,
    Checks,
    Document,
    EvaluationArguments,
    InMemoryEvaluation,
    OnProgress,
    Outputs,
    execution_options,
    registry_for,
    with_functions,
    with_short_forms,
)
from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.errors import BadLine, InvalidRequest, Problem
from assay.fep.execution.execute import Execution
from assay.fep.outputs.run_result import RunResult
from assay.fep.planning.request import contexts_of, plan_of
from assay.fep.planning.scorer import read_result
from assay.host import parts
from assay.inputs.context import Context
from assay.inputs.frames import DataFrame
from assay.inputs.input_digests import InputDigests, other_input
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.json_types import is_object
from assay.protocol.results import TestCaseResult
from assay.results.tally import Tally
from assay.settings import Settings, load


async def evaluate(
    test_cases: Cases,
    outputs: Outputs | None = None,
    checks: Checks | None = None,
    experiment_metadata: ExperimentMetadata | Document | None = None,
    *,
    agent: AgentLike | None = None,
    trials: int = 1,
    concurrency: int | None = None,
    timeout: float | None = None,
    fail_fast: bool = False,
    on_progress: OnProgress | None = None,
    max_cost: float | None = None,
    cache: bool = False,
    resolved_arguments: bool = True,
    registry: Registry | None = None,
    map: Mapping[str, str] | None = None,
    name: str | None = None,
) -> RunResult:
    """
    Run the checks on every output: one of `outputs` for each case, or what `agent` answers.

        result = await assay.evaluate(cases, agent=my_function, checks=checks)

    `test_cases` and `outputs` are lists, or data frames of pandas, polars or Arrow. Without `outputs`, a row or a
    context has both. `map` names the columns of rows: `{"input": "question", "output": "answer"}`. The usual names need
    no map. `agent` is a function of the input, an Agent, or a text as `assay evaluate --agent` takes it. It is asked
    `trials` times for each case. `checks` is one list for all cases, one list per case, or None if the cases have their
    own. A check is a Check, a dictionary, one of the short forms of files such as `{"contains": "Paris"}`, or a
    function. `timeout` is the time of one check, and of the agent for a case, in seconds. If it is cancelled, or if
    judges and the agent have cost `max_cost` US dollars, it returns what is done and the other cases as `skip`. With
    `cache`, answers of judges are stored in the home folder and used again. Without `resolved_arguments`, results leave
    out the arguments of each check. With `name`, the run is stored under this name, as by `assay evaluate --name`:
    `compare`, `gate`, `report` and the command find it by its name.
    """
    arguments = EvaluationArguments(
        test_cases=test_cases,
        outputs=outputs,
        checks=checks,
        experiment_metadata=experiment_metadata,
        agent=agent,
        trials=trials,
        concurrency=concurrency,
        timeout=timeout,
        fail_fast=fail_fast,
        on_progress=on_progress,
        max_cost=max_cost,
        cache=cache,
        resolved_arguments=resolved_arguments,
        registry=registry,
        map=map,
        name=name,
    )
    return await InMemoryEvaluation(arguments).run()


def evaluate_sync(
    test_cases: Cases,
    outputs: Outputs | None = None,
    checks: Checks | None = None,
    experiment_metadata: ExperimentMetadata | Document | None = None,
    *,
    agent: AgentLike | None = None,
    trials: int = 1,
    concurrency: int | None = None,
    timeout: float | None = None,
    fail_fast: bool = False,
    on_progress: OnProgress | None = None,
    max_cost: float | None = None,
    cache: bool = False,
    resolved_arguments: bool = True,
    registry: Registry | None = None,
    map: Mapping[str, str] | None = None,
    name: str | None = None,
) -> RunResult:
    """
    `evaluate` for synchronous code.

    Checks that do not wait run in the caller's thread, without an event loop. Other checks and agents run in a new
    event loop. If the caller's thread already runs an event loop, as in a notebook, the new one runs in its own thread.
    """
    arguments = EvaluationArguments(
        test_cases=test_cases,
        outputs=outputs,
        checks=checks,
        experiment_metadata=experiment_metadata,
        agent=agent,
        trials=trials,
        concurrency=concurrency,
        timeout=timeout,
        fail_fast=fail_fast,
        on_progress=on_progress,
        max_cost=max_cost,
        cache=cache,
        resolved_arguments=resolved_arguments,
        registry=registry,
        map=map,
        name=name,
    )
    return copy_context().run(
        _evaluate_sync, arguments
    )  # checks must not set context variables of the caller, as in an event loop


def _evaluate_sync(arguments: EvaluationArguments) -> RunResult:
    if arguments.agent is None:
        evaluation = InMemoryEvaluation(arguments)
        result = evaluation.run_in_place()
        if result is not None:
            return result
        run = evaluation.run
    else:

        async def run() -> RunResult:
            return await InMemoryEvaluation(arguments).run()

    from assay.concurrency.event_loop import run_to_end  # deferred import: asyncio, with TLS and sockets

    return run_to_end(run)


async def evaluate_stream(
    contexts: Iterable[Any] | AsyncIterable[Any] | DataFrame,
    checks: Checks | None = None,
    *,
    agent: AgentLike | None = None,
    trials: int = 1,
    concurrency: int | None = None,
    timeout: float | None = None,
    max_cost: float | None = None,
    cache: bool = False,
    resolved_arguments: bool = True,
    registry: Registry | None = None,
    map: Mapping[str, str] | None = None,
) -> AsyncIterator[TestCaseResult]:
    """
    Yield results in the order of the contexts, with only the cases in flight in memory.

    A context is `{"test_case": …, "output": …}` or a pair of the two; a data frame has a row for each. `map` names the
    columns of rows, as in `evaluate`. An invalid context ends the stream with an
    InvalidRequest that names it; reaching `max_cost` US dollars ends it with a Refusal. Earlier results have been
    yielded. With `agent`, the contexts are test cases, and the agent answers them as in `evaluate`.
    """

    from assay.fep.execution.stream import stream  # deferred import: asyncio, with TLS and sockets

    settings = load()
    subject = agent_for(agent, () if agent is None else None, trials, settings, max_cost=max_cost)
    how = execution_options(settings, concurrency, timeout, max_cost, fail_fast=False, skip_rest=False)
    services = parts.services(settings, ProviderPolicy(seconds=how.seconds), cache=cache)
    options = ResultOptions(resolved_arguments=resolved_arguments)
    checks, available = with_functions(with_short_forms(checks), registry_for(registry, settings))
    given = streamed_contexts(contexts, map, answered=subject is not None)
    plan = plan_of(checks, available, services, options)
    read = context_at if subject is None else _unanswered_context
    source = (
        _read_async(given, settings, read)
        if isinstance(given, AsyncIterable)
        else _read(given, settings, read)
    )
    if subject is not None:
        tally, cases = Tally(), source if isinstance(source, AsyncIterator) else _each(source)
        answers = agent_results(subject, plan, cases, tally, how, settings, trials, timeout)
        try:
            async with aclosing(answers) as lines:
                async for line in lines:
                    yield read_result(line)
        finally:
            await services.close()
        return
    try:
        async with aclosing(stream(Execution(plan, source, Tally(), how))) as results:
            async for scored in results:
                yield read_result(scored.line)
    finally:
        await services.close()


Read = Callable[[Any, int, Settings], Context]


def _read(contexts: Iterable[Any], settings: Settings, read: Read) -> Iterator[Context]:
    inputs = InputDigests()
    for at, context in enumerate(contexts):
        yield with_one_input(read(context, at, settings), at, inputs)


async def _read_async(contexts: AsyncIterable[Any], settings: Settings, read: Read) -> AsyncIterator[Context]:
    inputs, at = InputDigests(), 0
    async for context in contexts:
        yield with_one_input(read(context, at, settings), at, inputs)
        at += 1


def with_one_input(context: Context, index: int, inputs: InputDigests) -> Context:
    """The context, unless its id belongs to another input (FEP-53)."""
    case = context.document["test_case"]
    earlier = inputs.add(case["id"], case["input"], index)
    if earlier is not None:
        raise BadLine(f"contexts[{index}]", [other_input(case["id"], f"contexts[{earlier}]")])
    return context


async def _each(contexts: Iterable[Context]) -> AsyncIterator[Context]:
    for context in contexts:
        yield context


def _unanswered_context(value: Any, index: int, settings: Settings) -> Context:
    return context_at((value, UNANSWERED), index, settings)


def context_at(value: Any, index: int, settings: Settings) -> Context:
    if is_object(value) and value.keys() == {"test_case", "output"}:
        case, output = value["test_case"], value["output"]
    elif is_pair(value):
        case, output = value
    else:
        raise InvalidRequest(
            Problem(
                f"contexts[{index}]", "expected an object with test_case and output, or a pair of the two"
            )
        )
    try:
        (context,) = contexts_of([case], [output], settings.limits)
    except InvalidRequest as refusal:
        raise InvalidRequest(
            [
                Problem(
                    problem.place.replace("test_cases[0]", f"contexts[{index}].test_case").replace(
                        "outputs[0]", f"contexts[{index}].output"
                    ),
                    problem.message,
                )
                for problem in refusal.problems
            ]
        ) from None
    return context


def is_pair(value: Any) -> TypeGuard[tuple[Any, Any]]:
    return isinstance(value, tuple | list) and len(value) == 2  # pyright: ignore[reportUnknownArgumentType]
