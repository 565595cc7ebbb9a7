"""The library without a server (FEP 3.1): `evaluate`, `evaluate_sync`, `evaluate_stream`."""

import asyncio
import gc
import math
import threading
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, contextmanager
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct

from assay import app
from assay.api.agents import UNANSWERED, AgentLike, agent_for, agent_results, empty_outputs
from assay.api.function_checks import with_functions
from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.errors import InvalidRequest, Problem
from assay.fep.context import Context, kind_of
from assay.fep.execute import ExecutionOptions, stream
from assay.fep.plan import Plan
from assay.fep.problems import ProblemCollector
from assay.fep.request import (
    contexts_in,
    contexts_of,
    experiment_from,
    own_problems,
    plan_of,
    scorers_of,
)
from assay.fep.run_result import RunResult, read_result, run_result
from assay.fep.tally import Tally
from assay.protocol.evaluation import Check, ExperimentMetadata, Output, TestCase
from assay.protocol.json_types import is_object
from assay.protocol.results import TestCaseResult
from assay.runs.ids import new_id
from assay.settings import Settings, load

Document = dict[str, Any]
Checks = Sequence[Check | Document] | Sequence[Sequence[Check | Document]]
T = TypeVar("T")


class Progress(Struct, frozen=True):
    """How far a run is: cases done, cases in all (None if unknown), and cases with an errored check."""

    done: int
    total: int | None
    errors: int


OnProgress = Callable[[Progress], object]


async def evaluate(
    test_cases: Sequence[TestCase | Document],
    outputs: Sequence[Output | Document] | None = None,
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
) -> RunResult:
    """
    Run the checks on every output: one of `outputs` for each case, or what `agent` answers.

        result = await assay.evaluate(cases, agent=my_function, checks=checks)

    `agent` is a function of the input, an Agent, or a text as `assay evaluate --agent` takes it. It is asked `trials` times for each
    case. `checks` is one list for all cases, one list per case, or None if the cases have their own. `timeout` is the time of one
    check, and of the agent for a case, in seconds. If it is cancelled, or if judges and the agent have cost `max_cost` US dollars, it
    returns what is done and the other cases as `skip`. With `cache`, answers of judges are stored in the home folder and used again.
    Without `resolved_arguments`, results leave out the arguments of each check.
    """
    settings = load()
    collector = ProblemCollector()
    execution = collector.read(
        lambda: _options(settings, concurrency, timeout, max_cost, fail_fast=fail_fast, skip_rest=True)
    )
    seconds = settings.limits.check_seconds if execution is None else execution.seconds
    services = app.services(settings, ProviderPolicy(seconds=seconds), cache=cache)
    started = services.clock.now()
    options = ResultOptions(resolved_arguments=resolved_arguments)
    available = collector.read(lambda: _registry(registry, settings)) or app.registry(settings)
    checks, available = with_functions(checks, available)
    plan = collector.read(lambda: plan_of(checks, available, services, options))
    subject = collector.read(lambda: agent_for(agent, outputs, trials, settings))
    with gc_paused():
        parsed = contexts_in(
            test_cases, empty_outputs(test_cases) if subject else outputs or (), settings.limits
        )
    collector.problems += parsed.problems
    experiment = collector.read(lambda: experiment_from(experiment_metadata))
    if plan is None:
        collector.problems += own_problems(parsed, Plan(None, available, services))
    else:
        collector.read(lambda: scorers_of(plan, parsed))
    collector.refuse()
    assert plan is not None
    assert execution is not None
    contexts = parsed.contexts
    tally = Tally()
    lines: list[bytes] = []

    def add(line: bytes) -> None:
        lines.append(line)
        if on_progress is not None:
            on_progress(Progress(len(lines), trials * len(contexts), tally.error_cases))

    try:
        if subject is None:
            async for scored in stream(plan, iter(contexts), tally, execution):
                add(scored.line)
        else:
            cases = _each(contexts)
            async for line in agent_results(
                subject, plan, cases, tally, execution, settings, trials, timeout
            ):
                add(line)
    finally:
        await services.close()
    with gc_paused():
        return run_result(new_id("eval_"), started, services.clock.now(), tally, lines, experiment)


