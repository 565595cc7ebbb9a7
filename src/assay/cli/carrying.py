"""A run of a workflow in the record of this folder, carried as far as it goes: to its end, or to where it or a child of it waits for a person."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from assay import app, settings
from assay.auth.local_key import TENANT
from assay.cli.finding import find_run
from assay.cli.say import say
from assay.ports import ACTIVE, Run, RunQuery, Store
from assay.ports.agents import Agent
from assay.runs.executor import RunExecutor
from assay.workflow.library import KIND
from assay.workflow.service import RESTING, WorkflowService
from assay.workflow.steps import read_request

LOOK = 1.0  # seconds between two looks at the children
MOST = 1000  # runs that wait


@asynccontextmanager
async def opened(
    chosen: settings.Settings, given: Mapping[str, Agent]
) -> AsyncGenerator[tuple[WorkflowService, RunExecutor]]:
    """A room with the agents of the settings, and those that were described."""
    async with app.store(chosen) as store, app.open_workflows(chosen, store, given.values()) as (room, desk):
        yield room, desk


async def carried(room: WorkflowService, desk: RunExecutor, run: Run) -> tuple[Run, Run | None]:
    """How far it came, and the child that waits for a person, where one keeps it from going on."""
    ending = asyncio.ensure_future(desk.ended(run.id))
    try:
        while True:
            done, _ = await asyncio.wait({ending}, timeout=LOOK)
            if done:
                return ending.result(), None
            if (child := await _waiting_below(room.store, run.id)) is not None:
                return await room.get(run.id, run.tenant), child
    except asyncio.CancelledError:
        say(f"run {run.id} is left where it is: assay verify --resume {run.id} goes on with it")
        raise
    finally:
        ending.cancel()


async def taken_up(room: WorkflowService, desk: RunExecutor, run: Run) -> bool:
    """Conduct what nobody does; whether it is conducted here."""
    claimed = await room.store.claim(run.id, desk.holder, seconds=desk.lease)
    if claimed is not None:
        desk.begin(claimed)
    return claimed is not None


async def top_of(store: Store, run: Run) -> Run:
    """The run that this one is a child of, up to the one that somebody asked for."""
    while (parent := run.head.get("parent")) is not None:
        above = await store.run(parent["runId"], tenant=run.tenant)
        if above is None or above.status not in ACTIVE:
            break
        run = above
    return run


async def agents_of(store: Store, run: Run, chosen: settings.Settings) -> dict[str, Agent]:
    """Those that were described when it was begun."""
    told = (await read_request(store, run.id)).given
    return {what: app.resolve_agent(what, chosen) for what in told}


async def waiting(store: Store, which: str) -> Run:
    """As `found` finds one; the latest is the latest that waits, if one does."""
    resting = await _resting(store, 1) if which == "latest" else []
    return resting[0] if resting else await find_run(store, which, KIND, tenant=TENANT)


async def _resting(store: Store, limit: int = MOST) -> list[Run]:
    return await store.runs(RunQuery(tenant=TENANT, kind=KIND, statuses=RESTING, limit=limit))


async def _waiting_below(store: Store, top: str) -> Run | None:
    for run in await _resting(store):
        if run.id != top and (await top_of(store, run)).id == top:
            return run
    return None
