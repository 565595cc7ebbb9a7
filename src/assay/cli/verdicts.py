"""What a run of a workflow came to, as a person sees it: each verdict and whose work it is about, the criteria, the goal, and who is waited for."""

import csv
import io

import msgspec
import typer

from assay.access.local import TENANT
from assay.cli.say import say
from assay.errors import WrongUsage
from assay.fep.sinks import File
from assay.ports import Run, Store
from assay.protocol.values import is_object
from assay.protocol.verification import Said, Verification
from assay.workflow.drive import driven
from assay.workflow.flow import Bounds
from assay.workflow.report import report, verification

MOST = 100_000  # events of one run
COLUMNS = tuple(field.encode_name for field in msgspec.structs.fields(Said))


async def came_to(store: Store, run: Run, bounds: Bounds) -> Verification:
    drive, _, _ = await driven(store, run, bounds)
    return verification(report(run, await store.events(run.id, limit=MOST)), drive.flow.variables)


def print_json(came: Verification) -> None:
    typer.echo(msgspec.json.encode(came))


def display(came: Verification, answer: str | None = None) -> None:
    """`answer` says how a run that waits is answered."""
    for one in came.verdicts:
        about = "its own work" if one.self_verified else f"the work of {one.actor_id}"
        keys = f" ({', '.join(one.criteria)})" if one.criteria else ""
        sure = "" if one.confidence is None else f", {one.confidence:.0%} sure"
        typer.echo(f"turn {one.iteration}: {one.verdict}, by {one.agent_id} on {about}{keys}{sure}")
    for criterion in came.success_criteria:
        typer.echo(f"{criterion['key']}: {'met' if criterion['met'] else 'not met'}")
    if came.committed:
        result = came.result if isinstance(came.result, str) else msgspec.json.encode(came.result).decode()
        typer.echo(f"result: {result}")
    typer.echo(_verdict(came))
    if answer is not None:
        say(answer)


def _verdict(came: Verification) -> str:
    if came.goal_satisfied:
        return "goal reached"
    if came.error is not None:
        return f"goal not reached: {came.error['code']}: {came.error['message']}"
    if came.waiting is not None:
        return f"goal not reached: it waits at {came.waiting['nodeId']} ({came.waiting['kind']})"
    if came.status == "completed":
        return "goal not reached: it gave up, and is completed"
    return f"goal not reached: it is {came.status}"


def in_a_list(run: Run) -> str:
    """The goal, in the few words that a table has room for."""
    if "waiting" in run.head and run.status.startswith("waiting"):
        return "waits for a person"
    if "goalSatisfied" not in run.head:
        return "–"
    own = ", self-verified" if run.head.get("selfVerified") else ""
    return f"goal reached{own}" if run.head["goalSatisfied"] else "goal not reached"


def waits(run: Run) -> str | None:
    """For whom, and how it is answered."""
    waiting = run.head.get("waiting")
    if not is_object(waiting) or not run.status.startswith("waiting"):
        return None
    if run.tenant != TENANT:
        place = f"POST /v1/runs/{run.id}/interrupts/{waiting['nodeId']}"
        return f"run {run.id} waits for a person of tenant {run.tenant}: {place}"
    how = "--answer TEXT" if waiting["kind"] == "clarification" else "--accept, or --reject"
    until = f", until {waiting['deadline']}" if waiting.get("deadline") else ""
    return f"run {run.id} waits for a person: assay respond {run.id} {how}{until}"


def export(came: Verification, to: list[str]) -> int:
    """`.json` is all of it; `.jsonl` and `.csv` have one verdict a line."""
    for name in to:
        if not name.endswith((".json", ".jsonl", ".ndjson", ".csv")) and name != "-":
            raise WrongUsage(f"{name}: wanted an output that ends in .jsonl, .json or .csv")
    for file in [File(name) for name in to]:
        file.put(_written(came, file.name))
        file.close()
    return len(came.verdicts)


def _written(came: Verification, name: str) -> bytes:
    if name.endswith(".json"):
        return msgspec.json.encode(came) + b"\n"
    if not name.endswith(".csv"):
        return b"".join(msgspec.json.encode(one) + b"\n" for one in came.verdicts)
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for one in came.verdicts:
        row = msgspec.to_builtins(one) | {"criteria": " ".join(one.criteria)}
        table.writerow([row.get(name, "") for name in COLUMNS])
    return text.getvalue().encode()
