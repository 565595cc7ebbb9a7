"""What `assay run` does, in the order it happens: read the suite, plan, run, watch, report."""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from assay import app
from assay.agenteval.fork import same_agent, scored_of
from assay.agenteval.report import recorded_summary
from assay.agenteval.request import EvalRequest
from assay.agenteval.run_header import KIND, read_request
from assay.api.suites import TENANT, suite_from, with_model
from assay.app import EvalRuntime, open_evals
from assay.cli import scorecard
from assay.cli.aside import prints_aside
from assay.cli.finding import find_run
from assay.cli.say import say, tell
from assay.cli.wanted import BROKEN, NOT_PASSED, PASSED, RunOptions, compares
from assay.cli.watching import RunProgress
from assay.errors import EvalRefused, InvalidRequest, Problem, UsageError
from assay.ports import ACTIVE, CLOSED, Run, Store
from assay.ports.agents import Agent
from assay.protocol.scorecard import EvalSummary
from assay.runs.copy import CopySpec, branch
from assay.runs.ids import new_id
from assay.settings import Settings, load


def carry_out(wanted: RunOptions) -> int:
    settings = with_model(load(concurrency=wanted.concurrency), wanted.model)
    _sensible(wanted)
    if wanted.server is not None:
        from assay.cli.driving import run_remote  # a lazy door

        return run_remote(wanted, settings)
    return asyncio.run(_carried_out(wanted, settings))


def _sensible(wanted: RunOptions) -> None:
    if wanted.resume is None and (wanted.suite is None or wanted.agent is None):
        missing = "a SUITE" if wanted.suite is None else "--agent WHAT"
        raise UsageError(f"assay run needs {missing}: assay run suite.yaml --agent module:function")
    if wanted.resume is not None and (wanted.suite or wanted.modes or wanted.baseline or wanted.trials != 1):
        raise UsageError(
            "--resume goes on with a run as it was asked for: give no SUITE, mode, baseline or trials"
        )
    if wanted.timeout == math.inf:
        raise UsageError("--timeout: expected a number of seconds, got inf")
    for tag in wanted.tags:
        if "=" not in tag or len(tag) > 256:
            raise UsageError(f"--tag {tag!r}: expected k=v, of at most 256 characters")
    for name in wanted.to:
        if name == "-" or not name.endswith((".json", ".jsonl", ".csv")):
            raise UsageError(f"-o {name}: expected a file that ends in .json, .jsonl or .csv")
        if not Path(name).parent.is_dir():
            raise UsageError(f"-o {name}: there is no folder {Path(name).parent}")


async def _carried_out(wanted: RunOptions, settings: Settings) -> int:
    async with app.store(settings) as store:
        source = None if wanted.resume is None else await find_run(store, wanted.resume, KIND)
        with prints_aside():
            async with _evals(wanted, settings, store, source) as (evals, agent):
                if source is not None:
                    run = await _resumed(evals, source)
                else:
                    assert agent is not None
                    run = await _begun(wanted, settings, evals, agent)
                ended = await _watched(evals, run, quiet=wanted.json)
        return await _told(wanted, store, ended)


@asynccontextmanager
async def _evals(
    wanted: RunOptions, settings: Settings, store: Store, source: Run | None
) -> AsyncGenerator[tuple[EvalRuntime, Agent | None]]:
    """The agent as it was given, or as the run that is resumed was."""
    spec = wanted.agent
    if source is not None and spec is None:
        spec = (await read_request(store, source.id)).agent_spec or None
    agent = None if spec is None else app.resolve_agent(spec, settings)
    async with open_evals(settings, store, [agent] if agent else []) as evals:
        yield evals, agent


