"""`assay.run_suite`: run an agent against a suite without a server (RFC 0081)."""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, cast, get_args

import msgspec
from msgspec import Struct

from assay.agenteval.kind import AgentEvalKind
from assay.agenteval.planning.request import EvalRequest
from assay.agenteval.results.report import EvalReport, Reason, failure_reasons, report_of
from assay.agenteval.scoring.safety_records import read_records
from assay.agenteval.scoring.task_checks import plan_checks, recorded_checks
from assay.agenteval.service import AgentEvalService
from assay.agenteval.suites.suite import read_own_suite, read_suite_file
from assay.api.agents import AgentLike, agent_from
from assay.api.evaluation import with_short_forms
from assay.api.recordings import add_fixtures, check_recording, write_recording
from assay.comparison.gate_verdict import Finding, findings_of
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.concurrency.garbage import gc_rare
from assay.fep.outputs.data_frames import data_frame
from assay.fep.planning.scorer import read_result
from assay.host import parts
from assay.ports import CLOSED, LOCAL_TENANT, Run, Store
from assay.ports.agents import Agent
from assay.ports.batches import BatchOptions
from assay.ports.config import SafetyPolicy
from assay.protocol.agent_evals import AgentEvalSuite, EvalSummary
from assay.protocol.agents import ModelClass
from assay.protocol.evaluation import Check
from assay.protocol.results import TestCaseResult
from assay.results.notebook_html import page, paragraph, table
from assay.results.pass_rate import PassRate
from assay.runs.executor import RunExecutor
from assay.runs.run_names import name_tag
from assay.settings import Settings, load
from assay.stats.intervals import counted_rate
from assay.stats.number_text import range_text, score_text
from assay.terminal import one_line
from assay.traces.span_receiver import SpanReceiver

# Runs agents against suites in this process, for the library and the command.


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
    spans: SpanReceiver | None = None,
    batch: BatchOptions | None = None,
) -> AsyncGenerator[EvalRuntime]:
    """
    Agent evals for the library and the command, with the provided agents and those of the settings.

    It adopts no run of another process.

    `checks` are put to every task beside the scorecard. `modules` are checks of the operator, as `--check-module`
    names them. `policy` replaces `[safety]` of the settings. `spans` receives the spans of the agents. With `batch`,
    judges are asked in batches.
    """
    from assay.backends.agents.spec import AgentOverlay  # deferred import

    deps = parts.services(settings, cache=cache, batch=batch)
    overlay = AgentOverlay(extra_agents, parts.agents(settings, deps.providers))
    available = parts.registry(settings, modules)
    plan = None if checks is None else plan_checks(checks, available, deps)
    evals = parts.build_evals(settings, store, available, deps, overlay, plan, policy=policy, spans=spans)
    executor = parts.build_executor(settings, store, [AgentEvalKind(store, evals.dependencies)])
    await executor.open(adopting=False)
    try:
        with gc_rare():
            yield EvalRuntime(store, executor, evals)
    finally:
        await executor.close()
        for agent in extra_agents:
            await agent.close()
        await parts.close_evals(evals)
        await deps.close()


REASONS = 1_000
SHOWN = 8  # reasons in a repr


