"""`assay run`: run an agent against a suite and print a scorecard (RFC 0081)."""

import asyncio
import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assay.agenteval.planning.plan import SELECTED
from assay.agenteval.planning.request import EvalRequest
from assay.agenteval.planning.run_header import KIND, read_request
from assay.agenteval.results.baseline import BaselineRun, fits_regression
from assay.agenteval.scoring.safety_records import MODE
from assay.agenteval.service import cost_limit, read_scored_units, same_agent
from assay.api.pack_refs import find_agent, find_suite
from assay.api.recordings import add_fixtures, check_recording
from assay.api.suites import EvalRuntime, open_evals, with_model
from assay.checks.registry import function_checks
from assay.cli.agent_evals.run_progress import RunProgress
from assay.cli.agent_evals.run_report import report
from assay.cli.agent_evals.run_setup import (
    RunOptions,
    check_baseline,
    find_baseline,
    note_no_baseline,
    read_baseline,
    read_policy,
)
from assay.cli.agent_evals.run_spans import agent_spec, open_spans, validate_traces
from assay.cli.agent_evals.run_until import last_look_text, until_of, validate_run_until
from assay.cli.agent_evals.selection import choose_tasks
from assay.cli.console.batches import batch_options, bind_batches
from assay.cli.console.check_modules import note_unused
from assay.cli.console.console import echo, echo_err, stdout_to_stderr
from assay.cli.console.only import NothingToRun
from assay.cli.render.findings import BAR, say_not_looked_for
from assay.cli.render.repeats import validate_ks
from assay.errors import EvalRefused, InvalidRequest, Problem, UsageError
from assay.fep.outputs.sinks import EXTENSIONS
from assay.fep.planning.sources import checks_in, with_file_name
from assay.host import parts
from assay.ports import ACTIVE, LOCAL_TENANT, Run, Store
from assay.ports.agents import Agent
from assay.ports.batches import BatchOptions
from assay.runs.copy import CopySpec, branch
from assay.runs.find_run import find_run
from assay.runs.intake import new_id
from assay.runs.provenance import check_tags, provenance_of
from assay.settings import Settings, load

if TYPE_CHECKING:
    from assay.traces.span_receiver import SpanReceiver


def main(options: RunOptions) -> int:
    """Run it here or on another host. The result is the exit code."""
    settings = with_model(load(concurrency=options.concurrency), options.model)
    _validate(options)
    try:
        if options.server is not None:
            from assay.cli.agent_evals.remote import run_remote  # deferred import: most runs are local

            return run_remote(options, settings)
        return asyncio.run(_run_local(options, settings))
    except NothingToRun as nothing:
        (echo_err if options.json else echo)(str(nothing))
        return 0


def _validate(options: RunOptions) -> None:
    if options.resume is None and options.agent is None:
        missing = "a SUITE" if options.suite is None else "--agent WHAT"
        raise UsageError(f"expected {missing}, got none: assay run suite.yaml --agent module:function")
    if options.resume is None and options.suite is None and options.server is not None:
        raise UsageError("--server: expected a SUITE with it, got none")
    _validate_resume(options)
    validate_run_until(options)
    if options.max_cost is not None and not options.max_cost > 0:
        raise UsageError(f"--max-cost: expected a number above 0, got {options.max_cost:g}")
    if options.server is not None and options.policy is not None:
        raise UsageError(
            "--policy and --server: expected one of them, got both; another host has its own policy"
        )
    if options.force and options.baseline is None:
        raise UsageError("--force: expected --baseline RUN with it")
    if options.server is not None and (options.checks is not None or options.modules):
        used = "--checks" if options.checks is not None else "--check-module"
        raise UsageError(
            f"{used} and --server: expected one of them, got both; with --server use a suite alone"
        )
    if options.batch and options.server is not None:
        raise UsageError(
            "--batch and --server: expected one of them, got both; another host makes single calls"
        )
    if options.timeout == math.inf:
        raise UsageError("--timeout: expected a number of seconds, got inf")
    check_tags(options.tags)
    validate_traces(options)
    _validate_outputs(options)


def _validate_resume(options: RunOptions) -> None:
    if options.resume is None:
        validate_ks(options.ks, options.trials)
    if options.resume is not None and (
        options.suite
        or options.modes
        or options.baseline
        or options.trials != 1
        or options.tags
        or options.checks
        or options.policy
        or options.fixtures
        or options.record
        or options.selects
    ):
        raise UsageError(
            "--resume: expected no suite, fixtures, modes, tasks, baseline, trials, name, tags, checks and policy with"
            " it, because the run continues with its own; leave these options out"
        )


