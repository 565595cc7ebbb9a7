"""What `assay verify` and `assay respond` do: conduct a run in the record of this folder, and tell what came of it."""

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from assay import app, settings
from assay.auth.local_key import TENANT
from assay.cli import verdicts
from assay.cli.aside import prints_aside
from assay.cli.carrying import agents_of, carried, opened, taken_up, top_of, waiting
from assay.cli.finding import find_run
from assay.errors import Conflict, UsageError
from assay.fep.files import document_of
from assay.ports import ACTIVE, Principal, Run
from assay.ports.agents import Agent
from assay.ports.config import VerifierLoopConfig
from assay.protocol.json_types import is_object
from assay.protocol.verification import Verification
from assay.runs.executor import RunExecutor
from assay.runs.ids import new_id
from assay.workflow.execution import WorkflowRequest
from assay.workflow.library import KIND
from assay.workflow.nodes.turn import WORKFLOW
from assay.workflow.report import came_to
from assay.workflow.service import RESTING, WorkflowService
from assay.workflow.verifier_loop import read_loop, workflow_of

ME = Principal(
    tenant=TENANT, id="command", scopes=frozenset({"runs:create", "runs:read", "approvals:respond"})
)
REACHED, BROKE, NOT_REACHED = 0, 1, 3
MEASURED = ("loop_limit_exceeded", "decision_rejected")  # ends that say something about the work
Came = tuple[Run, Verification]  # who is waited for, or the run itself; and what came of it


class VerifyOptions(Struct, frozen=True, kw_only=True):
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


def verify(asked: VerifyOptions) -> int:
    chosen = settings.load()
    if asked.resume is not None:
        if asked.workflow or asked.actor or asked.task or asked.critics or asked.criteria or asked.checks:
            raise UsageError("--resume goes on with a run as it was begun: only --json goes with it")
        with prints_aside():
            came = asyncio.run(_resume(chosen, asked.resume))
        return _told(*came, json=asked.json)
    if (asked.workflow is None) == (asked.actor is None):
        raise UsageError("expected a WORKFLOW of assay.toml, or --actor; and not both")
    if asked.workflow is not None and asked.workflow not in chosen.workflows:
        there = ", ".join(sorted(chosen.workflows)) or "none"
        raise UsageError(f"there is no workflow {asked.workflow!r} in assay.toml; there are {there}")
    if not asked.task:
        raise UsageError("expected a --task")
    with prints_aside():
        came = asyncio.run(_verify(chosen, asked))
    return _told(*came, json=asked.json)


async def _verify(chosen: settings.Settings, asked: VerifyOptions) -> Came:
    task = _said(asked.task, chosen)
    if asked.workflow is not None:
        async with opened(chosen, {}) as (room, desk):
            run = await room.start(ME, asked.workflow, {"task": task})
            return await _came(room, desk, run)
    taking_part = [what for what in (asked.actor or "", *asked.critics) if not what.startswith(WORKFLOW)]
    given = {what: app.resolve_agent(what, chosen) for what in taking_part}
    _apart(given)
    loop = _loop(asked, given, chosen)
    async with opened(chosen, given) as (room, desk):
        request = WorkflowRequest(
            workflow=workflow_of("verify", loop),
            inputs={"task": task},
            owner={"tenant": ME.tenant, "principal": ME.id},
            given=tuple(given),
        )
        return await _came(room, desk, await room.begin(request, ME.tenant, new_id("run-")))


def _apart(given: dict[str, Agent]) -> None:
    """Who takes part is told apart by id: two of one id would be one and the same."""
    by_id: dict[str, str] = {}
    for what, agent in given.items():
        other = by_id.setdefault(agent.card.agent_id, what)
        if other != what:
            raise UsageError(
                f"{other!r} and {what!r} are both {agent.card.agent_id}: rename one, or give it an id in assay.toml"
            )


def _loop(asked: VerifyOptions, given: dict[str, Agent], chosen: settings.Settings) -> VerifierLoopConfig:
    ids = {what: agent.card.agent_id for what, agent in given.items()}
    criteria: Any = list(asked.criteria)
    if asked.checks is not None:
        criteria = document_of(asked.checks, chosen.limits)
        if not is_object(criteria):
            raise UsageError(f"{asked.checks}: expected checks by the keys of their criteria")
    return read_loop(
        "verify",
        {
            "actor": ids.get(asked.actor or "", asked.actor),
            "critics": [ids.get(what, what) for what in asked.critics],
            "criteria": criteria,
            "max_turns": asked.max_turns,
            "gating": asked.gating,
            "on_fail": asked.on_fail,
        },
    )


def respond(run: str, *, accept: bool, reject: bool, answer: str | None, json: bool) -> int:
    if accept + reject + (answer is not None) != 1:
        raise UsageError("expected one of --accept, --reject and --answer")
    chosen = settings.load()
    value = _said(answer, chosen) if answer is not None else {"action": "accept" if accept else "reject"}
    with prints_aside():
        came = asyncio.run(_respond(chosen, run, value))
    return _told(*came, json=json)


async def _respond(chosen: settings.Settings, which: str, value: Any) -> Came:
    """The answer, and on with it; of a child, with what it is a child of."""
    async with app.store(chosen) as store:
        run = await waiting(store, which)
        if run.status not in RESTING:
            raise Conflict("status", f"run {run.id}", f"it is {run.status}, and waits for no answer")
        top = await top_of(store, run)
        given = await agents_of(store, top, chosen)
    async with opened(chosen, given) as (room, desk):
        await room.respond(ME, run.id, run.head["waiting"]["nodeId"], value)
        if top.id != run.id:
            await taken_up(room, desk, top)  # or another process goes on with it
        return await _came(room, desk, top)


async def _resume(chosen: settings.Settings, which: str) -> Came:
    """On with what was cut off; what has ended, or waits, is told of as it is."""
    async with app.store(chosen) as store:
        run = await find_run(store, which, KIND, tenant=ME.tenant)
        given = await agents_of(store, run, chosen)
    async with opened(chosen, given) as (room, desk):
        if run.status in ACTIVE and not await taken_up(room, desk, run):
            what = f"another process has it, or had it less than {desk.lease:g} s ago"
            raise Conflict("lease", f"run {run.id}", what)
        return await _came(room, desk, run)


async def _came(room: WorkflowService, desk: RunExecutor, run: Run) -> Came:
    ended, child = await carried(room, desk, run)
    came = await came_to(room.store, ended, room.environment)
    if child is None:
        return ended, came
    waiting = {**child.head["waiting"], "runId": child.id}
    return child, msgspec.structs.replace(came, waiting=waiting)


def _said(text: str, chosen: settings.Settings) -> Any:
    return document_of(text[1:], chosen.limits) if text.startswith("@") else text


def _told(run: Run, came: Verification, *, json: bool) -> int:
    if json:
        verdicts.print_json(came)
    else:
        verdicts.display(came, verdicts.waits(run))
    if came.goal_satisfied:
        return REACHED
    broke = came.error is not None and came.error["code"] not in MEASURED
    return BROKE if broke else NOT_REACHED
