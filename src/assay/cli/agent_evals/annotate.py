"""`assay annotate`: annotate an eval run, a task or an event, here or on another host (openwop-contract §9.2)."""

import asyncio
from datetime import UTC, datetime

import msgspec
import typer
from msgspec import UNSET, Struct

from assay import settings
from assay.agenteval.planning.run_header import KIND
from assay.agenteval.results.detail import EvalDetail, detail_of
from assay.agenteval.results.judge_labels import read_judged, read_panel
from assay.cli.console.client import HostClient
from assay.cli.console.console import count_of, echo, echo_json
from assay.cli.console.console_table import Page
from assay.errors import UsageError
from assay.host import parts
from assay.ports.audit import HOST
from assay.protocol.annotations import Anchor, Annotation, AnnotationCreate, Signal
from assay.protocol.redaction import redact_text
from assay.results.judge_check import JudgeCheck, JudgedCases, check_judge
from assay.results.judge_samples import record_sample
from assay.runs import annotations
from assay.runs.find_run import find_run
from assay.stats.judge_agreement import Agreement, CorrectedMean

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
        raise UsageError("--task and --event exclude each other: give one of them")
    if corrects:
        if options.task is None and options.event is None:
            raise UsageError("a correction needs the task that it corrects: add --task ID")
        members = {"score": options.score, "passed": options.passed}
        correction = {name: value for name, value in members.items() if value is not None}
        return Signal(kind="correction", correction=msgspec.json.encode(correction).decode())
    if options.rating is not None:
        return Signal(kind="rating", rating=options.rating)
    return Signal(kind="flag") if options.flag else Signal(kind="label", label=options.label or "")