def _validate_outputs(options: RunOptions) -> None:
    for name in options.to:
        if name == "-" or not name.endswith((".json", ".jsonl", ".ndjson", ".csv", ".xlsx", ".parquet")):
            raise UsageError(f"-o {name}: expected a file that ends in {EXTENSIONS}")
        if not Path(name).parent.is_dir():
            raise UsageError(f"-o {name}: there is no folder {Path(name).parent}")
    if options.record is not None:
        check_recording(options.record, "--record")


def _check_bar(options: RunOptions, modes: Sequence[str]) -> None:
    if options.max_attack_success is not None and MODE not in modes:
        raise UsageError(f"{BAR}: expected a run in the mode {MODE}, got {', '.join(modes)}")


async def _run_local(options: RunOptions, settings: Settings) -> int:
    hours, max_cost = options.batch_hours, options.max_cost
    batch = batch_options(settings, batch=options.batch, hours=hours, max_cost=max_cost)
    async with parts.store(settings, light=True) as store:
        source = None if options.resume is None else await find_run(store, options.resume, KIND)
        if source is not None:
            _check_bar(options, source.metadata["modes"])
            validate_ks(options.ks, source.metadata.get("trials", 1))
        with stdout_to_stderr():
            async with (
                open_spans(options, settings, store, source) as spans,
                _open_evals(options, settings, store, source, spans, batch) as (evals, agent),
            ):
                if source is not None:
                    run = await _resume(evals, source, options.max_cost)
                    bind_batches(batch, store, run)  # before its first task begins
                    baseline = await _recorded_baseline(store, source)
                else:
                    assert agent is not None
                    run, baseline = await _start(options, settings, evals, agent)
                    bind_batches(batch, store, run)
                header = await read_request(store, run)
                say_not_looked_for(evals.service.dependencies.registry, header.modes, header.policy)
                note = None if header.until is None else partial(last_look_text, store, run)
                ended = await _wait(evals, run, note, quiet=options.json)
                for note in spans.notes() if spans else ():
                    echo_err(f"--traces: {note}")
        return await report(options, store, ended, baseline)


@asynccontextmanager
async def _open_evals(
    options: RunOptions,
    settings: Settings,
    store: Store,
    source: Run | None,
    spans: "SpanReceiver | None",
    batch: BatchOptions | None,
) -> AsyncGenerator[tuple[EvalRuntime, Agent | None]]:
    spec = await agent_spec(options, store, source)
    agent = None if spec is None else await find_agent(spec, settings, store, LOCAL_TENANT)
    checks = None if options.checks is None else checks_in(options.checks, settings.limits)
    if checks is None and source is None:
        checks = function_checks(options.modules)
    provided = [agent] if agent else []
    try:
        policy = None if options.policy is None else read_policy(options.policy)
        async with open_evals(
            settings,
            store,
            provided,
            checks=checks,
            modules=options.modules,
            policy=policy,
            spans=spans,
            batch=batch,
        ) as evals:
            plan = evals.service.dependencies.checks
            if options.checks is not None and plan is not None:
                note_unused(options.modules, plan, options.checks)
            yield evals, agent
    except InvalidRequest as refusal:
        if not all(problem.place.startswith("checks") for problem in refusal.problems):
            raise
        raise InvalidRequest(with_file_name(options.checks or "--check-module", refusal.problems)) from None


async def _start(
    options: RunOptions, settings: Settings, evals: EvalRuntime, agent: Agent
) -> tuple[Run, BaselineRun | None]:
    """
    Start the run.

    The mode `regression` compares if the baseline fits it; any other baseline is compared beside the scorecard.
    """
    found = await find_suite(options.suite, agent, settings, evals.store, LOCAL_TENANT)
    suite = found.suite
    if options.fixtures is not None:
        suite = add_fixtures(suite, options.fixtures, settings.limits)
    modes, baseline = options.modes or suite.modes, None
    choice = None
    if options.only:
        choice = await choose_tasks(evals.store, options.only, suite, agent.card.agent_id)
    if options.baseline is not None:
        baseline = await find_baseline(evals.store, options.baseline, suite)
    if baseline is not None:
        check_baseline(baseline, suite, force=options.force)
    else:
        note_no_baseline(suite, modes, options.baseline)
    regression = "regression" in modes and baseline is not None and fits_regression(baseline, suite, modes)
    regression = (
        regression and not options.selects and options.until is None
    )  # a part of the tasks is compared beside the scorecard
    request = EvalRequest(
        suite_ref=f"{suite.suite_id}@{suite.version}",
        suite_source=found.source,
        suite_file_digest=found.file_digest,
        agent_id=agent.card.agent_id,
        modes=options.modes,
        baseline_run_id=baseline.run_id if baseline is not None and regression else None,
        skip_regression=not regression,
        tasks=None if choice is None else choice.tasks,
        rule=None if choice is None else options.only.rule,
        failing_in=() if choice is None else choice.failing_in,
        limit=options.limit,
        until=until_of(options, baseline),
        max_cost=options.max_cost,
        trials=options.trials,
        seconds=options.timeout,
        judge=options.judge,
        record=options.record is not None,
        allow_target_mismatch=options.any_agent,
        agent_spec=options.agent or "",
        configurable={} if options.model is None else {"model": options.model},
        tags=options.tags,
        provenance=provenance_of(sys.argv[1:]),
        checks=evals.service.dependencies.checks and evals.service.dependencies.checks.checks,
    )
    try:
        plan = await evals.service.plan(request, LOCAL_TENANT, suite)
    except EvalRefused as refused:
        raise InvalidRequest([_option_problem(problem, refused) for problem in refused.problems]) from None
    _check_bar(options, plan.modes)
    run = await evals.service.submit(plan, LOCAL_TENANT, evals.executor.executor_id)
    evals.executor.start(run)
    return run, baseline