async def _begun(wanted: RunOptions, settings: Settings, evals: EvalRuntime, agent: Agent) -> Run:
    assert wanted.suite is not None
    suite = suite_from(wanted.suite, settings)
    baseline = None
    if wanted.baseline is not None:
        baseline = (await find_run(evals.store, wanted.baseline, KIND, name=suite.suite_id)).id
    asked = EvalRequest(
        suite_ref=f"{suite.suite_id}@{suite.version}",
        agent_id=agent.card.agent_id,
        modes=wanted.modes,
        baseline_run_id=baseline,
        trials=wanted.trials,
        seconds=wanted.timeout,
        judge=wanted.judge,
        allow_target_mismatch=wanted.any_agent,
        agent_spec=wanted.agent or "",
        tags=wanted.tags,
    )
    try:
        plan = await evals.service.planned(asked, TENANT, suite)
    except EvalRefused as refused:
        raise InvalidRequest([_said(one, refused) for one in refused.problems]) from None
    if baseline is not None:
        compares(plan.modes)
    run = await evals.service.take_in(plan, TENANT, evals.executor.holder)
    evals.executor.begin(run)
    return run


OPTIONS = {
    "configurable.evalModes": "--mode",
    "configurable.baselineRunId": "--baseline",
    "configurable.trials": "--trials",
    "configurable.timeout": "--timeout",
    "agentId": "--agent",
}


def _said(problem: Problem, refused: EvalRefused) -> Problem:
    """A refusal in the words of the command line."""
    told = problem.message.replace("configurable.allowTargetMismatch", "--any-agent")
    tasks = (
        f" (tasks {', '.join(refused.tasks[:5])}{' …' if len(refused.tasks) > 5 else ''})"
        if refused.tasks
        else ""
    )
    return Problem(OPTIONS.get(problem.place, problem.place), told + tasks)


async def _resumed(evals: EvalRuntime, source: Run) -> Run:
    """A run that was cut off goes on; one that ended is copied, and what it lacks is done."""
    if source.status == "completed":
        raise UsageError(f"{source.id} is completed: there is nothing to resume")
    same_agent(await read_request(evals.store, source.id), evals.service.means.agents)
    if source.status in ACTIVE:
        claimed = await evals.store.claim(source.id, evals.executor.holder, seconds=evals.executor.lease)
        if claimed is None:
            raise UsageError(
                f"{source.id} is being conducted by another process; wait for it, or try again in a while"
            )
        evals.executor.begin(claimed)
        return claimed
    scored = await scored_of(evals.store, source)
    copying = CopySpec(scored.evidence, scored.keep)
    run = await branch(evals.store, source, copying, run=new_id("run-"), head=scored.head)
    say(f"{len(scored.tasks):,} of {scored.request.total:,} tasks are kept from {source.id}")
    claimed = await evals.store.claim(run.id, evals.executor.holder, seconds=evals.executor.lease)
    if claimed is not None:  # else a server on the same record was quicker, and does the rest
        evals.executor.begin(claimed)
    return run


async def _watched(evals: EvalRuntime, run: Run, *, quiet: bool) -> Run:
    """To its end, or to the end that Ctrl-C makes of it."""
    watch = RunProgress(run.head["total"], quiet=quiet)
    watching = asyncio.create_task(watch.follow(evals.executor.follow(run.id, run.tenant)))
    try:
        ended = await evals.executor.ended(run.id)
        with suppress(TimeoutError):
            await asyncio.wait_for(watching, 5)
        return ended
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        watch.clear()
        say("cancelling: what is under way is kept as far as it came")
        return await evals.executor.cancel(run.id, run.tenant)
    finally:
        watching.cancel()
        watch.clear()


async def _told(wanted: RunOptions, store: Store, run: Run) -> int:
    assert run.status in CLOSED
    summary = await recorded_summary(store, run)
    for name in wanted.to:
        await _written(name, store, run, summary)
    if wanted.json:
        await scorecard.as_json(store, run)
    else:
        await scorecard.show(store, run, shown=10)
        for name in wanted.to:
            tell(f"written to {name}")
    if summary is None:
        return BROKEN
    return PASSED if summary.passed else NOT_PASSED


async def _written(name: str, store: Store, run: Run, summary: EvalSummary | None) -> None:
    if not name.endswith(".json"):
        await scorecard.export(store, run, [name])
    elif summary is None:
        say(f"{name}: the run {run.status}, so there is no scorecard to write")
    else:
        scorecard.write(name, summary)
