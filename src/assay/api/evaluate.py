"""The library without a server (FEP 3.1): `evaluate`, `evaluate_sync`, `evaluate_stream`; and `verify` (RFC 0090)."""

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
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard, TypeVar

from msgspec import Struct

from assay import app
from assay.backends.provider_config import ProviderPolicy
from assay.checks.registry import Registry
from assay.checks.run import Options
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
    sheets_of,
)
from assay.fep.results import read_result, run_result
from assay.fep.tally import Tally
from assay.ports import Principal
from assay.ports.agents import Agent
from assay.protocol.evaluation import Check, ExperimentMetadata, Output, TestCase
from assay.protocol.json_types import is_object
from assay.protocol.results import EvaluationRunResult, TestCaseResult
from assay.protocol.verification import Verification
from assay.runs.ids import new_id
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
    max_cost: float | None = None,
    cache: bool = False,
    resolved_arguments: bool = True,
    registry: Registry | None = None,
) -> EvaluationRunResult:
    """
    Put every output to its checks.

    `checks` is one list for all cases, one list a case, or None where the cases carry their own. `timeout` is a
    check's, in seconds. Cancelled, or when what judges cost reaches `max_cost` US dollars, it returns what is done,
    and the rest as `skip`. With `cache`, a judge's answer that is kept in the home folder is not asked for again.
    Without `resolved_arguments`, results do not repeat what each check was given.
    """
    settings = load()
    gathering = ProblemCollector()
    how = gathering.read(
        lambda: _options(settings, concurrency, timeout, max_cost, fail_fast=fail_fast, keep=True)
    )
    seconds = settings.limits.check_seconds if how is None else how.seconds
    services = app.services(settings, ProviderPolicy(seconds=seconds), cache=cache)
    started = services.clock.now()
    options = Options(resolved_arguments=resolved_arguments)
    known = gathering.read(lambda: _registry(registry, settings)) or app.registry(settings)
    plan = gathering.read(lambda: plan_of(checks, known, services, options))
    with gc_paused():
        found = contexts_in(test_cases, outputs, settings.limits)
    gathering.problems += found.problems
    experiment = gathering.read(lambda: experiment_from(experiment_metadata))
    if plan is None:
        gathering.problems += own_problems(found, Plan(None, known, services))
    else:
        gathering.read(lambda: sheets_of(plan, found))
    gathering.refuse()
    assert plan is not None
    assert how is not None
    contexts = found.contexts
    tally = Tally()
    lines: list[bytes] = []
    try:
        async for scored in stream(plan, iter(contexts), tally, how):
            lines.append(scored.line)
            if on_progress is not None:
                on_progress(Progress(len(lines), len(contexts), tally.error_cases))
    finally:
        await services.close()
    with gc_paused():
        return run_result(new_id("eval_"), started, services.clock.now(), tally, lines, experiment)


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
    max_cost: float | None = None,
    cache: bool = False,
    resolved_arguments: bool = True,
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
    concurrency: int | None = None,
    timeout: float | None = None,
    max_cost: float | None = None,
    cache: bool = False,
    resolved_arguments: bool = True,
    registry: Registry | None = None,
) -> AsyncIterator[TestCaseResult]:
    """
    Results as they finish, in the order of the contexts, holding only what is in flight.

    A context is `{"test_case": …, "output": …}` or a pair of the two. One that is none ends the stream with an
    InvalidRequest that says which, and one that has cost `max_cost` US dollars with a Refusal; everything before it
    has been yielded.
    """
    settings = load()
    how = _options(settings, concurrency, timeout, max_cost, fail_fast=False, keep=False)
    services = app.services(settings, ProviderPolicy(seconds=how.seconds), cache=cache)
    options = Options(resolved_arguments=resolved_arguments)
    plan = plan_of(checks, _registry(registry, settings), services, options)
    source = (
        _read_async(contexts, settings) if isinstance(contexts, AsyncIterable) else _read(contexts, settings)
    )
    try:
        async with aclosing(stream(plan, source, Tally(), how)) as results:
            async for scored in results:
                yield read_result(scored.line)
    finally:
        await services.close()