async def _recorded_baseline(store: Store, run: Run) -> BaselineRun | None:
    """The baseline of a run that is resumed, if it is still stored."""
    recorded = (await read_request(store, run)).baseline_run_id
    found = None if recorded is None else await store.run(recorded, tenant=run.tenant)
    return None if found is None else await read_baseline(store, found)


OPTIONS = {
    "configurable.evalModes": "--mode",
    "configurable.baselineRunId": "--baseline",
    "configurable.trials": "--trials",
    "configurable.timeout": "--timeout",
    "agentId": "--agent",
    "record": "--record",
}


def _option_problem(problem: Problem, refusal: EvalRefused) -> Problem:
    """A problem that names the option of the command line instead of the member of a request."""
    message = problem.message.replace("configurable.allowTargetMismatch", "--any-agent")
    tasks = (
        f" (tasks {', '.join(refusal.tasks[:5])}{' …' if len(refusal.tasks) > 5 else ''})"
        if refusal.tasks
        else ""
    )
    if refusal.field == SELECTED:
        return Problem("--only", message)
    return Problem(OPTIONS.get(problem.place, problem.place), message + tasks)


async def _resume(evals: EvalRuntime, source: Run, max_cost: float | None) -> Run:
    """
    Continue an interrupted run; copy a run that ended, and do the tasks that have no score.

    The copy has the cost limit that is given now. What was spent before counts.
    """
    if source.status == "completed":
        raise UsageError(f"--resume: expected a run that is not completed, got {source.id}")
    same_agent(await read_request(evals.store, source), evals.service.dependencies.agents)
    if source.status in ACTIVE:
        if max_cost is not None:
            raise UsageError(
                f"--max-cost: {source.id} was interrupted, and continues with its own limit: leave it out"
            )
        claimed = await evals.store.claim(source.id, evals.executor.executor_id, seconds=evals.executor.lease)
        if claimed is None:
            raise UsageError(
                f"--resume: expected a run that has stopped, got {source.id}, which another process runs;"
                " wait for its end"
            )
        evals.executor.start(claimed)
        return claimed
    scored = await read_scored_units(evals.store, source)
    spec = CopySpec(scored.evidence, scored.keep)
    metadata = scored.metadata | cost_limit(max_cost)
    run = await branch(evals.store, source, spec, run=new_id("run-"), metadata=metadata)
    echo_err(f"{len(scored.tasks):,} of {scored.request.total:,} tasks are copied from {source.id}")
    claimed = await evals.store.claim(run.id, evals.executor.executor_id, seconds=evals.executor.lease)
    if claimed is not None:  # else a server with the same store was faster, and does the rest
        evals.executor.start(claimed)
    return run


async def _wait(
    evals: EvalRuntime, run: Run, note: Callable[[], Awaitable[str]] | None, *, quiet: bool
) -> Run:
    """Wait until the run ends and show its progress; Ctrl-C cancels the run."""
    progress = RunProgress(run.id, run.metadata["total"], quiet=quiet, note=note)
    follower = asyncio.create_task(progress.follow(evals.executor.follow(run.id, run.tenant)))
    try:
        ended = await evals.executor.wait(run.id)
        with suppress(TimeoutError):
            await asyncio.wait_for(follower, 5)
        return ended
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        progress.clear()
        echo_err("cancelling; the tasks that are done are stored")
        return await evals.executor.stop(run.id, run.tenant)
    finally:
        follower.cancel()
        progress.clear()