class SuiteRun(Struct, frozen=True, kw_only=True, weakref=True):
    """
    The result of a run.

    `summary` is set if every task of the suite has a score; `passed` is its verdict. A run with a part of the tasks has
    `report.verdict`, which is of that part. If the run failed, `error` says why and
    `report.unmeasured` names the tasks without a score. `reasons` says why tasks did not pass; `results` is the
    evidence.
    """

    run_id: str
    status: str
    passed: bool
    summary: EvalSummary | None
    report: EvalReport
    reasons: list[Reason]
    results: list[TestCaseResult]
    check_results: list[TestCaseResult] = []  # of `checks`, which are beside the score
    error: str | None = None
    findings: tuple[Finding, ...] = ()  # of safety checks, the most severe first

    @property
    def pass_rate(self) -> PassRate | None:
        """The share of tasks that passed, with its interval, among those that have a score; None if no task has one."""
        scored = sum(task.score is not None for task in self.report.tasks)
        passed = self.report.passed_count
        rate = counted_rate({(1, 1): passed, (0, 1): scored - passed})
        return None if rate is None else PassRate.of(rate)

    @property
    def failed(self) -> list[TestCaseResult]:
        """The evidence of the tasks that did not pass. Tasks without a score are in `report.unmeasured`."""
        ids = {task.task_id for task in self.report.tasks if task.passed is False}
        return [result for result in self.results if result.execution_context.test_case["id"] in ids]

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with one row for each check of each trial. It needs the extra `tables`."""
        return data_frame(self.results)

    def _repr_html_(self) -> str:
        """What a notebook shows: the score with its interval, and the reasons of the tasks that did not pass."""
        report, rate = self.report, self.pass_rate
        lines = repr(self).split("\n")[:2]
        interval = range_text(report.low, report.high, "score")
        parts = [
            paragraph(lines[0], strong=True),
            paragraph(f"{lines[1]}; 95% interval of the score {interval}"),
        ]
        parts += [] if rate is None else [paragraph(f"tasks that passed: {rate!r}")]
        parts += [paragraph(f"error: {self.error}")] if self.error else []
        rows = ((reason.task_id, reason.message) for reason in self.reasons)
        return page([*parts, table(("task", "reason"), rows, len(self.reasons))])

    def __repr__(self) -> str:
        """A summary that fits a screen."""
        report = self.report
        verdict = "passed" if self.passed else "not passed" if self.summary else report.part or self.status
        lines = [
            f"SuiteRun {self.run_id}: {report.suite_id} {report.suite_version}, {verdict}",
            f"  score {score_text(report.score)}, {report.passed_count:,} of {report.total:,} tasks passed",
            *(f"  {reason.task_id}: {' '.join(reason.message.split())}" for reason in self.reasons[:SHOWN]),
        ]
        lines += [f"  … {len(self.reasons) - SHOWN:,} more"] if len(self.reasons) > SHOWN else []
        lines += [f"  error: {self.error}"] if self.error else []
        return "\n".join(one_line(line if len(line) <= 160 else f"{line[:159]}…") for line in lines)


async def run_suite(
    suite: AgentEvalSuite | Mapping[str, Any] | str,
    agent: AgentLike,
    *,
    modes: Sequence[str] | None = None,
    baseline: str | None = None,
    tasks: Sequence[str] | None = None,
    limit: int | None = None,
    trials: int = 1,
    model: str | None = None,
    judge: str | None = None,
    concurrency: int | None = None,
    timeout: float | None = None,
    max_cost: float | None = None,
    checks: Sequence[Check | Mapping[str, Any] | str] | None = None,
    tags: Sequence[str] = (),
    name: str | None = None,
    fixtures: str | Mapping[str, Any] | None = None,
    record: str | None = None,
    free: bool = False,
    store: str | Store = "memory:",
) -> SuiteRun:
    """
    Run an agent against a suite and score its results.

        result = await assay.run_suite("suite.yaml", my_function)

    `suite` is a file name, a document or an AgentEvalSuite. `agent` is a function of the task (or of the task and a
    context), an Agent, or a text as `assay run --agent` takes it. Set `free` for a function that costs nothing;
    otherwise an agent that reports no usage has an unknown cost. With `tasks`, ids of tasks, and `limit`, the run has a
    part of the suite: `report.part` says which, and it has no `summary`. Once judges and the agent have cost `max_cost`
    US dollars, no task is started, and those that were not started are not measured.

    `checks` is one list of FEP checks for the output and trajectory of every task: their results are `check_results`,
    and never part of the score. `store` is a database address or an open store; the default keeps the run in memory
    only. A run with a `name` is found by it. With `record`, a file, live tools are called once in place of fixtures,
    and their answers are written there without secrets; `fixtures` is such a file, or its content.
    """
    settings = with_model(load(concurrency=concurrency), model)
    document = suite_from(suite, settings)
    if fixtures is not None:
        document = add_fixtures(document, fixtures, settings.limits)
    if record is not None:
        check_recording(record, "record")
    subject = agent_from(agent, settings, free=free)
    request = EvalRequest(
        suite_ref=f"{document.suite_id}@{document.version}",
        agent_id=subject.card.agent_id,
        modes=None if modes is None else tuple(modes),
        baseline_run_id=baseline,
        tasks=None if tasks is None else tuple(tasks),
        limit=limit,
        max_cost=max_cost,
        trials=trials,
        seconds=timeout,
        judge=judge,
        record=record is not None,
        agent_spec=agent if isinstance(agent, str) else "",
        configurable={} if model is None else {"model": model},
        tags=(*tags, *(() if name is None else (name_tag(name),))),
    )
    async with AsyncExitStack() as stack:
        opened = await _open_store(store, stack)
        evals = await stack.enter_async_context(
            open_evals(settings, opened, [subject], checks=with_short_forms(checks))
        )
        if (beside := evals.service.dependencies.checks) is not None:
            request = msgspec.structs.replace(request, checks=beside.checks)
        plan = await evals.service.plan(request, LOCAL_TENANT, document)
        run = await evals.service.submit(plan, LOCAL_TENANT, evals.executor.executor_id)
        evals.executor.start(run)
        try:
            ended = await evals.executor.wait(run.id)
        except asyncio.CancelledError:
            await asyncio.shield(evals.executor.stop(run.id, LOCAL_TENANT))
            raise
        if record is not None:
            await write_recording(opened, ended, record, "record")
        return _kept(await result_of(evals, ended), opened if store == "memory:" else store)


async def result_of(evals: EvalRuntime, run: Run) -> SuiteRun:
    """The result of a run that has ended, read from its store."""
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
        check_results=[read_result(line) async for line in recorded_checks(evals.store, run.id)],
        error=run.metadata.get("error"),
        findings=await _findings(evals.store, run),
    )


async def _findings(store: Store, run: Run) -> tuple[Finding, ...]:
    scores = RunScores(run.id, ReadOptions())
    async for record in read_records(store, run.id):
        for finding in record.findings:
            scores.add_finding(record.task_id, finding.kind, finding.severity)
    return findings_of(scores)


def suite_from(suite: AgentEvalSuite | Mapping[str, Any] | str, settings: Settings) -> AgentEvalSuite:
    """A suite from a file name, a document or an AgentEvalSuite, validated."""
    if isinstance(suite, str):
        return read_suite_file(suite, settings.limits)
    if isinstance(suite, AgentEvalSuite):
        suite = cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(suite)))
    return read_own_suite(dict(suite))


def with_model(settings: Settings, model: str | None) -> Settings:
    """The settings with this model for every model class and for every manifest agent."""
    if model is None:
        return settings
    models = {**settings.models, **dict.fromkeys(get_args(ModelClass), model)}
    agents = {
        id: msgspec.structs.replace(agent, model=model) if agent.kind == "manifest" else agent
        for id, agent in settings.agents.items()
    }
    return msgspec.structs.replace(settings, models=models, agents=agents)


_STORES: dict[int, str | Store] = {}  # of the results of run_suite that still exist


def _kept(run: SuiteRun, store: str | Store) -> SuiteRun:
    """Remember where the run is, as long as its result exists. A copy of the result does not know it."""
    _STORES[id(run)] = store
    weakref.finalize(run, _STORES.pop, id(run), None)
    return run


@asynccontextmanager
async def stored_run(run: SuiteRun) -> AsyncGenerator[tuple[Store, Run] | None]:
    """The store of a result of `run_suite`, and its run there; None: nobody knows where it is."""
    store = _STORES.get(id(run))
    async with AsyncExitStack() as stack:
        opened = None if store is None else await _open_store(store, stack)
        found = None if opened is None else await opened.run(run.run_id)
        yield None if opened is None or found is None else (opened, found)


async def _open_store(store: str | Store, stack: AsyncExitStack) -> Store:
    if not isinstance(store, str):
        return store
    from assay.backends.stores.open import open_store  # deferred import: SQLAlchemy, where it is needed

    opened = await open_store(store)
    stack.push_async_callback(opened.close)
    return opened