def _body(options: AnnotateOptions, signal: Signal, event: str | None) -> AnnotationCreate:
    return AnnotationCreate(
        signal=signal,
        target=UNSET if event is None else Anchor(event_id=event),
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
        run = await find_run(store, run_id, KIND, tenant=tenant)
        event = options.event
        if options.task is not None:
            event = _event_of(await detail_of(store, run, {}, limit=10**9, max_reasons=0), options.task)
            if event is None:
                raise UsageError(f"--task {options.task}: {run.id} has no such task")
        body = _body(options, signal, event)
        return await annotations.annotate(store, run, body, HOST, datetime.now(UTC), redact_text)


def _annotate_remote(run_id: str, options: AnnotateOptions, signal: Signal, host: HostClient) -> Annotation:
    run = run_id
    if run == "latest":
        runs = msgspec.json.decode(host.request("GET", "/v1/host/assay/runs?mode=eval&page_size=1"))["runs"]
        if not runs:
            raise UsageError(f"{host.address}: there is no eval run yet")
        run = runs[0]["runId"]
    event, first = options.event, 0
    while options.task is not None and event is None:
        path = f"/v1/host/assay/runs/{run}/eval-report?first={first}&limit=1000"
        page = _detail(host.request("GET", path))
        event = _event_of(page, options.task)
        if event is None and page.next_task is UNSET:
            raise UsageError(f"--task {options.task}: {run} has no such task")
        first += 1000
    body = _body(options, signal, event)
    return _annotation(host.request("POST", f"/v1/runs/{run}/annotations", body))


# `assay judge`: draw judged tasks for people to label, and compare the labels with the judge.

MAX_TASKS = 10  # ids that are listed of tasks without a label


def sample(*, run: str, count: int, seed: int, tenant: str | None, json: bool) -> None:
    """Draw, record and print the tasks to label."""
    run_id, judged = asyncio.run(_sample(run, count, seed, tenant))
    drawn, record = judged.sample_cases(), judged.sample
    assert record is not None
    if json:
        tasks = [{"taskId": task.id, "labelled": task.is_labelled} for task in drawn]
        echo_json(msgspec.json.encode({"run": run_id, **msgspec.to_builtins(record), "tasks": tasks}))
        return
    page = Page()
    page.put(
        f"{run_id}  {record.drawn} of {count_of(record.judged, 'judged task')} drawn with the seed {record.seed}, "
        f"each with probability {record.probability:.3g}"
    )
    for task in drawn:
        page.put(f"  {task.id}{'  labelled' if task.is_labelled else ''}")
    page.put(f"label each of them: assay annotate {run_id} --task ID --passed, --failed or --score X")
    page.put(f"then: assay judge check {run_id}")


def check(*, run: str, tenant: str | None, json: bool) -> None:
    """Print what the labels say about the judge."""
    run_id, check = asyncio.run(_check(run, tenant))
    if json:
        echo_json(msgspec.json.encode({"run": run_id, **msgspec.to_builtins(check)}))
        return
    page = Page()
    page.put(f"{run_id}  {check.labelled} of {count_of(check.judged, 'judged task')} labelled by people")
    for label, text in _rows(check, run_id):
        page.put_indented(f"{label:<11}", text)


def _rows(check: JudgeCheck, run_id: str) -> list[tuple[str, str]]:
    rows = [("agreement", _agreement(check.agreement, "Cohen's κ"))]
    if check.panel is not None:
        rows.append(("panel", _agreement(check.panel.agreement, "Krippendorff's α")))
        rows.append(("", _split(check.panel.split, check.judged)))
    if check.bias is not None:
        side = (
            "higher than people" if check.bias > 0 else "lower than people" if check.bias < 0 else "as high"
        )
        rows.append(("bias", f"{check.bias:+.3f}: over the labelled tasks, the judge's score is {side}"))
    if check.sample is not None:
        rows.append(("sample", f"{check.sample.drawn} tasks drawn with the seed {check.sample.seed}"))
    for name, mean in (("pass rate", check.pass_rate), ("score", check.score)):
        if mean is not None:
            rows.append((name, _corrected(mean)))
    if check.uncorrected:
        rows.append(("corrected", f"no corrected mean: {check.uncorrected}"))
    if check.unlabelled:
        rows.append(("", _listed(check.unlabelled)))
    if check.sample is None:
        rows.append(("", f"draw one: assay judge sample {run_id} -n {min(30, check.judged)}"))
    return rows


def _listed(tasks: list[str]) -> str:
    more = len(tasks) - MAX_TASKS
    return ", ".join(tasks[:MAX_TASKS]) + (f" and {more:,} more" if more > 0 else "")


def _split(tasks: list[str], judged: int) -> str:
    if not tasks:
        return "no task has answers on both sides of the bar"
    return f"{len(tasks):,} of {count_of(judged, 'task')} have answers on both sides of the bar: {_listed(tasks)}"


def _agreement(agreement: Agreement, name: str) -> str:
    if agreement.observed is None:
        return "no labels yet" if not agreement.cases else agreement.reason
    of = f"{agreement.observed:.1%} over {agreement.cases:,}"
    if agreement.value is None:
        return f"{of}; {name} is {agreement.reason}"
    limits = "" if agreement.low is None else f" (95% {agreement.low:.2f}…{agreement.high:.2f})"
    return f"{of}; {name} {round(agreement.value, 2) + 0.0:.2f}{limits}"


def _corrected(mean: CorrectedMean) -> str:
    limits = f"(95% PPI++ {mean.low:.3f}…{mean.high:.3f})"
    return (
        f"{mean.uncorrected:.3f} by the judge, {mean.mean:.3f} {limits} corrected by "
        f"{count_of(mean.labels, 'label')}"
    )


async def _sample(reference: str, count: int, seed: int, tenant: str | None) -> tuple[str, JudgedCases]:
    async with parts.store(settings.load(), light=True) as store:
        run = await find_run(store, reference, KIND, tenant=tenant)
        judged = await read_judged(store, run)
        return run.id, await record_sample(store, run, judged, count, seed, datetime.now(UTC))


async def _check(reference: str, tenant: str | None) -> tuple[str, JudgeCheck]:
    async with parts.store(settings.load(), light=True) as store:
        run = await find_run(store, reference, KIND, tenant=tenant)
        judged = await read_judged(store, run)
        return run.id, check_judge(judged, await read_panel(store, run))