async def verify(
    actor: str | Callable[..., Any] | Agent,
    critic: str | Callable[..., Any] | Agent | Sequence[Any] | None,
    task: Any,
    *,
    criteria: Sequence[str] | Mapping[str, Document] = (),
    max_turns: int = 5,
    gating: bool = True,
    on_fail: Literal["escalate", "retry", "give-up"] = "escalate",
    failing: Literal["revise", "fail"] = "revise",
) -> Verification:
    """
    Let an actor work on a task until a critic passes what it made; only that is committed.

    Actor and critic are functions, agents, or what `--agent` takes. `criteria` are keys, or keys with the check that each
    stands for: then those checks are a critic too, and `critic` may be None. What nobody could decide here, a rejected result
    for one, has a status that waits, and nothing is committed.
    """
    from assay.backends.agents.overlay import AgentOverlay  # a lazy door
    from assay.backends.stores.memory import MemoryStore  # a lazy door
    from assay.workflow.report import came_to  # a lazy door
    from assay.workflow.verifier_loop import read_loop  # a lazy door

    settings = load()
    given: list[Any] = [actor] if critic is None else [actor, critic]
    if isinstance(critic, list | tuple):
        given = [actor, *critic]  # pyright: ignore[reportUnknownArgumentType]
    agents = [_agent(one, settings) for one in given]
    if (repeated := repeated_id(agents, given)) is not None:
        raise InvalidRequest(Problem("critic", f"two functions are called {repeated}; give one another name"))
    ids = [agent.card.agent_id for agent in agents]
    table: Document = {
        "actor": ids[0],
        "critics": ids[1:],
        "criteria": dict(criteria) if isinstance(criteria, Mapping) else list(criteria),
        "max_turns": max_turns,
        "gating": gating,
        "on_fail": on_fail,
        "failing": failing,
    }
    loops = {"verify": read_loop("verify", table)}
    cast = AgentOverlay(agents, app.agents(settings))
    async with app.open_workflows(settings, MemoryStore(), cast, loops) as (room, desk):
        me = Principal(tenant="local", id="library")
        run = await room.start(me, "verify", {"task": task})
        ended = await desk.ended(run.id)
        return await came_to(room.store, ended, room.bounds)


def repeated_id(agents: Sequence[Agent], given: Sequence[Any]) -> str | None:
    """An id that several have who are not the same: two lambdas, for one."""
    who: dict[str, Any] = {}
    for agent, one in zip(agents, given, strict=True):
        if who.setdefault(agent.card.agent_id, one) is not one and not isinstance(one, str):
            return agent.card.agent_id
    return None


def _agent(given: Any, settings: Settings) -> Agent:
    if isinstance(given, str):
        return app.resolve_agent(given, settings)
    if hasattr(given, "invoke") and hasattr(given, "card"):
        return given
    if callable(given):
        return app.agent_from_callable(given)
    raise InvalidRequest(
        Problem("actor", f"expected a function, an agent or its name, got {type(given).__name__}")
    )


@contextmanager
def gc_paused() -> Generator[None]:
    """Many objects are made here and no cycles: looking for some again and again takes half of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on and gc.get_freeze_count() == 0:
            gc.freeze()  # and at once back: what was made goes among the old, without being looked at
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
    keep: bool,
) -> ExecutionOptions:
    problems = [
        Problem(name, f"expected a {'whole ' if name == 'concurrency' else ''}number above 0, got {value!r}")
        for name, value in (("concurrency", concurrency), ("timeout", timeout), ("max_cost", max_cost))
        if value is not None and not _above_zero(value, whole=name == "concurrency")
    ]
    if problems:
        raise InvalidRequest(problems)
    return ExecutionOptions(
        concurrency=concurrency or settings.concurrency,
        seconds=timeout or settings.limits.check_seconds,
        run_seconds=settings.limits.run_seconds,
        fail_fast=fail_fast,
        keep=keep,
        max_cost=max_cost,
    )


def _registry(given: Any, settings: Settings) -> Registry:
    if given is None:
        return app.registry(settings)
    if not isinstance(given, Registry):
        told = f"expected a registry, such as assay.STANDARD.extended([Mine]), got {kind_of(given)}"
        raise InvalidRequest(Problem("registry", told))
    return given


def _above_zero(value: Any, *, whole: bool) -> bool:
    kind = Integral if whole else Real
    return not isinstance(value, bool) and isinstance(value, kind) and 0 < float(value) < math.inf


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
            Problem(f"contexts[{at}]", "expected an object with test_case and output, or a pair of the two")
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
    outcome: list[T] = []
    trouble: list[BaseException] = []

    async def main() -> None:
        # not returned: asyncio.run asks for a task's repr when it ends, and with it for the whole result's
        outcome.append(await make())
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError  # Ctrl-C: asyncio makes it the KeyboardInterrupt it was

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(main())
        return outcome[0]

    def elsewhere() -> None:
        try:
            asyncio.run(main())
        except BaseException as surprise:  # noqa: BLE001  # carried over to the caller's thread, whatever it is
            trouble.append(surprise)

    thread = threading.Thread(target=elsewhere, name="assay-evaluate")
    thread.start()
    thread.join()
    if trouble:
        raise trouble[0]
    return outcome[0]
