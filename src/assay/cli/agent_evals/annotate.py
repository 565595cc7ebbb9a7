"""
`assay annotate`: annotate a run, a case, a task or an event, here or on another host (openwop-contract §9.2).

An agent eval has an event for the score of each task, and a correction names it. An evaluation has no event for a case:
its correction names the case as the node.
"""

import asyncio
from datetime import UTC, datetime

import msgspec
import typer
from msgspec import UNSET, Struct

from assay import settings
from assay.agenteval.planning.run_header import KIND
from assay.agenteval.results.detail import EvalDetail, detail_of
from assay.cli.console.client import HostClient, HostRefusal
from assay.cli.console.console import echo
from assay.comparison.stored_runs import require_comparable
from assay.errors import UsageError
from assay.fep.records.corrections import has_case
from assay.fep.records.run_header import KIND as EVALUATION
from assay.host import parts
from assay.ports import Run, Store
from assay.ports.audit import HOST
from assay.protocol.annotations import Anchor, Annotation, AnnotationCreate, Signal
from assay.protocol.redaction import redact_text
from assay.runs import annotations
from assay.runs.find_run import find_run

_detail = msgspec.json.Decoder(EvalDetail).decode
_annotation = msgspec.json.Decoder(Annotation).decode


class AnnotateOptions(Struct, frozen=True, kw_only=True):
    """What the annotation says, and about which task or event."""

    task: str | None = None
    event: str | None = None
    score: float | None = None
    passed: bool | None = None
    rating: int | None = None
    label: str | None = None
    flag: bool = False
    note: str | None = None


def main(
    *,
    run: str,
    task: str | None,
    event: str | None,
    score: float | None,
    passed: bool,
    failed: bool,
    rating: int | None,
    label: str | None,
    flag: bool,
    note: str | None,
    tenant: str | None,
    server: str | None,
    key_file: str | None,
) -> None:
    """Annotate it here or on another host."""
    if passed and failed:
        raise typer.BadParameter("--passed and --failed exclude each other: give one of them")
    options = AnnotateOptions(
        task=task,
        event=event,
        score=score,
        passed=None if passed == failed else passed,
        rating=rating,
        label=label,
        flag=flag,
        note=note,
    )
    signal = signal_of(options)
    if server is not None:
        annotation = _annotate_remote(run, options, signal, HostClient(server, key_file))
    else:
        annotation = asyncio.run(_annotate_local(run, options, signal, tenant))
    echo(f"{annotation.annotation_id} is stored with {annotation.target.run_id}")


def signal_of(options: AnnotateOptions) -> Signal:
    """The one signal that the options give. A correction needs a task or an event."""
    corrects = options.score is not None or options.passed is not None
    signals = [
        name
        for name, present in (
            ("--score or --passed or --failed", corrects),
            ("--rating", options.rating is not None),
            ("--label", options.label is not None),
            ("--flag", options.flag),
        )
        if present
    ]
    if len(signals) != 1:
        got = f"got {' and '.join(signals)}" if signals else "got nothing"
        raise UsageError(f"expected one of --score, --passed, --failed, --rating, --label, --flag; {got}")
    if options.task is not None and options.event is not None:
        raise UsageError("--task and --event: expected one of them, got both")
    if corrects:
        if options.task is None and options.event is None:
            raise UsageError("expected --task ID or --case ID, the result that is corrected; got neither")
        members = {"score": options.score, "passed": options.passed}
        correction = {name: value for name, value in members.items() if value is not None}
        return Signal(kind="correction", correction=msgspec.json.encode(correction).decode())
    if options.rating is not None:
        return Signal(kind="rating", rating=options.rating)
    return Signal(kind="flag") if options.flag else Signal(kind="label", label=options.label or "")


def _body(
    options: AnnotateOptions, signal: Signal, event: str | None, case: str | None = None
) -> AnnotationCreate:
    """`event` is that of a task or the one that was named, `case` the case of an evaluation."""
    anchor = Anchor(event_id=UNSET if event is None else event, node_id=UNSET if case is None else case)
    return AnnotationCreate(
        signal=signal,
        target=UNSET if event is case is None else anchor,
        note=UNSET if options.note is None else options.note,
    )


def _event_of(page: EvalDetail, task_id: str) -> str | None:
    """The event that scored a task, if the task is on this page."""
    for task in page.tasks:
        if task.task_id == task_id:
            if task.event_id is UNSET:
                raise UsageError(f"--task {task_id}: it has no score yet")
            return task.event_id
    return None


async def _annotate_local(
    run_id: str, options: AnnotateOptions, signal: Signal, tenant: str | None
) -> Annotation:
    async with parts.store(settings.load(), light=True) as store:
        run = await find_run(store, run_id, tenant=tenant)
        if run.kind == EVALUATION:
            await _require_case(store, run, options)
            body = _body(options, signal, None, options.task)
            return await annotations.annotate(store, run, body, HOST, datetime.now(UTC), redact_text)
        if run.kind != KIND:
            raise UsageError(
                f"{run.id}: expected a run of `assay evaluate` or `assay run`, it is a {run.kind} run"
            )
        event = options.event
        if options.task is not None:
            event = _event_of(await detail_of(store, run, {}, limit=10**9, max_reasons=0), options.task)
            if event is None:
                raise UsageError(f"--task {options.task}: {run.id} has no such task")
        body = _body(options, signal, event)
        return await annotations.annotate(store, run, body, HOST, datetime.now(UTC), redact_text)


async def _require_case(store: Store, run: Run, options: AnnotateOptions) -> None:
    """Refuse a case that an evaluation does not have."""
    if options.event is not None:
        raise UsageError(f"--event: expected --case ID, because {run.id} is an evaluation, which has cases")
    require_comparable(run)
    if options.task is not None and not await has_case(store, run, options.task):
        raise UsageError(
            f"--case {options.task}: {run.id} has no such case; `assay show {run.id}` lists them"
        )


def _annotate_remote(run_id: str, options: AnnotateOptions, signal: Signal, host: HostClient) -> Annotation:
    """Annotate a run of another host. One that is not a run of OpenWOP there is an evaluation, or it is unknown."""
    run = host.find_run(run_id, "evaluation or agent eval", kind=[EVALUATION, KIND])
    try:
        event = options.event
        if options.task is not None and event is None:
            event = _remote_event(run, options.task, host)
        body = _body(options, signal, event)
        return _annotation(host.request("POST", f"/v1/runs/{run}/annotations", body))
    except HostRefusal as refusal:
        if refusal.remote_code != "not_found" or options.event is not None:
            raise
    body = _body(options, signal, None, options.task)
    return _annotation(host.request("POST", f"/v1/evaluations/{run}/annotations", body))


def _remote_event(run: str, task: str, host: HostClient) -> str:
    first = 0
    while True:
        path = f"/v1/host/assay/runs/{run}/eval-report?first={first}&limit=1000"
        page = _detail(host.request("GET", path))
        event = _event_of(page, task)
        if event is not None:
            return event
        if page.next_task is UNSET:
            raise UsageError(f"--task {task}: {run} has no such task")
        first += 1000
