"""`assay respond` for a transition of a deployment that waits for an approval."""

from typing import Any

import msgspec

from assay import app
from assay.cli.console import echo, echo_json
from assay.cli.exit_codes import NOT_PASSED, PASSED
from assay.errors import Conflict
from assay.ports import Principal, Run, Store
from assay.promotion.management import KIND, NODE
from assay.settings import Settings

WAITING = "waiting-approval"


async def find_management_run(store: Store, reference: str, tenant: str) -> Run | None:
    """The run, if the reference is the id of a management run."""
    run = await store.run(reference, tenant=tenant)
    return run if run is not None and run.kind == KIND else None


async def respond_to_deployment(
    config: Settings, store: Store, principal: Principal, run: Run, value: Any
) -> Run:
    """Answer the run, and return it as it is then."""
    if run.status != WAITING:
        raise Conflict("status", f"run {run.id}", f"it is {run.status} and does not wait for an answer")
    services, agents = app.services(config), app.agents(config)
    try:
        packs = app.pack_agents(config, store)
        promotions = app.promotion_service(config, store, agents, services, packs)
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
        code = f" ({run.metadata['code']})" if "code" in run.metadata else ""
        echo(f"run {run.id}: {run.metadata['transition']} of {subject} is {run.status}{code}")
    return PASSED if run.status in ("completed", WAITING) else NOT_PASSED
