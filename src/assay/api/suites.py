"""Agents put to suites without a server (RFC 0081): `run_suite`, and what it and the command stand on."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, cast, get_args

import msgspec
from msgspec import Struct

from assay import app
from assay.agenteval.kind import AgentEvalKind, EvalDependencies
from assay.agenteval.report import EvalReport, Reason, failure_reasons, report_of
from assay.agenteval.request import EvalRequest, limits_of
from assay.agenteval.service import AgentEvalService
from assay.agenteval.suite import read_suite, read_suite_file
from assay.backends.agents.overlay import AgentOverlay
from assay.backends.engines.local import LocalEngine
from assay.backends.provider_config import ProviderPolicy
from assay.errors import UsageError
from assay.fep.results import read_result
from assay.ports import CLOSED, Run, Store
from assay.ports.agents import Agent
from assay.protocol.agents import ModelClass
from assay.protocol.results import TestCaseResult
from assay.protocol.scorecard import EvalSummary
from assay.protocol.suite import AgentEvalSuite
from assay.runs.executor import RunExecutor
from assay.settings import Settings, load

TENANT = "local"
REASONS = 1_000


class EvalRuntime(NamedTuple):
    """What runs agents against suites: the record, the desk, and what is asked of both."""

    store: Store
    executor: RunExecutor
    service: AgentEvalService


class SuiteRun(Struct, frozen=True, kw_only=True):
    """
    What came of it. `summary` is there when every task has a score, and `passed` is then its verdict; of a run that failed, `error` says
    why and `report.unmeasured` which tasks have none. `reasons` is why tasks did not pass, and `results` the evidence.
    """

    run_id: str
    status: str
    passed: bool
    summary: EvalSummary | None
    report: EvalReport
    reasons: list[Reason]
    results: list[TestCaseResult]
    error: str | None = None


Agentlike = Agent | Callable[..., Any] | str
OnTask = Callable[[dict[str, Any]], object]


async def run_suite(
    suite: AgentEvalSuite | Mapping[str, Any] | str,
    agent: Agentlike,
    *,
    modes: Sequence[str] | None = None,
    baseline: str | None = None,
    trials: int = 1,
    model: str | None = None,
    judge: str | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,
    tags: Sequence[str] = (),
    free: bool = False,
    store: str | Store = "memory:",
) -> SuiteRun:
    """
    Run an agent against a suite, and score what it does.

        result = await assay.run_suite("suite.yaml", my_function)

    `suite` is a file, a document or an AgentEvalSuite; `agent` a function of the task (or of the task and a context), an Agent, or what
    `assay run --agent` takes. A function that costs nothing to run is `free`; of any other that reports no usage the cost is unknown.
    Runs are kept in `store`: an address, or one that is open; by default in memory, and gone afterwards.
    """
    settings = with_model(load(concurrency=concurrency), model)
    read = suite_from(suite, settings)
    subject = agent_from(agent, settings, free=free)
    asked = EvalRequest(
        suite_ref=f"{read.suite_id}@{read.version}",
        agent_id=subject.card.agent_id,
        modes=None if modes is None else tuple(modes),
        baseline_run_id=baseline,
        trials=trials,
        seconds=timeout,
        judge=judge,
        agent_spec=agent if isinstance(agent, str) else "",
        tags=tuple(tags),
    )
    async with AsyncExitStack() as stack:
        record = await _open_store(store, stack)
        evals = await stack.enter_async_context(open_evals(settings, record, [subject]))
        plan = await evals.service.planned(asked, TENANT, read)
        run = await evals.service.take_in(plan, TENANT, evals.executor.holder)
        evals.executor.begin(run)
        try:
            ended = await evals.executor.ended(run.id)
        except asyncio.CancelledError:
            await asyncio.shield(evals.executor.cancel(run.id, TENANT))
            raise
        return await result_of(evals, ended)


async def result_of(evals: EvalRuntime, run: Run) -> SuiteRun:
    """Everything there is to say of a run that has ended, read back from its record."""
    assert run.status in CLOSED
    summary = await evals.service.summary(run)
    reasons: list[Reason] = []
    async for reason in failure_reasons(evals.store, run):
        reasons.append(reason)
        if len(reasons) == REASONS:
            break
    return SuiteRun(
        run_id=run.id,
        status=run.status,
        passed=summary is not None and summary.passed,
        summary=summary,
        report=await report_of(evals.store, run),
        reasons=reasons,
        results=[read_result(line) async for line in evals.service.results(run)],
        error=run.head.get("error"),
    )


def suite_from(suite: AgentEvalSuite | Mapping[str, Any] | str, settings: Settings) -> AgentEvalSuite:
    if isinstance(suite, str):
        return read_suite_file(suite, settings.limits)
    if isinstance(suite, AgentEvalSuite):
        suite = cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(suite)))
    return read_suite(dict(suite))


def agent_from(agent: Agentlike, settings: Settings, *, free: bool = False) -> Agent:
    """An agent is one; a function becomes one; a text names one."""
    if isinstance(agent, str):
        return app.resolve_agent(agent, settings)
    if not hasattr(agent, "invoke") and callable(agent):
        return app.agent_from_callable(agent, free=free)
    if hasattr(agent, "invoke") and hasattr(agent, "card"):
        return cast("Agent", agent)
    raise UsageError(f"an agent is a function, an Agent, or its name as a text; got {type(agent).__name__}")


def with_model(settings: Settings, model: str | None) -> Settings:
    """The settings where every class of models is this one."""
    if model is None:
        return settings
    models = {**settings.models, **dict.fromkeys(get_args(ModelClass), model)}
    declared = {
        id: msgspec.structs.replace(agent, model=model) if agent.kind == "manifest" else agent
        for id, agent in settings.agents.items()
    }
    return msgspec.structs.replace(settings, models=models, agents=declared)


@asynccontextmanager
async def open_evals(
    settings: Settings, record: Store, given: Sequence[Agent] = (), *, cache: bool = False
) -> AsyncGenerator[EvalRuntime]:
    """For runs of this process: agents as given, and those of the settings. What others left is not taken up."""
    services = app.services(settings, ProviderPolicy(seconds=settings.limits.check_seconds), cache=cache)
    declared, tools = app.agents(settings, services.providers), app.toolbox(settings)
    means = EvalDependencies(
        agents=AgentOverlay(given, declared),
        registry=app.registry(settings),
        services=services,
        tools=tools,
        memory=lambda tenant, agent: app.live_memory(record, services.clock, tenant, agent),
        host=limits_of(settings.limits),
    )
    kind = AgentEvalKind(record, means)
    engine = LocalEngine(lambda _, unit: kind.perform(unit), settings.concurrency)
    desk = RunExecutor(record, engine, {kind.name: kind})
    await desk.open(adopting=False)
    try:
        yield EvalRuntime(record, desk, AgentEvalService(record, means))
    finally:
        await desk.close()
        for agent in given:
            await agent.close()
        await declared.close()
        await tools.close()
        await services.close()


async def _open_store(store: str | Store, stack: AsyncExitStack) -> Store:
    if not isinstance(store, str):
        return store
    from assay.backends.stores.open import open_store  # a lazy door: SQLAlchemy, where it is needed

    opened = await open_store(store)
    stack.push_async_callback(opened.close)
    return opened
