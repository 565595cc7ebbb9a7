"""`assay verify` and `assay respond`: run a workflow in the local store until it ends or waits for a person."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import typer
from msgspec import Struct

from assay import settings
from assay.auth.local_key import PRINCIPAL
from assay.cli.console.console import echo, echo_err, echo_json, stdout_to_stderr
from assay.cli.render import verdicts
from assay.errors import Conflict, UsageError
from assay.errors.exit_codes import ERROR, NOT_PASSED, PASSED
from assay.host import parts
from assay.inputs.files import document_of
from assay.ports import ACTIVE, LOCAL_TENANT, Principal, Run, RunQuery, RunStatus, Store
from assay.ports.agents import Agent
from assay.ports.config import VerifierLoopConfig
from assay.promotion import KIND as PROMOTION_KIND
from assay.promotion.management import NODE
from assay.protocol.json_types import is_object
from assay.protocol.verification import Verification
from assay.runs.executor import RunExecutor
from assay.runs.find_run import RECENT, find_run
from assay.runs.intake import new_id
from assay.settings import Settings
from assay.workflow import KIND as WORKFLOW_KIND
from assay.workflow.loop_settings import read_loop, workflow_of
from assay.workflow.nodes.turn import WORKFLOW
from assay.workflow.service import RESTING, WorkflowService
from assay.workflow.state.execution_state import WorkflowRequest, read_request
from assay.workflow.verification_report import verification_of

MEASURED = ("loop_limit_exceeded", "decision_rejected")  # errors that say something about the work
POLL_SECONDS = 1.0  # between two looks at the child runs
MAX_WAITING = 1000  # runs that wait
Outcome = tuple[Run, Verification]  # the run, or its child that waits for a person; and the verification


class VerifyOptions(Struct, frozen=True, kw_only=True):
    """The command line of `assay verify`."""

    workflow: str | None
    task: str
    actor: str | None
    critics: list[str]
    criteria: list[str]
    checks: str | None
    max_turns: int
    gating: bool
    on_fail: str
    resume: str | None
    json: bool


def respond(*, run: str, accept: bool, reject: bool, answer: str | None, json: bool) -> None:
    """Answer a run that waits; exit as `assay verify` does."""
    if accept + reject + (answer is not None) != 1:
        raise UsageError("expected one of --accept, --reject and --answer")
    chosen = settings.load()
    value = _value(answer, chosen) if answer is not None else {"action": "accept" if accept else "reject"}
    with stdout_to_stderr():
        outcome = asyncio.run(_respond(chosen, run, value))
    if isinstance(outcome, Run):
        raise typer.Exit(report_deployment(outcome, json=json))
    raise typer.Exit(_report(*outcome, json=json))


def main(options: VerifyOptions) -> int:
    """Verify or resume. The result is the exit code."""
    chosen = settings.load()
    _validate(options, chosen)
    with stdout_to_stderr():
        if options.resume is not None:
            outcome = asyncio.run(_resume(chosen, options.resume))
        else:
            outcome = asyncio.run(_verify(chosen, options))
    return _report(*outcome, json=options.json)


def _validate(options: VerifyOptions, config: settings.Settings) -> None:
    if options.resume is not None:
        if (
            options.workflow
            or options.actor
            or options.task
            or options.critics
            or options.criteria
            or options.checks
        ):
            raise UsageError(
                "--resume: expected no other option but --json, because a run continues with its own options"
            )
        return
    if (options.workflow is None) == (options.actor is None):
        raise UsageError("expected either a WORKFLOW of assay.toml or --actor")
    if options.workflow is not None and options.workflow not in config.workflows:
        names = ", ".join(sorted(config.workflows)) or "none"
        raise UsageError(f"there is no workflow {options.workflow!r} in assay.toml; it has {names}")
    if not options.task:
        raise UsageError("--task: expected a text, got none")


async def _verify(config: settings.Settings, options: VerifyOptions) -> Outcome:
    task = _value(options.task, config)
    if options.workflow is not None:
        async with _open(config, {}) as (workflows, executor):
            run = await workflows.start(PRINCIPAL, options.workflow, {"task": task})
            return await _outcome(workflows, executor, run)
    specs = [spec for spec in (options.actor or "", *options.critics) if not spec.startswith(WORKFLOW)]
    agents = {spec: parts.resolve_agent(spec, config) for spec in specs}
    _check_distinct(agents)
    loop = _loop(options, agents, config)
    async with _open(config, agents) as (workflows, executor):
        request = WorkflowRequest(
            workflow=workflow_of("verify", loop),
            inputs={"task": task},
            owner={"tenant": PRINCIPAL.tenant, "principal": PRINCIPAL.id},
            agent_specs=tuple(agents),
        )
        run = await workflows.submit(request, PRINCIPAL.tenant, new_id("run-"))
        return await _outcome(workflows, executor, run)


def _check_distinct(agents: dict[str, Agent]) -> None:
    """Refuse two agents with one id: verdicts could not tell them apart."""
    by_id: dict[str, str] = {}
    for spec, agent in agents.items():
        other = by_id.setdefault(agent.card.agent_id, spec)
        if other != spec:
            raise UsageError(
                f"{other!r} and {spec!r}: expected two ids, got {agent.card.agent_id} twice; rename one, or give it an "
                "id in assay.toml"
            )


def _loop(options: VerifyOptions, agents: dict[str, Agent], config: settings.Settings) -> VerifierLoopConfig:
    ids = {spec: agent.card.agent_id for spec, agent in agents.items()}
    criteria: Any = list(options.criteria)
    if options.checks is not None:
        criteria = document_of(options.checks, config.limits)
        if not is_object(criteria):
            raise UsageError(f"{options.checks}: expected an object with a check for each criterion key")
    return read_loop(
        "verify",
        {
            "actor": ids.get(options.actor or "", options.actor),
            "critics": [ids.get(spec, spec) for spec in options.critics],
            "criteria": criteria,
            "max_turns": options.max_turns,
            "gating": options.gating,
            "on_fail": options.on_fail,
        },
    )


async def _respond(config: settings.Settings, run_id: str, value: Any) -> Outcome | Run:
    """
    Answer the run and continue it; for a child run, continue its top run too. A transition returns its management run.
    """
    async with parts.store(config, light=True) as store:
        transition = await find_management_run(store, run_id, LOCAL_TENANT)
        if transition is not None:
            return await respond_to_deployment(config, store, PRINCIPAL, transition, value)
        run = await _find_waiting(store, run_id)
        if run.status not in RESTING:
            raise Conflict("status", f"run {run.id}", f"it is {run.status} and does not wait for an answer")
        top = await _top_of(store, run)
        agents = await _agents_of(store, top, config)
    async with _open(config, agents) as (workflows, executor):
        await workflows.respond(PRINCIPAL, run.id, run.metadata["waiting"]["nodeId"], value)
        if top.id != run.id:
            await _claim(workflows, executor, top)  # otherwise another process continues it
        return await _outcome(workflows, executor, top)


async def _resume(config: settings.Settings, run_id: str) -> Outcome:
    """Continue an interrupted run; report a run that has ended or waits as it is."""
    async with parts.store(config, light=True) as store:
        run = await find_run(store, run_id, WORKFLOW_KIND, tenant=PRINCIPAL.tenant)
        agents = await _agents_of(store, run, config)
    async with _open(config, agents) as (workflows, executor):
        if run.status in ACTIVE and not await _claim(workflows, executor, run):
            message = f"another process executes it, or did so less than {executor.lease:g} s ago"
            raise Conflict("lease", f"run {run.id}", message)
        return await _outcome(workflows, executor, run)


async def _outcome(workflows: WorkflowService, executor: RunExecutor, run: Run) -> Outcome:
    ended, child = await _wait(workflows, executor, run)
    verification = await verification_of(workflows.store, ended, workflows.environment)
    if child is None:
        return ended, verification
    waiting = {**child.metadata["waiting"], "runId": child.id}
    return child, msgspec.structs.replace(verification, waiting=waiting)


def _value(text: str, config: settings.Settings) -> Any:
    return document_of(text[1:], config.limits) if text.startswith("@") else text


def _report(run: Run, verification: Verification, *, json: bool) -> int:
    if json:
        verdicts.print_json(verification)
    else:
        verdicts.display(verification, verdicts.respond_hint(run))
    if verification.goal_satisfied:
        return PASSED
    failed = verification.error is not None and verification.error["code"] not in MEASURED
    return ERROR if failed else NOT_PASSED


@asynccontextmanager
async def _open(
    config: settings.Settings, agents: Mapping[str, Agent]
) -> AsyncGenerator[tuple[WorkflowService, RunExecutor]]:
    """Workflows in the local store, with the agents of the settings and those of the command line."""
    async with (
        parts.store(config, light=True) as store,
        parts.open_workflows(config, store, agents.values()) as opened,
    ):
        yield opened


async def _wait(workflows: WorkflowService, executor: RunExecutor, run: Run) -> tuple[Run, Run | None]:
    """Wait until the run ends or waits; also return a child that waits for a person and so holds the run."""
    ending = asyncio.ensure_future(executor.wait(run.id))
    try:
        while True:
            done, _ = await asyncio.wait({ending}, timeout=POLL_SECONDS)
            if done:
                return ending.result(), None
            if (child := await _waiting_child(workflows.store, run.id)) is not None:
                return await workflows.get(run.id, run.tenant), child
    except asyncio.CancelledError:
        echo_err(f"run {run.id} is interrupted: assay verify --resume {run.id} continues it")
        raise
    finally:
        ending.cancel()


async def _claim(workflows: WorkflowService, executor: RunExecutor, run: Run) -> bool:
    """Continue a run here if no other process has it; say whether it is here."""
    claimed = await workflows.store.claim(run.id, executor.executor_id, seconds=executor.lease)
    if claimed is not None:
        executor.start(claimed)
    return claimed is not None


async def _top_of(store: Store, run: Run) -> Run:
    """The active run at the top of a run's parents."""
    while (parent := run.metadata.get("parent")) is not None:
        above = await store.run(parent["runId"], tenant=run.tenant)
        if above is None or above.status not in ACTIVE:
            break
        run = above
    return run