def evaluate_sync(
    test_cases: Sequence[TestCase | Document],
    outputs: Sequence[Output | Document] | None = None,
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
) -> RunResult:
    """`evaluate` for synchronous code. Inside a running event loop, such as a notebook's, it uses a thread."""
    return _run(
        lambda: evaluate(
            test_cases,
            outputs,
            checks,
            experiment_metadata,
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
        )
    )


async def evaluate_stream(
    contexts: Iterable[Any] | AsyncIterable[Any],
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
) -> AsyncIterator[TestCaseResult]:
    """
    Yield results in the order of the contexts, with only the cases in flight in memory.

    A context is `{"test_case": …, "output": …}` or a pair of the two. An invalid context ends the stream with an
    InvalidRequest that names it; reaching `max_cost` US dollars ends it with a Refusal. Earlier results have been yielded. With
    `agent`, the contexts are test cases, and the agent answers them as in `evaluate`.
    """
    settings = load()
    subject = agent_for(agent, () if agent is None else None, trials, settings)
    execution = _options(settings, concurrency, timeout, max_cost, fail_fast=False, skip_rest=False)
    services = app.services(settings, ProviderPolicy(seconds=execution.seconds), cache=cache)
    options = ResultOptions(resolved_arguments=resolved_arguments)
    checks, available = with_functions(checks, _registry(registry, settings))
    plan = plan_of(checks, available, services, options)
    read = _context if subject is None else _unanswered_context
    source = (
        _read_async(contexts, settings, read)
        if isinstance(contexts, AsyncIterable)
        else _read(contexts, settings, read)
    )
    if subject is not None:
        tally, cases = Tally(), source if isinstance(source, AsyncIterator) else _each(source)
        answers = agent_results(subject, plan, cases, tally, execution, settings, trials, timeout)
        try:
            async with aclosing(answers) as lines:
                async for line in lines:
                    yield read_result(line)
        finally:
            await services.close()
        return
    try:
        async with aclosing(stream(plan, source, Tally(), execution)) as results:
            async for scored in results:
                yield read_result(scored.line)
    finally:
        await services.close()


class _FrozenObjects:
    """Whether the program froze objects. Counting them takes milliseconds, so a program that has some is asked once."""

    def __init__(self) -> None:
        self._seen = False

    def __bool__(self) -> bool:
        self._seen = self._seen or gc.get_freeze_count() > 0
        return self._seen


_frozen_objects = _FrozenObjects()


@contextmanager
def gc_paused() -> Generator[None]:
    """Pause the garbage collector: this code makes many objects and no cycles, and collecting would take half of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on and not _frozen_objects:
            gc.freeze()  # and back: this moves the new objects to the oldest generation without a scan
            gc.unfreeze()
        if on:
            gc.enable()


def _options(
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


def _registry(registry: Any, settings: Settings) -> Registry:
    if registry is None:
        return app.registry(settings)
    if not isinstance(registry, Registry):
        message = f"expected a registry, such as assay.STANDARD.with_checks([Mine]), got {kind_of(registry)}"
        raise InvalidRequest(Problem("registry", message))
    return registry


def _above_zero(value: Any, *, integer: bool) -> bool:
    kind = Integral if integer else Real
    return not isinstance(value, bool) and isinstance(value, kind) and 0 < float(value) < math.inf


Read = Callable[[Any, int, Settings], Context]


def _read(contexts: Iterable[Any], settings: Settings, read: Read) -> Iterator[Context]:
    for at, context in enumerate(contexts):
        yield read(context, at, settings)


async def _read_async(contexts: AsyncIterable[Any], settings: Settings, read: Read) -> AsyncIterator[Context]:
    at = 0
    async for context in contexts:
        yield read(context, at, settings)
        at += 1


async def _each(contexts: Iterable[Context]) -> AsyncIterator[Context]:
    for context in contexts:
        yield context


def _unanswered_context(value: Any, index: int, settings: Settings) -> Context:
    return _context((value, UNANSWERED), index, settings)


def _context(value: Any, index: int, settings: Settings) -> Context:
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


def _run(make: Callable[[], Awaitable[T]]) -> T:
    """Run it to its end, in a thread of its own if this thread has an event loop."""
    outcome: list[T] = []
    errors: list[BaseException] = []

    async def main() -> None:
        # not returned: asyncio.run would make the repr of the whole result when the task ends
        outcome.append(await make())
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError  # Ctrl-C: asyncio turns it into KeyboardInterrupt

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
        return outcome[0]

    def in_thread() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=in_thread, name="assay-evaluate")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
