"""The library without a server (FEP 3.1): `evaluate`, `evaluate_sync`, `evaluate_stream`."""

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct

from assay import app
from assay.checks.registry import Registry
from assay.errors import InvalidRequest, Problem
from assay.fep.context import Context
from assay.fep.execute import Conduct, stream
from assay.fep.plan import Plan
from assay.fep.project import new_id, read_result, run_result
from assay.fep.request import checks_from, contexts_of, experiment_from, sheets_of
from assay.fep.tally import Tally
from assay.protocol.evaluation import Check, ExperimentMetadata, Output, TestCase
from assay.protocol.results import EvaluationRunResult, TestCaseResult
from assay.protocol.values import is_object
from assay.settings import Settings, load

Document = dict[str, Any]
Checks = Sequence[Check | Document] | Sequence[Sequence[Check | Document]]
T = TypeVar("T")


class Progress(Struct, frozen=True):
    """How far a run is: cases done of all (None where nobody knows), and cases with an errored check."""

    done: int
    total: int | None
    errors: int


OnProgress = Callable[[Progress], object]


async def evaluate(
    test_cases: Sequence[TestCase | Document],
    outputs: Sequence[Output | Document],
    checks: Checks | None = None,
    experiment_metadata: ExperimentMetadata | Document | None = None,
    *,
    concurrency: int | None = None,
    timeout: float | None = None,
    fail_fast: bool = False,
    on_progress: OnProgress | None = None,
    registry: Registry | None = None,
) -> EvaluationRunResult:
    """
    Put every output to its checks.

    `checks` is one list for all cases, one list a case, or None where the cases carry their own. `timeout` is a
    check's, in seconds. Cancelled, it returns what is done, and the rest as `skip`.
    """
    settings = load()
    services = app.services(settings)
    started = services.clock.now()
    plan = Plan(checks_from(checks), registry or app.registry(settings), services)
    contexts = contexts_of(test_cases, outputs, settings.limits)
    sheets_of(plan, contexts)
    experiment = experiment_from(experiment_metadata)
    how = _conduct(settings, concurrency, timeout, fail_fast=fail_fast, keep=True)
    tally = Tally()
    lines: list[bytes] = []
    async for scored in stream(plan, iter(contexts), tally, how):
        lines.append(scored.line)
        if on_progress is not None:
            on_progress(Progress(len(lines), len(contexts), tally.error_cases))
    return run_result(new_id(), started, services.clock.now(), tally, lines, experiment)


def evaluate_sync(
    test_cases: Sequence[TestCase | Document],
    outputs: Sequence[Output | Document],
    checks: Checks | None = None,
    experiment_metadata: ExperimentMetadata | Document | None = None,
    *,
    concurrency: int | None = None,
    timeout: float | None = None,
    fail_fast: bool = False,
    on_progress: OnProgress | None = None,
    registry: Registry | None = None,
) -> EvaluationRunResult:
    """`evaluate` for code that does not await; inside a running loop, a notebook's say, it takes a thread."""
    return _run(
        lambda: evaluate(
            test_cases,
            outputs,
            checks,
            experiment_metadata,
            concurrency=concurrency,
            timeout=timeout,
            fail_fast=fail_fast,
            on_progress=on_progress,
            registry=registry,
        )
    )


async def evaluate_stream(
    contexts: Iterable[Any] | AsyncIterable[Any],
    checks: Checks | None = None,
    *,
    concurrency: int | None = None,
    timeout: float | None = None,
    registry: Registry | None = None,
) -> AsyncIterator[TestCaseResult]:
    """
    Results as they finish, in the order of the contexts, holding only what is in flight.

    A context is `{"test_case": …, "output": …}` or a pair of the two. One that is none ends the stream with an
    InvalidRequest that says which; everything before it has been yielded.
    """
    settings = load()
    services = app.services(settings)
    plan = Plan(checks_from(checks), registry or app.registry(settings), services)
    how = _conduct(settings, concurrency, timeout, fail_fast=False, keep=False)
    source = (
        _read_async(contexts, settings) if isinstance(contexts, AsyncIterable) else _read(contexts, settings)
    )
    async with aclosing(stream(plan, source, Tally(), how)) as results:
        async for scored in results:
            yield read_result(scored.line)


def _conduct(
    settings: Settings, concurrency: int | None, timeout: float | None, *, fail_fast: bool, keep: bool
) -> Conduct:
    problems = [
        Problem(name, f"wanted a number above 0, got {value!r}")
        for name, value in (("concurrency", concurrency), ("timeout", timeout))
        if value is not None and not value > 0
    ]
    if problems:
        raise InvalidRequest(problems)
    return Conduct(
        concurrency=concurrency or settings.concurrency,
        seconds=timeout or settings.limits.check_seconds,
        run_seconds=settings.limits.run_seconds,
        fail_fast=fail_fast,
        keep=keep,
    )


def _read(contexts: Iterable[Any], settings: Settings) -> Iterator[Context]:
    for at, one in enumerate(contexts):
        yield _context(one, at, settings)


async def _read_async(contexts: AsyncIterable[Any], settings: Settings) -> AsyncIterator[Context]:
    at = 0
    async for one in contexts:
        yield _context(one, at, settings)
        at += 1


def _context(given: Any, at: int, settings: Settings) -> Context:
    if is_object(given) and given.keys() == {"test_case", "output"}:
        case, output = given["test_case"], given["output"]
    elif is_pair(given):
        case, output = given
    else:
        raise InvalidRequest(
            Problem(f"contexts[{at}]", "wanted an object with test_case and output, or a pair of the two")
        )
    try:
        (context,) = contexts_of([case], [output], settings.limits)
    except InvalidRequest as refusal:
        raise InvalidRequest(
            [
                Problem(
                    problem.place.replace("test_cases[0]", f"contexts[{at}].test_case").replace(
                        "outputs[0]", f"contexts[{at}].output"
                    ),
                    problem.message,
                )
                for problem in refusal.problems
            ]
        ) from None
    return context


def is_pair(given: Any) -> TypeGuard[tuple[Any, Any]]:
    return isinstance(given, tuple | list) and len(given) == 2  # pyright: ignore[reportUnknownArgumentType]


def _run(make: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await make()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    outcome: list[T] = []
    trouble: list[BaseException] = []

    def elsewhere() -> None:
        try:
            outcome.append(asyncio.run(main()))
        except BaseException as surprise:  # noqa: BLE001  # carried over to the caller's thread, whatever it is
            trouble.append(surprise)

    thread = threading.Thread(target=elsewhere, name="assay-evaluate")
    thread.start()
    thread.join()
    if trouble:
        raise trouble[0]
    return outcome[0]