async def _agents_of(store: Store, run: Run, config: settings.Settings) -> dict[str, Agent]:
    """The agents that the command line described when the run was started."""
    specs = (await read_request(store, run.id)).agent_specs
    return {spec: parts.resolve_agent(spec, config) for spec in specs}


async def _find_waiting(store: Store, run_id: str) -> Run:
    """As `find_run`; `latest` is the latest run that waits, if there is one."""
    waiting = await _waiting_runs(store, 1) if run_id == "latest" else []
    return waiting[0] if waiting else await find_run(store, run_id, WORKFLOW_KIND, tenant=LOCAL_TENANT)


async def _waiting_runs(store: Store, limit: int = MAX_WAITING) -> list[Run]:
    return await store.runs(RunQuery(tenant=LOCAL_TENANT, kind=WORKFLOW_KIND, statuses=RESTING, limit=limit))


async def _waiting_child(store: Store, top: str) -> Run | None:
    for run in await _waiting_runs(store):
        if run.id != top and (await _top_of(store, run)).id == top:
            return run
    return None


# `assay respond` for a transition of a deployment that waits for an approval.

WAITING = "waiting-approval"
ANSWERABLE: frozenset[RunStatus] = frozenset({"waiting-approval", "waiting-input", "waiting-external"})


async def find_management_run(store: Store, reference: str, tenant: str) -> Run | None:
    """
    The management run of that id or beginning of an id, or the `latest` run that waits; None: it is another kind of
    run.
    """
    if reference == "latest":
        newest = await store.runs(RunQuery(tenant=tenant, statuses=ANSWERABLE, limit=1))
        return newest[0] if newest and newest[0].kind == PROMOTION_KIND else None
    run = await store.run(reference, tenant=tenant)
    if run is None:
        recent = await store.runs(RunQuery(tenant=tenant, kind=PROMOTION_KIND, limit=RECENT))
        matches = [one for one in recent if one.id.startswith(reference)]
        run = matches[0] if len(matches) == 1 else None
    return run if run is not None and run.kind == PROMOTION_KIND else None


