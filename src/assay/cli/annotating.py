"""What `assay annotate` does: find what is meant, and keep what is said of it, here or on another host."""

import asyncio
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET, Struct

from assay import app, settings
from assay.agenteval.detail import EvalDetail, detail_of
from assay.agenteval.run_header import KIND
from assay.cli.finding import find_run
from assay.cli.remote import HostClient
from assay.cli.say import tell
from assay.errors import UsageError
from assay.ports.audit import HOST
from assay.protocol.annotations import Anchor, Annotation, AnnotationCreate, Signal
from assay.protocol.redaction import redacted_text
from assay.runs.annotations import annotate

_detail = msgspec.json.Decoder(EvalDetail).decode
_annotation = msgspec.json.Decoder(Annotation).decode


class AnnotateOptions(Struct, frozen=True, kw_only=True):
    """What the command line says."""

    task: str | None = None
    event: str | None = None
    score: float | None = None
    passed: bool | None = None
    rating: int | None = None
    label: str | None = None
    flag: bool = False
    note: str | None = None


def carry_out(
    which: str, said: AnnotateOptions, tenant: str | None, server: str | None, key_file: str | None
) -> None:
    signal = signal_of(said)
    if server is not None:
        made = _there(which, said, signal, HostClient(server, key_file))
    else:
        made = asyncio.run(_here(which, said, signal, tenant))
    tell(f"{made.annotation_id} is kept with {made.target.run_id}")


def signal_of(said: AnnotateOptions) -> Signal:
    """One thing at a time; a correction is of the score of a task."""
    corrects = said.score is not None or said.passed is not None
    given = [
        name
        for name, there in (
            ("--score or --passed or --failed", corrects),
            ("--rating", said.rating is not None),
            ("--label", said.label is not None),
            ("--flag", said.flag),
        )
        if there
    ]
    if len(given) != 1:
        told = f"got {' and '.join(given)}" if given else "got nothing"
        raise UsageError(f"expected one of --score, --passed, --failed, --rating, --label, --flag; {told}")
    if said.task is not None and said.event is not None:
        raise UsageError("--task and --event: give one of them")
    if corrects:
        if said.task is None and said.event is None:
            raise UsageError("a correction is of the score of a task: say which, with --task ID")
        what = {"score": said.score, "passed": said.passed}
        text = msgspec.json.encode({name: one for name, one in what.items() if one is not None}).decode()
        return Signal(kind="correction", correction=text)
    if said.rating is not None:
        return Signal(kind="rating", rating=said.rating)
    return Signal(kind="flag") if said.flag else Signal(kind="label", label=said.label or "")


def _body(said: AnnotateOptions, signal: Signal, event: str | None) -> AnnotationCreate:
    return AnnotationCreate(
        signal=signal,
        target=UNSET if event is None else Anchor(event_id=event),
        note=UNSET if said.note is None else said.note,
    )


def _event(page: EvalDetail, task: str) -> str | None:
    """The event that scored a task, if it is on this page."""
    for one in page.tasks:
        if one.task_id == task:
            if one.event_id is UNSET:
                raise UsageError(f"--task {task}: it has no score yet")
            return one.event_id
    return None


async def _here(which: str, said: AnnotateOptions, signal: Signal, tenant: str | None) -> Annotation:
    async with app.store(settings.load()) as store:
        run = await find_run(store, which, KIND, tenant=tenant)
        event = said.event
        if said.task is not None:
            event = _event(await detail_of(store, run, {}, limit=10**9, shown=0), said.task)
            if event is None:
                raise UsageError(f"--task {said.task}: {run.id} has no such task")
        body = _body(said, signal, event)
        return await annotate(store, run, body, HOST, datetime.now(UTC), redacted_text)


def _there(which: str, said: AnnotateOptions, signal: Signal, host: HostClient) -> Annotation:
    run = which
    if which == "latest":
        runs = msgspec.json.decode(host.ask("GET", "/v1/host/assay/runs?mode=eval&page_size=1"))["runs"]
        if not runs:
            raise UsageError(f"{host.address}: there is no eval run yet")
        run = runs[0]["runId"]
    event, first = said.event, 0
    while said.task is not None and event is None:
        page = _detail(host.ask("GET", f"/v1/host/assay/runs/{run}/eval-report?first={first}&limit=1000"))
        event = _event(page, said.task)
        if event is None and page.next_task is UNSET:
            raise UsageError(f"--task {said.task}: {run} has no such task")
        first += 1000
    return _annotation(host.ask("POST", f"/v1/runs/{run}/annotations", _body(said, signal, event)))
