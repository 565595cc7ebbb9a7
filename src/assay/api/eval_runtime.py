"""Runs agents against suites in this process, for the library and the command."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from assay import app
from assay.agenteval.kind import AgentEvalKind
from assay.agenteval.scoring.task_checks import plan_checks
from assay.agenteval.service import AgentEvalService
from assay.ports import Store
from assay.ports.agents import Agent
from assay.ports.config import SafetyPolicy
from assay.runs.executor import RunExecutor
from assay.settings import Settings


class EvalRuntime(NamedTuple):
    """The parts that run agents against suites in this process."""

    store: Store
    executor: RunExecutor
    service: AgentEvalService


@asynccontextmanager
async def open_evals(
    settings: Settings,
    store: Store,
    extra_agents: Sequence[Agent] = (),
    *,
    cache: bool = False,
    checks: Any = None,
    modules: Iterable[str] = (),
    policy: SafetyPolicy | None = None,
) -> AsyncGenerator[EvalRuntime]:
    """
    Agent evals for the library and the command, with the provided agents and those of the settings.

    It adopts no run of another process.

    `checks` are put to every task beside the scorecard. `modules` are checks of the operator, as `--check-module` names
    them. `policy` replaces `[safety]` of the settings.
    """
    from assay.backends.agents.spec import AgentOverlay  # deferred import

    deps = app.services(settings, cache=cache)
    overlay = AgentOverlay(extra_agents, app.agents(settings, deps.providers))
    available = app.registry(settings, modules)
    plan = None if checks is None else plan_checks(checks, available, deps)
    evals = app.build_evals(settings, store, available, deps, overlay, plan, policy=policy)
    executor = app.build_executor(settings, store, [AgentEvalKind(store, evals.dependencies)])
    await executor.open(adopting=False)
    try:
        yield EvalRuntime(store, executor, evals)
    finally:
        await executor.close()
        for agent in extra_agents:
            await agent.close()
        await app.close_evals(evals)
        await deps.close()