async def respond_to_deployment(
    config: Settings, store: Store, principal: Principal, run: Run, value: Any
) -> Run:
    """Answer the run, and return it as it is then."""
    if run.status != WAITING:
        raise Conflict("status", f"run {run.id}", f"it is {run.status} and does not wait for an answer")
    services, agents = parts.services(config), parts.agents(config)
    try:
        packs = parts.tenant_agents(config, store)
        promotions = parts.promotion_service(config, store, agents, services, packs)
        return await promotions.respond(principal, run.id, NODE, value)
    finally:
        await agents.close()
        await services.close()


def report_deployment(run: Run, *, json: bool) -> int:
    """Print the outcome; return the exit code."""
    if json:
        document = {"runId": run.id, "status": run.status} | {
            name: run.metadata[name] for name in ("agentId", "agentVersion", "code") if name in run.metadata
        }
        echo_json(msgspec.json.encode(document))
    else:
        subject = f"{run.metadata['agentId']}@{run.metadata['agentVersion']}"
        target = f" to {run.metadata['toState']}" if "toState" in run.metadata else ""
        if run.status == "completed":
            echo(f"{subject}: the transition{target} is done")
        elif run.status == WAITING:
            echo(f"{subject}: the answer is stored, and the transition{target} waits for more approvals")
        else:
            echo(
                f"{subject} is unchanged: the transition{target} is {run.status} ({run.metadata.get('code')})"
            )
    return PASSED if run.status in ("completed", WAITING) else NOT_PASSED
