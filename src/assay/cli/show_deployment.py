"""`assay show` of a management run: the transition of a deployment, and its log."""

import msgspec

from assay.cli.console import echo_json
from assay.cli.console_table import Page
from assay.ports import Run, Store
from assay.protocol.json_types import JSON
from assay.runs.log_reader import all_events

HIDDEN = ("agentId", "outputs", "data", "error", "owner")  # the headline, a record, or content for a client


async def show_deployment(store: Store, run: Run, *, json: bool) -> None:
    """Print the transition and its events."""
    events = [event async for event in all_events(store, run.id)]
    if json:
        document = {"runId": run.id, "kind": run.kind, "status": run.status, **run.metadata, "events": events}
        echo_json(msgspec.json.encode(document))
        return
    about, page = run.metadata, Page()
    page.put(f"{run.id}  {run.status}  {run.created:%Y-%m-%d %H:%M:%S}")
    to = f" to {about['toState']}" if "toState" in about else ""
    page.put(f"{about['transition']} {about['agentId']}@{about['agentVersion']}{to}, by {about['principal']}")
    for event in events:
        page.put(f"  {event['type']}{_members(event['payload'])}")
        error: JSON = event["payload"].get("error", {})
        for line in str(error.get("message", "")).splitlines():
            page.put(f"    {line}", "yellow")
    if "code" in about:
        page.put(f"nothing changed: {about['code']}")
    if run.status.startswith("waiting"):
        page.put(f"it waits for an approval: assay respond {run.id} --accept, or --reject")


def _members(payload: JSON) -> str:
    shown = (
        f"{name} {value}"
        for name, value in payload.items()
        if name not in HIDDEN and isinstance(value, str | int)
    )
    return "".join(f" · {member}" for member in shown)
