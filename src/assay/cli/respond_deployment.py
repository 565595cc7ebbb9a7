"""`assay respond` for a transition of a deployment that waits for an approval."""

from typing import Any

import msgspec

from assay.cli.console import echo, echo_json
from assay.cli.exit_codes import NOT_PASSED, PASSED
from assay.cli.find_run import RECENT
from assay.errors import Conflict
from assay.host import parts
from assay.ports import Principal, Run, RunQuery, RunStatus, Store
from assay.promotion import KIND
from assay.promotion.management import NODE
from assay.settings import Settings

WAITING = "waiting-approval"
ANSWERABLE: frozenset[RunStatus] = frozenset({"waiting-approval", "waiting-input", "waiting-external"})


async def find_management_run(store: Store, reference: str, tenant: str) -> Run | None:
    """
    The management run of that id or beginning of an id, or the `latest` run that waits; None: it is another kind of
    run.
    """
    if reference == "latest":
        newest = await store.runs(RunQuery(tenant=tenant, statuses=ANSWERABLE, limit=1))
        return newest[0] if newest and newest[0].kind == KIND else None
    run = await store.run(reference, tenant=tenant)
    if run is None:
        recent = await store.runs(RunQuery(tenant=tenant, kind=KIND, limit=RECENT))
        matches = [one for one in recent if one.id.startswith(reference)]
        run = matches[0] if len(matches) == 1 else None
    return run if run is not None and run.kind == KIND else None


async def respond_to_deployment(
    config: Settings, store: Store, principal: Principal, run: Run, value: Any
) -> Run:
    """Answer the run, and return it as it is then."""
    if run.status != WAITING:
        raise Conflict("status", f"run {run.id}", f"it is {run.status} and does not wait for an answer")
    services, agents = parts.services(config), parts.agents(config)
    try:
        packs = parts.pack_agents(config, store)
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
